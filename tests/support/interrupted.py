"""A trial that is interrupted and goes on: every number that it measures, and every parameter, is as without it."""

from __future__ import annotations

import io
from pathlib import Path

import torch

import ablate
from ablate.execute.executor import cache_of
from ablate.execute.work import compute
from ablate.train.events import Checkpoint, Outcome, Row


def assert_goes_on_to_the_same_bits(
    space, results: Path, *, steps: int, stop_at: int, trial: int = 0, plugins=()
) -> None:
    """Of a trial of so many steps, which keeps a state after some of them, interrupted before step `stop_at`."""
    chosen, cache = ablate.plan_space(space, results=results).plan.trials[trial], cache_of(results)

    def run(resume=None, stop=None):
        count = iter(range(2 * steps))
        return list(
            compute(chosen, cache=cache, plugins=plugins, resume=resume, should_stop=lambda: next(count) == stop)
        )

    whole, before = run(), run(stop=stop_at)
    state = checkpoints(before)[-1]
    assert before[-1] == Outcome("interrupted", stop_at) and state.step == stop_at
    after = run(resume=state.state)
    assert whole[-1] == after[-1] == Outcome("finished", steps)
    assert rows(before) + rows(after) == rows(whole) and rows(whole)
    ends = [checkpoints(events)[-1] for events in (whole, after)]
    assert ends[0].step == ends[1].step > stop_at
    assert all(torch.equal(a, b) for a, b in zip(*map(parameters, ends), strict=True))


def checkpoints(events) -> list[Checkpoint]:
    return [event for event in events if isinstance(event, Checkpoint)]


def rows(events) -> list[Row]:
    return [event for event in events if isinstance(event, Row)]


def parameters(checkpoint: Checkpoint) -> list[torch.Tensor]:
    return [*torch.load(io.BytesIO(checkpoint.state), weights_only=True)["model"].values()]
