"""``python -m scripts.results`` writes README, page and picture; ``--check`` only compares them with the rows."""

from __future__ import annotations

import sys
from pathlib import Path

from scripts.results import page, picture, readme
from scripts.results.tree import Tree

HERE = Tree(Path(__file__).parents[2])


def disagreements(tree: Tree) -> list[str]:
    """The files that do not say what the rows say."""
    expected = {tree.readme: readme.rendered(tree), tree.page: page.page(tree)}
    wrong = [path for path, text in expected.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if picture.digest_in_picture(tree) != picture.digest(tree):
        wrong.append(tree.picture)
    return [str(path.relative_to(tree.root)) for path in wrong]


def write(tree: Tree) -> None:
    if picture.digest_in_picture(tree) != picture.digest(tree):
        picture.draw(tree)
    tree.readme.write_text(readme.rendered(tree), encoding="utf-8")
    tree.page.write_text(page.page(tree), encoding="utf-8")


if __name__ == "__main__":
    if "--check" not in sys.argv:
        write(HERE)
    elif wrong := disagreements(HERE):
        sys.exit(f"not what the rows say: {', '.join(wrong)}; run `make results`")
