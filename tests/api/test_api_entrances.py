"""The manual's Python, word for word: saved as a file, from standard input, with `python -c` and in a notebook.

Nothing of it is behind `if __name__ == "__main__"`. Each way ends in the numbers and verdicts of the command line.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from documents import code
from reading import ROOT
from tiny_spaces import write_world

import ablate

CODE = code("python", "python")[0]
VERDICTS = "SELECT kind, change, metric, n, estimate, low, high, verdict FROM effects ORDER BY position"
ABLATE = [sys.executable, "-c", "from ablate.cli import main; main()"]


def environment() -> dict[str, str]:
    """As it is, with this tree's code wherever the process stands."""
    paths = [str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "NO_COLOR": "1"}


def process(words: list[str], folder: Path, typed: str | None = None) -> str:
    done = subprocess.run(
        words, cwd=folder, input=typed, capture_output=True, text=True, timeout=540, env=environment()
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def as_file(folder: Path) -> str:
    (folder / "ask.py").write_text(CODE, encoding="utf-8")
    return process([sys.executable, "ask.py"], folder)


def as_input(folder: Path) -> str:
    return process([sys.executable], folder, CODE)


def as_command(folder: Path) -> str:
    return process([sys.executable, "-c", CODE], folder)


def as_notebook(folder: Path) -> str:
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CODE)])
    client = NotebookClient(notebook, timeout=540, kernel_name="python3", resources={"metadata": {"path": str(folder)}})
    client.execute(env=environment())
    return "".join(one.get("text", "") for one in notebook.cells[0].outputs if one.get("name") == "stdout")


WAYS = {"file": as_file, "input": as_input, "command": as_command, "notebook": as_notebook}


def write_small(folder: Path) -> None:
    """A question that takes a second under the name of the manual's, with a profile of that name."""
    (folder / "spaces").mkdir(parents=True)
    space = write_world(folder / "spaces", steps=300, seeds=9, name="op_vs_preln.yaml")
    text = (
        space.read_text().replace("space: tiny", "space: op_vs_preln").replace("{path: {from: pre_ln, to: op}}", SMALL)
    )
    space.write_text(f"{text}profiles: {{smoke: {{recipe: {{steps: 4}}, seeds: 2}}}}\n")


SMALL = "{compare: [pre_ln, op]}"


def write_shipped(folder: Path) -> None:
    """The manual's own question."""
    folder.mkdir()
    for name in ("spaces", "grammars"):
        (folder / name).symlink_to(ROOT / name)


@pytest.fixture(scope="module")
def commanded(tmp_path_factory):
    """The verdicts of the command line on a question, asked once for all ways."""
    told = {}

    def ask(write):
        if write not in told:
            folder = tmp_path_factory.mktemp("commanded") / "here"
            write(folder)
            process([*ABLATE, "run", "spaces/op_vs_preln.yaml", "--profile", "smoke", "--no-mlflow"], folder)
            told[write] = ablate.query(VERDICTS, results=folder / "results")
        return told[write]

    return ask


SLOW = pytest.mark.slow
MARKS = dict.fromkeys(("file", "input"), pytest.mark.full)
"""Of the ways; the others are slow."""


@pytest.mark.parametrize("way", [pytest.param(way, marks=MARKS.get(way, SLOW)) for way in WAYS])
@pytest.mark.parametrize("write", [write_small, pytest.param(write_shipped, marks=SLOW)])
def test_python_of_the_manual_gives_the_verdicts_of_the_command_line(way, write, commanded, tmp_path):
    write(tmp_path / "here")
    said = WAYS[way](tmp_path / "here")
    found = ablate.query(VERDICTS, results=tmp_path / "here" / "results")
    assert len(found) >= 2 and found.equals(commanded(write)), said
    assert "eval_loss" in said and any(verdict in said for verdict in set(found.verdict)), said
    ends = ablate.query("SELECT DISTINCT status FROM trials", results=tmp_path / "here" / "results")
    assert list(ends.status) == ["finished"]
