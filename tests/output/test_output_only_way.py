"""Nothing in `ablate` writes to a terminal but by `ablate/output`, which escapes what it writes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BESIDE = {
    "print",
    "typer.echo",
    "typer.secho",
    "click.echo",
    "click.secho",
    "rich.print",
    "rich.get_console",
    "rich.console.Console",
    "rich.text.Text",
    "rich.markup.render",
    "sys.stdout.write",
    "sys.stderr.write",
    "sys.__stdout__.write",
    "sys.__stderr__.write",
}


def calls(source: str) -> Iterator[tuple[int, str]]:
    """The line and the full name of everything that is called, as far as imports of the file name it."""
    tree, known = ast.parse(source), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            known |= {name.asname or name.name.split(".")[0]: name.asname and name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            known |= {name.asname or name.name: f"{node.module}.{name.name}" for name in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            first, *rest = ast.unparse(node.func).split(".")
            yield node.lineno, ".".join([known.get(first) or first, *rest])


def beside(source: str) -> list[tuple[int, str]]:
    return [(line, name) for line, name in calls(source) if name in BESIDE or name.startswith("rich.text.Text.")]


def test_nothing_is_printed_beside_it():
    found = {}
    for path in sorted((ROOT / "ablate").rglob("*.py")):
        if "output" not in path.relative_to(ROOT / "ablate").parts[:1] and (wrong := beside(path.read_text("utf-8"))):
            found[str(path.relative_to(ROOT))] = wrong
    assert not found


@pytest.mark.parametrize(
    "source",
    [
        "print('a')",
        "import typer\ntyper.echo('a')",
        "from typer import echo as say\nsay('a')",
        "from rich.console import Console\nConsole().print('a')",
        "import rich.console as r\nr.Console()",
        "import rich.text\nrich.text.Text.from_markup('a')",
        "from rich.text import Text\nText('a')",
        "import sys\nsys.stdout.write('a')",
        "from sys import stderr\nstderr.write('a')",
    ],
)
def test_one_that_did_would_be_found(source):
    assert beside(source)
