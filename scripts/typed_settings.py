"""Writes ebu/agent/settings.py, every setting as a typed keyword, from the fields and docstrings of ebu/config.py.

python -m scripts.typed_settings
"""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE, TARGET = ROOT / "ebu" / "config.py", ROOT / "ebu" / "agent" / "settings.py"
WITHOUT = {"algo", "preset", "env"}  # the class, and arguments of their own
BUILT_IN, TYPING, COLLECTIONS = ("int", "float", "str", "bool"), ("Any", "Literal"), ("Callable", "Mapping", "Sequence")

HEAD = '''"""Every setting of an agent as a keyword, for editors and type checkers.

Written by ``python -m scripts.typed_settings`` from ebu/config.py, where fields and docstrings are kept; not edited by hand.
"""

from __future__ import annotations

from collections.abc import {collections}
from typing import {typing}

{imports}

class Settings(TypedDict, total=False):
    """Any setting by its name; what is not given is the preset's."""

'''


def settings() -> list[tuple[str, str, str]]:
    """Name, type and docstring of every setting, in the order of the stages."""
    found = []
    for stage in ast.parse(SOURCE.read_text(encoding="utf-8")).body:
        if not isinstance(stage, ast.ClassDef) or not stage.name.endswith("Config"):
            continue
        for field, text in zip(stage.body, [*stage.body[1:], None]):
            if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
                continue
            kind = ast.unparse(field.annotation)
            if kind.endswith("Config") or field.target.id in WITHOUT:
                continue
            meaning = str(text.value.value) if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) else ""
            found.append((field.target.id, accepted(field.target.id, kind), meaning))
    return found


def accepted(name: str, kind: str) -> str:
    """What a keyword takes for a field of this type: sequences, dictionaries, a network's factory."""
    if name == "network":
        return f"{kind} | Callable[..., Any]"
    kind = kind.replace("tuple[", "Sequence[").replace(", ...]", "]").replace("'", '"')
    return f"Mapping[str, Any] | {kind}" if name == "env_args" else kind


def render() -> str:
    fields = settings()
    kinds = " ".join(kind for _, kind, _ in fields)
    names = sorted({node.id for _, kind, _ in fields for node in ast.walk(ast.parse(kind)) if isinstance(node, ast.Name)})
    own = [
        name
        for name in names
        if name not in {"int", "float", "str", "bool", "Any", "Literal", "Sequence", "Mapping", "Callable"}
    ]
    imports = f"from ebu.config import {', '.join(own)}\n" if own else ""
    collections = [name for name in COLLECTIONS if f"{name}[" in kinds]
    typing = [name for name in TYPING if name in names] + ["TypedDict"]
    head = HEAD.format(collections=", ".join(collections), typing=", ".join(typing), imports=imports)
    return head + "".join(f'    {name}: {kind}\n    """{text}"""\n' for name, kind, text in fields)


if __name__ == "__main__":
    TARGET.write_text(render(), encoding="utf-8")
