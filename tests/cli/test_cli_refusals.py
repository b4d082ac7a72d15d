"""What surrounds a run can be wrong, too: each is refused before any training, in words, with exit code 2.

The expected texts stand in `golden/`; after a change on purpose, `pytest --update-goldens` writes them anew.
"""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_spaces import write_world

import ablate
from ablate import api
from ablate.cli import main
from ablate.cli.app import VERBS
from ablate.errors import RefusedError

GOLDEN = Path(__file__).parent / "golden"
FILES = 'files: ["texts/**/*.txt"]'
CASES = {
    "no_corpus": ({FILES: 'files: ["nothing/**/*.txt"]'}, ()),
    "one_folder": ({FILES: 'files: ["texts/g0/0.txt"]'}, ()),
    "small_corpus": ({}, ("--set", "model.context=16384")),
    "too_many_windows": ({"windows: 8": "windows: 80000"}, ()),
    "hub_without_network": ({f"{{{FILES}}}": "{hub: nobody/nothing, split: train, field: text}"}, ()),
    "results_is_a_file": ({}, ("--results", "tiny.yaml")),
    "results_cannot_be_made": ({}, ("--results", "/proc/nowhere")),
    "unknown_profile": ({}, ("--profile", "smok")),
    "setting_without_value": ({}, ("--set", "recipe.steps")),
    "setting_of_a_wrong_type": ({}, ("--set", "recipe.steps=many")),
    "override_without_effect": ({}, ("--set", "block.attention.position=none")),
    "unknown_plugin": ({}, ("--plugin", "nowhere.py")),
    "plugin_that_is_no_python": ({}, ("--plugin", "tiny.yaml")),
    "heads_do_not_divide": ({}, ("--set", "model.heads=3")),
    "odd_head_for_rope": ({}, ("--set", "model.width=14", "--set", "model.heads=2")),
    "full_attention": ({}, ("--set", "model.causal=false")),
    "floor_above_the_peak": ({}, ("--set", "recipe.schedule.floor={rate: 2}")),
    "floor_of_a_constant_rate": ({}, ("--set", "recipe.schedule={decay: constant, floor: 10%}")),
    "norm_of_zeros": (
        {},
        (
            "--set",
            "blocks={odd: [residual: [mlp: {up: {spectral: {init: zero}}}]]}",
            "--set",
            "design={compare: [pre_ln, odd]}",
        ),
    ),
    "gain_without_value": (
        {},
        (
            "--set",
            "blocks={odd: [residual: {gain: 1/(layer-1), branch: [mlp]}]}",
            "--set",
            "design={compare: [pre_ln, odd]}",
        ),
    ),
}


def refuse(name: str, folder: Path) -> str:
    """What `ablate run` says of a case; asserts that it is a refusal and that nothing was trained."""
    changes, words = CASES[name]
    space = write_world(folder)
    text = space.read_text()
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    space.write_text(text)
    done = subprocess.run(
        [sys.executable, "-c", "from ablate.cli import main; main()", "run", "tiny.yaml", "--no-mlflow", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "COLUMNS": "100"},
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert not list(folder.glob("results/journal/*"))
    return done.stderr.replace(str(folder), "FOLDER")


@pytest.mark.sampled(1, gate="all")
@pytest.mark.parametrize("name", CASES)
def test_it_is_refused_in_words(name, tmp_path, golden):
    golden(GOLDEN / f"{name}.txt", refuse(name, tmp_path))


WORDS = {
    "plan": ("tiny.yaml",),
    "run": ("tiny.yaml",),
    "resume": (),
    "retry": (),
    "report": ("tiny",),
    "judge": ("SELECT 1", "--metric", "loss"),
    "status": (),
    "sql": ("SELECT 1",),
    "ui": (),
    "forecast": ("tiny.yaml",),
    "doctor": (),
    "bundle": ("tiny",),
    "load": ("tiny.zip",),
    "mlflow": (),
}
NO_FOLDERS = {"tiny.yaml": "Not a directory", "tiny.yaml/results": "Not a directory", "n" * 300: "File name too long"}


def test_every_verb_with_a_results_folder_is_tried():
    assert WORDS.keys() == {verb.__name__ for verb in VERBS if "results" in inspect.signature(verb).parameters}


@pytest.mark.parametrize("results", NO_FOLDERS)
@pytest.mark.parametrize("verb", WORDS)
def test_what_cannot_be_a_results_folder_is_refused_by_every_verb(tmp_path, monkeypatch, capsys, verb, results):
    write_world(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["ablate", verb, *WORDS[verb], "--results", results])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert capsys.readouterr() == (
        "",
        f"error: cannot use {results} as a results folder: {NO_FOLDERS[results]}\n"
        "  = choose another folder with --results\n",
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["texts", "tiny.yaml"]


def test_python_refuses_it_too(tmp_path):
    space = ablate.load_space(write_world(tmp_path))
    for ask in (
        lambda path: ablate.plan_space(space, results=path),
        lambda path: ablate.run(space, results=path),
        lambda path: ablate.query("SELECT 1", results=path),
        lambda path: api.resumable(path),
        lambda path: api.retriable(path),
    ):
        with pytest.raises(RefusedError, match=r"cannot use .*tiny\.yaml as a results folder: Not a directory"):
            ask(tmp_path / "tiny.yaml")
