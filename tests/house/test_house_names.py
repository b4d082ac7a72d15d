"""Names say what they hold: no vague word lives longer than three lines, and no class is called by a private word."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

import ablate

PACKAGE = Path(ablate.__file__).parent
VAGUE = {"found", "one", "said", "asked", "it"}
LINES = 3
"""As long as a vague name may live: what it holds is then seen at a glance."""
AT_MOST = 20
PRIVATE = {"Standing", "Asked", "Came", "Begun", "Course", "Ground", "Mark", "Look", "Cut"}
"""Names of classes that meant something only to who had written them."""
SCOPES = (
    ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
)


def scopes(tree: ast.AST) -> Iterator[ast.AST]:
    yield tree
    yield from (node for node in ast.walk(tree) if isinstance(node, SCOPES))


def inside(scope: ast.AST) -> Iterator[ast.AST]:
    """What a scope holds itself, and not what is in a scope within it."""
    for child in ast.iter_child_nodes(scope):
        if not isinstance(child, SCOPES):
            yield child
            yield from inside(child)


def lived(scope: ast.AST) -> dict[str, tuple[int, int]]:
    """The first and the last line at which each vague name is read or written in a scope."""
    lines: dict[str, list[int]] = {}
    for node in inside(scope):
        name = node.id if isinstance(node, ast.Name) else node.arg if isinstance(node, ast.arg) else None
        if name in VAGUE:
            lines.setdefault(name, []).append(node.lineno)
    return {name: (min(at), max(at)) for name, at in lines.items()}


def vague(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The line and the name of each vague variable that lives too long, and of each vague field and function."""
    for scope in scopes(tree):
        yield from ((first, name) for name, (first, last) in lived(scope).items() if last - first >= LINES)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.strip("_") in VAGUE:
            yield node.lineno, node.name
        if isinstance(node, ast.ClassDef):
            fields = (part.target for part in node.body if isinstance(part, ast.AnnAssign))
            yield from ((f.lineno, f.id) for f in fields if isinstance(f, ast.Name) and f.id in VAGUE)


@functools.cache
def parsed() -> dict[str, ast.Module]:
    files = sorted(PACKAGE.rglob("*.py"))
    return {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in files}


def test_vague_names_are_few():
    left = sorted({(file, line, name) for file, tree in parsed().items() for line, name in vague(tree)})
    print(*(f"ablate/{file}:{line} {name}" for file, line, name in left), sep="\n")
    assert len(left) <= AT_MOST, left


def test_no_class_has_a_private_name():
    classes = {node.name for tree in parsed().values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    assert not classes & PRIVATE


@pytest.mark.fast
@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("def f():\n    found = 1\n    a = 2\n    b = 3\n    return found + a + b", ["found"]),
        ("def f():\n    found = 1\n    return found", []),
        ("def f(said):\n    a = 1\n    b = 2\n    return said", ["said"]),
        ("def asked(): ...", ["asked"]),
        ("class C:\n    one: int", ["one"]),
        ("def f():\n    a = [one for one in x]\n    b = 1\n    c = 2\n    return {one for one in y}", []),
        ("one = 1\n\n\ndef f():\n    return one", []),
        ("one = 1\n\n\nprint(one)", ["one"]),
    ],
)
def test_it_sees_what_it_looks_for(text, names):
    assert [name for _, name in vague(ast.parse(text))] == names
