"""What surrounds a run can be wrong, too: each is refused before any training, in words, with exit code 2.

The expected texts stand in `golden/`; after a change on purpose, `pytest --update-goldens` writes them anew.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_spaces import write_world

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
