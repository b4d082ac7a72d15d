"""The experiment that judges the danger score: what counts as failed, and that the space and the program run."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from reading import transformer
from rich.console import Console

import ablate

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "tests" / "benchmarks" / "danger_score.py"


@pytest.fixture(scope="module")
def program():
    spec = importlib.util.spec_from_file_location("danger_score_program", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_the_loss_of_frequencies_is_a_cross_entropy(program):
    train, held_out = np.array([0, 0, 0, 1]), np.array([0, 1, 2, 2])
    shares = np.array([4, 2, 1, 1]) / 8
    assert program.unigram_loss(train, held_out, 4) == pytest.approx(-np.mean(np.log(shares[held_out])))


def test_the_score_that_separates_best_is_that_of_youden(program):
    scores, failed = [5.0, 4.0, 3.0, 2.0, 1.0], [True, True, False, True, False]
    assert program.threshold(scores, failed) == 4.0
    assert program.threshold([1.0, 2.0], [True, False]) == 1.0


def test_blocks_are_drawn_from_every_placement_of_norms_and_skips():
    """Each place of an attention's norm and skip is as likely as any other, and so is each of an MLP's."""
    grammar = transformer().starting("placed")
    drawn = [grammar.derive(k) for k in np.random.default_rng(0).integers(0, grammar.count, 400)]
    skipless = [not any(node.name == "residual" for node in block) for block in drawn]
    assert np.mean(skipless) == pytest.approx(1 / 16, abs=0.035)


@pytest.mark.slow
def test_the_space_runs_and_the_program_judges_it(tmp_path):
    space = ablate.load_space(ROOT / "spaces" / "danger.yaml", profile="smoke")
    done = ablate.run(space, results=tmp_path, executor="inline", console=Console(quiet=True), mirror=False)
    assert not len(done.failed)
    judged = subprocess.run(
        [sys.executable, PROGRAM, "--results", tmp_path], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert "4 blocks; 0 did not end by themselves" in judged.stdout, judged.stderr
    assert "unigram loss" in judged.stdout
    assert judged.returncode == 0 or "an AUC needs two of each" in judged.stderr
