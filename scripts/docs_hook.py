"""For the documentation site: pages link to files of the repository that are not pages; there they lead to the repository.

On the repository's own pages the relative links work as they are. Pictures outside docs/ are copied into the site.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"(?P<start>!?\[[^\]]*\]\()(?P<target>[^)\s#]+)(?P<rest>#[^)\s]*)?\)")
PICTURES = (".png", ".svg", ".gif")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """A page that mkdocs.yml does not name yet is listed at the end of "How to": none is lost."""
    named = str(config.nav)
    new = [path.name for path in sorted(Path(config.docs_dir).glob("*.md")) if f"'{path.name}'" not in named]
    how_to = next(entries for section in config.nav or [] for title, entries in section.items() if title == "How to")
    how_to.extend(new)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Pictures of results that a page shows become part of the site."""
    for page in sorted(Path(config.docs_dir).rglob("*.md")):
        for match in LINK.finditer(page.read_text(encoding="utf-8")):
            path = _outside(page.relative_to(config.docs_dir).as_posix(), match["target"])
            if path is not None and path.endswith(PICTURES) and not files.get_file_from_path(path):
                files.append(File(path, str(ROOT), config.site_dir, config.use_directory_urls))
    return files


def on_page_markdown(markdown: str, page: Any, config: MkDocsConfig, files: Files) -> str:
    def place(match: re.Match[str]) -> str:
        path = _outside(page.file.src_uri, match["target"])
        if path is None:
            return match[0]
        if path.endswith(PICTURES):
            target = posixpath.relpath(path, posixpath.dirname(page.file.src_uri))
        else:
            kind = "tree" if (ROOT / path).is_dir() else "blob"
            target = f"{config.extra['repository']}/{kind}/main/{path}"
        return f"{match['start']}{target}{match['rest'] or ''})"

    return LINK.sub(place, markdown)


def _outside(page: str, target: str) -> str | None:
    """The path, from the root of the repository, of what a page links to outside docs/; None for everything else."""
    if "://" in target or target.startswith(("mailto:", "#")):
        return None
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target))
    inside = path.startswith("docs/") and path != "docs/algorithms"
    return None if inside or path.startswith("..") else path
