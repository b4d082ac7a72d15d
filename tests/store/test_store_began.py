"""When a trial began: when its worker took it up, not when that was heard; what it took is reckoned from there."""

from __future__ import annotations

import time

import pytest
from rich.console import Console
from store_fixtures import VERSIONS, course, opened, trial
from tiny_spaces import write_world

import ablate
from ablate.execute import worker
from ablate.store import journal
from ablate.store.measurements import ended_rows
from ablate.store.snapshot import Snapshot
from ablate.train.events import Began

ON_A_GPU = {**VERSIONS, "device": "a GPU"}
"""What a worker says of itself is never what its driver takes to be installed, so its segment is begun when heard."""


@pytest.mark.full
def test_a_trial_takes_at_least_as_long_as_its_own_steps(tmp_path, monkeypatch):
    """The worker speaks once, at the end: what it said last was heard when it said that it began."""
    monkeypatch.setattr(worker, "SPEAK_EVERY", 3600.0)
    space = ablate.load_space(write_world(tmp_path))
    results = tmp_path / "results"
    ablate.run(space, results=results, executor="inline", console=Console(quiet=True), mirror=False)
    known = Snapshot(results).endings.values()
    took = [(one.ended - one.began, ended_rows(results, one.trial).seconds()) for one in known]
    assert took and all(whole >= steps > 0 for whole, steps in took), took


@pytest.mark.parametrize("versions", [VERSIONS, ON_A_GPU])
def test_the_segment_says_when_the_worker_began(tmp_path, versions):
    with opened(tmp_path) as results:
        results.begin(trial())
        at = time.time()
        while time.time() == at:  # the clock has gone on until it is heard
            pass
        results.append("a10000", [Began(0, versions, at=at), *course("a10000")[:5]])
        assert journal.read(journal.path_of(tmp_path, "a10000")).beginning.began == at
        results.append("a10000", course("a10000")[5:])
    assert Snapshot(tmp_path).endings["a10000"].began == at


@pytest.mark.parametrize("off", [-3600.0, 3600.0])
def test_a_node_whose_clock_is_wrong_does_not_move_the_beginning_before_or_behind_the_trial(tmp_path, off):
    before = time.time()
    with opened(tmp_path) as results:
        results.begin(trial())
        results.append("a10000", [Began(0, ON_A_GPU, at=time.time() + off), *course("a10000")])
    found = Snapshot(tmp_path).endings["a10000"]
    assert before <= found.began <= found.ended <= time.time()
