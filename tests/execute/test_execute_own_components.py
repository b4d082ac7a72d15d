"""A component of PyTorch's own layers (nn.Linear, nn.Embedding, nn.Dropout) gives the same bits wherever it trains."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from own_fixtures import write_own_world
from rich.console import Console
from tiny_spaces import rows_of

import ablate

QUIET = {"console": Console(quiet=True), "mirror": False}


@pytest.fixture(scope="module")
def spaces(tmp_path_factory):
    """The same question asked in two orders, so that other trials run before in the same worker."""
    rows = []
    for order in ("plain, pre_ln", "pre_ln, plain"):
        space, plugin = write_own_world(tmp_path_factory.mktemp("own"), order)
        rows.append((ablate.load_space(space, plugins=[plugin]), [plugin]))
    return rows


def trained(asked, results, **options):
    space, plugins = asked
    done = ablate.run(space, results=results, plugins=plugins, **options, **QUIET)
    assert done.ended.kinds == {"finished": 2}
    return rows_of(results)


@pytest.fixture(scope="module")
def undisturbed(spaces, tmp_path_factory):
    return trained(spaces[0], tmp_path_factory.mktemp("undisturbed"), executor="inline")


def disturb(seed):
    """What another trial, or the user, may have drawn in the process before."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


@pytest.mark.parametrize(
    "options",
    [{"executor": "inline"}, pytest.param({"executor": "local", "workers": 1}, marks=pytest.mark.full)],
    ids=str,
)
def test_twice_the_same_bits_whatever_ran_before(spaces, undisturbed, tmp_path, options):
    disturb(1)
    rows = trained(spaces[1], tmp_path, **options)
    assert {row[0] for row in rows} == {row[0] for row in undisturbed}, "the same trials"
    assert rows == undisturbed


@pytest.mark.full
def test_the_process_goes_on_as_if_no_trial_had_drawn(spaces, undisturbed, tmp_path):
    disturb(0)
    before = [torch.rand(2).tolist(), random.random(), np.random.rand()]
    disturb(0)
    trained(spaces[0], tmp_path, executor="inline")
    assert [torch.rand(2).tolist(), random.random(), np.random.rand()] == before


@pytest.mark.full
def test_stopped_and_gone_on_in_a_process_that_drew_other_numbers(spaces, undisturbed, tmp_path, monkeypatch):
    from ablate.execute import controller, worker

    monkeypatch.setattr(worker, "SPEAK_EVERY", 0.0)

    def stop_soon(self):
        self.calls = getattr(self, "calls", 0) + 1
        self.requested = self.calls > 8
        return self.requested

    monkeypatch.setattr(controller.Interrupt, "__call__", stop_soon)
    space, plugins = spaces[0]
    interruptions = 0
    for attempt in range(40):
        disturb(attempt)
        done = ablate.run(space, results=tmp_path, plugins=plugins, executor="inline", **QUIET)
        interruptions += done.ended.kinds["interrupted"]
        if not done.ended.kinds["interrupted"] and not done.ended.waiting:
            break
    assert interruptions >= 3
    assert rows_of(tmp_path) == undisturbed


def test_the_twin_two_trials_differ(undisturbed):
    losses = {row[4] for row in undisturbed if row[1] == 0 and row[2] == "train_loss"}
    assert len(losses) == 2
