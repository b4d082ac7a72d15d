"""On which text a trial is evaluated: its seed decides it, and nothing else, wherever and however it is carried out."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from altered_trials import altered
from tiny_spaces import write_world

import ablate
from ablate.execute import work, worker
from ablate.execute.executor import Task
from ablate.train.events import Outcome


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("world")
    return ablate.plan_space(ablate.load_space(write_world(folder)), results=folder / "r")


@pytest.fixture
def windows_of(tmp_path, monkeypatch):
    """The windows that a task's training is given to evaluate on."""
    given = []

    def train(model, trial, batches, evaluation, **how):
        given.append(evaluation)
        yield Outcome("interrupted", 0)

    monkeypatch.setattr(work, "train", train)

    def windows_of(trial, **how):
        for _ in worker.messages(Task(trial=trial, folder=tmp_path, **how), lambda: False):
            pass
        return torch.stack(given.pop()[:2])

    return windows_of


def test_variants_of_a_seed_are_evaluated_on_the_same_windows_and_seeds_on_their_own(planned, windows_of):
    trials = planned.plan.trials
    assert len({trial.variant for trial in trials}) == 4 and {trial.seed for trial in trials} == {0, 1}
    windows = {(trial.variant, trial.seed): windows_of(trial) for trial in trials}
    for variant, _ in windows:
        for seed in (0, 1):
            assert torch.equal(windows[variant, seed], windows[trials[0].variant, seed])
    assert not torch.equal(windows[trials[0].variant, 0], windows[trials[0].variant, 1])


def test_another_salt_rate_or_number_of_steps_leaves_the_windows(planned, windows_of):
    """As A/A arms, settings that are tuned and equal FLOPs have them."""
    trial = planned.plan.trials[0]
    longer = trial.work.recipe.model_copy(update={"steps": 99})
    for other in (replace(trial, salt=3), altered(trial, recipe=longer), replace(trial, id="another")):
        assert torch.equal(windows_of(other), windows_of(trial))
    assert torch.equal(windows_of(trial, until=3, parts=2), windows_of(trial))


def test_each_split_has_windows_of_its_own(planned, windows_of):
    trial = planned.plan.trials[0]
    tuning, verdict = windows_of(replace(trial, split="tuning")), windows_of(trial)
    assert tuning.shape == verdict.shape and not torch.equal(tuning, verdict)
