"""Encoders, and models of two stacks, learn more than how frequent tokens are, alike wherever they run, and resume."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from interrupted import assert_goes_on_to_the_same_bits
from objective_worlds import OBJECTIVES, PLUGINS
from rich.console import Console
from tiny_spaces import rows_of, write_world

import ablate
from ablate.data.batch import NO_TARGET, first
from ablate.execute.executor import cache_of
from ablate.execute.work import drawn_examples
from ablate.train.objective import chosen_objective, examples_of, objective_of

QUIET = {"console": Console(quiet=True), "mirror": False, "plugins": PLUGINS}


def space_of(folder, objective, steps, *more):
    path = write_world(folder, steps=steps, seeds=1, lr="1e-2")
    design = () if objective != "masked_words" else ("design={compare: [pre_ln, op]}",)
    return ablate.load_space(path, settings=(*OBJECTIVES[objective], *design, *more), plugins=PLUGINS)


def frequencies(space, results):
    """The cross-entropy of the targets of the evaluation, of who knows only how frequent each is there."""
    from ablate.data.streams import prepare

    trial = ablate.plan_space(space, results=results).plan.trials[0]
    catalogue = space.grammar.catalogue
    streams = prepare(space.data, space.folder, cache_of(results), catalogue)
    drawn = drawn_examples(streams, *chosen_objective(trial.work.recipe, catalogue), trial)
    targets = first(examples_of(drawn, objective_of(trial, catalogue), trial, catalogue).targets)
    counts = np.bincount(targets[targets != NO_TARGET].numpy())
    shares = counts[counts > 0] / counts.sum()
    return -(shares * np.log(shares)).sum()


LEARN = {
    "masked_words": (400, ()),
    "sequence_to_sequence": (
        800,
        ("model.width=48", "model.position={learned: 0.02}", "recipe.optimizer.adamw.lr=5e-3"),
    ),
    "span_filling": (300, ()),
}
"""Steps, and what else it takes to come below three quarters of the frequencies' cross-entropy."""


@pytest.mark.full
@pytest.mark.parametrize("objective", LEARN)
def test_a_run_learns_more_than_how_frequent_tokens_are(tmp_path, objective):
    steps, more = LEARN[objective]
    space = space_of(tmp_path, objective, steps, "recipe.batch=16", "measure.evaluation.windows=16", *more)
    ablate.run(space, results=tmp_path / "results", executor="local", workers=2, **QUIET)
    statement = f"SELECT value FROM metrics WHERE step = {steps} AND metric = 'eval_loss' AND address = ''"
    losses = ablate.query(statement, results=tmp_path / "results").value
    trivial = frequencies(space, tmp_path / "results")
    assert len(losses) == 2 and losses.min() < 0.75 * trivial, (losses.tolist(), trivial)


@pytest.mark.sampled(0, gate=2)
@pytest.mark.parametrize("executor", ["local", "ray"])
@pytest.mark.parametrize("objective", ["masked_words", "sequence_to_sequence"])
def test_the_bits_are_the_same_wherever_it_runs(tmp_path, objective, executor):
    space = space_of(tmp_path, objective, 12)
    ablate.run(space, results=tmp_path / "calm", executor="inline", **QUIET)
    ablate.run(space, results=tmp_path / "there", executor=executor, workers=2, **QUIET)
    expected = rows_of(tmp_path / "calm")
    assert rows_of(tmp_path / "there") == expected and len({row[0] for row in expected}) == 2


@pytest.mark.parametrize("objective", LEARN)
def test_an_interrupted_trial_goes_on_to_the_same_bits(tmp_path: Path, objective):
    space = space_of(tmp_path, objective, 12)
    assert_goes_on_to_the_same_bits(space, tmp_path / "results", steps=12, stop_at=7, plugins=PLUGINS)
