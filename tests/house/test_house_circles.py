"""No file of the package imports another that imports it, at whatever distance: what is imported within a function, or
for types alone, counts too."""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Mapping
from pathlib import Path

import pytest

pytestmark = pytest.mark.fast

ROOT = Path(__file__).parents[2]


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(text: str, modules: set[str]) -> set[str]:
    """The modules of ours that a text imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            for name in node.names:
                inside = f"{node.module}.{name.name}"
                found.add(inside if inside in modules else node.module)
    return found & modules


def circle_in(texts: Mapping[str, str]) -> list[str]:
    """The modules of a circle, the first one again at its end."""
    graph = {module: imports_of(text, {*texts}) - {module} for module, text in texts.items()}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return [*error.args[1]]
    return []


def test_no_files_import_each_other_in_a_circle():
    texts = {module_of(path): path.read_text(encoding="utf-8") for path in (ROOT / "ablate").rglob("*.py")}
    circle = circle_in(texts)
    print(f"{len(texts)} files, in a circle: {circle or 0}")
    assert len(texts) > 300 and circle == []


def test_a_circle_through_a_function_would_be_found():
    texts = {"a": "import b", "b": "def f():\n    from c import g", "c": "from a import h", "d": "import a"}
    assert {*circle_in(texts)} == {"a", "b", "c"}
    assert circle_in(texts | {"c": ""}) == []
