"""`ablate list` has each kind of thing that a file adds, a plugin's own included."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import pytest
from builders import CATALOGUE
from rich.console import Console
from tiny_spaces import ROOT

from ablate.report.screens import catalogue
from ablate.space.data import CorpusSpec

ABLATE = "import sys; sys.argv[0] = 'ablate'; from ablate.cli import main; main()"
PLUGIN = '''"""Half: half the peak once the hold is over."""
from ablate.train.schedules.declare import Behind, Document, schedule


@schedule("half", source="this test", version=3)
class Half(Document):
    heat: float

    def share(self, at: Behind) -> float:
        return 0.5
'''


def run(*words):
    environment = {**os.environ, "COLUMNS": "120"}
    done = subprocess.run(
        [sys.executable, "-c", ABLATE, "list", *words], cwd=ROOT, capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("kind", "name", "source"),
    [("optimizers", "soap", "arXiv:2409.11321"), ("schedules", "wsd", "arXiv:2404.06395")],
)
def test_a_kind_is_listed_with_what_it_does_and_where_it_is_from(kind, name, source):
    shown = " ".join(run(kind).split())
    assert shown.startswith(kind) and f" {name} " in shown and source in shown
    (entry,) = [entry for entry in json.loads(run(kind, "--json")) if entry["name"] == name]
    assert source in entry["source"] and entry["file"].endswith(f"{name}.py") and entry["settings"]


def test_what_each_corpus_is_is_shown_whole():
    """From its first word on: a colon in it would be taken for the end of a name."""
    screen = Console(file=io.StringIO(), width=1000)
    corpora = CATALOGUE.of_kind(CorpusSpec).values()
    screen.print(catalogue.things("corpora", corpora))
    shown = screen.file.getvalue()
    assert "Images of handwritten digits, 8 x 8, which come with scikit-learn" in shown
    assert [spec.name for spec in corpora if spec.summary not in shown] == []


@pytest.mark.full
def test_a_plugin_s_own_is_among_them(tmp_path):
    path = tmp_path / "half.py"
    path.write_text(PLUGIN, encoding="utf-8")
    assert "half half the peak once the hold is over. this test" in " ".join(
        run("schedules", "--plugin", str(path)).split()
    )
    (entry,) = [e for e in json.loads(run("schedules", "--plugin", str(path), "--json")) if e["name"] == "half"]
    assert (entry["version"], entry["settings"], entry["file"]) == (3, ["heat"], str(path))
    assert "half" not in [entry["name"] for entry in json.loads(run("schedules", "--json"))]


@pytest.mark.full
@pytest.mark.parametrize("kind", ["samplers", "corpora"])
def test_every_kind_has_its_list(kind):
    assert run(kind).strip() and isinstance(json.loads(run(kind, "--json")), list)
