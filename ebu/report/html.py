"""Pieces of HTML: one self-contained document, tables, pictures inside it. Everything that comes from data is escaped."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import metadata, resources
from pathlib import Path
from string import Template
from typing import Any

from ebu.errors import UserError
from ebu.storage.files import MAX_PICTURE, make_folders, read_file, write_atomically

MANY_COLUMNS = 7  # with more, a table is set in small type


def asset(name: str) -> str:
    return resources.files("ebu.report").joinpath("assets", name).read_text(encoding="utf-8")


def document(title: str, body: str, *, styles: Iterable[str], scripts: Iterable[str], data: Any) -> str:
    """A page that needs no other file and no network: style, code and data are all inside."""
    return Template(asset("page.html")).substitute(
        title=escape(title),
        body=body,
        style="\n".join(map(asset, styles)),
        script="\n".join(map(asset, scripts)),
        data=embedded(data),
        version=escape(version("episodic-backward-update")),
    )


def embedded(data: Any) -> str:
    """JSON that is safe inside a script element; what is not a number (NaN, ∞) becomes null, as browsers want."""
    text = json.dumps(_finite(data), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def write(path: Path, text: str) -> Path:
    """Whole or not at all: a page that is open in a browser is replaced in one move."""
    try:
        make_folders(path.parent)
        write_atomically(path, text)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"cannot write {path}: {reason}; choose another --out file") from error
    return path


def table(header: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> str:
    """A table of escaped text, the first column naming its row. Columns of numbers are set to the right; **x** is bold."""
    body = [list(row) for row in rows]
    numeric = [bool(body) and all(_is_number(row[column]) for row in body) for column in range(len(header))]

    def cell(tag: str, words: str, column: int, scope: str = "") -> str:
        kind = ' class="number"' if numeric[column] else ""
        bold = len(words) > 4 and words.startswith("**") and words.endswith("**")
        body = f"<b>{escape(words[2:-2])}</b>" if bold else escape(words)
        return f"<{tag}{scope}{kind}>{body}</{tag}>"

    head = "".join(cell("th", words, i, ' scope="col"') for i, words in enumerate(header))
    lines = "".join(
        "<tr>" + cell("th", row[0], 0, ' scope="row"') + "".join(cell("td", w, i) for i, w in enumerate(row[1:], 1)) + "</tr>"
        for row in body
    )
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    kind = ' class="tight"' if len(header) > MANY_COLUMNS else ""
    return f'<div class="scroll"><table{kind}>{title}<thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>'


def picture(path: Path, alt: str, caption: str = "") -> str:
    """A PNG inside the page."""
    encoded = base64.b64encode(read_file(path, MAX_PICTURE)).decode("ascii")
    words = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f'<figure><img src="data:image/png;base64,{encoded}" alt="{escape(alt)}">{words}</figure>'


def command(text: str) -> str:
    button = '<button type="button" class="button" data-copy>Copy</button>'
    return f'<div class="command"><code>{escape(text)}</code>{button}</div>'


def version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"


def _is_number(words: str) -> bool:
    words = re.sub(r" \(n=\d+\)(?=\**$)", "", words)  # the number of runs behind it
    return words.strip("+-−–%×~* ").replace(",", "").replace(".", "", 1).isdigit() or words in ("", "–")


def _finite(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {str(key): _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
