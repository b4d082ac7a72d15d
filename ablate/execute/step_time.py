"""The time of a model's training step, relative to that of another model: the trainer's own steps, timed.

Two models take steps alternately, on real batches, with the threads and on the device that a trial would have. The
first steps are dropped, and the result is the median over the others of the ratio of two consecutive steps, so that a
temporary slowdown of the machine affects both: under load, seven such ratios varied by 3 %, and ratios of the two
medians by 7 % (measured). Nothing is evaluated or probed, and learning rates are so small that nothing is learnt and
nothing diverges. If the device cannot hold two models at once, one is measured after the other.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import torch

from ablate.errors import InputError, RefusedError
from ablate.execute.device import device, device_versions
from ablate.execute.work import compute
from ablate.plan.trial import Trial
from ablate.store.versions import installed
from ablate.train.events import Outcome, Step, Training

WARM_UP = 2
"""Steps that are not counted: memory is allocated, kernels are chosen, the first rows are made."""
FEWEST, MOST = 15, 200
"""Counted steps of each model."""
SECONDS = 5.0
"""The time to spend on steps, within those bounds."""
NEVER = 10**9
RATE = 1e-12


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds of one training step of a model, and of the model `beside` it; `why` they are only assumed, if they are.

    `middle` is the interquartile range of the ratios of two steps, None if steps were not taken in pairs.
    """

    seconds: float
    beside: float
    middle: tuple[float, float] | None = None
    why: str = ""

    @property
    def ratio(self) -> float:
        """The step time relative to that of the other model."""
        return self.seconds / self.beside

    @property
    def spread(self) -> float | None:
        """The width of the interquartile range as a share of the ratio; None if steps were not taken in pairs."""
        return None if self.middle is None else (self.middle[1] - self.middle[0]) / self.ratio


class NoStep(Exception):
    """A model did not finish a step; the text says why. `kind` is that of the outcome a trial would have."""

    def __init__(self, kind: str, why: str):
        super().__init__(why)
        self.kind = kind


def machine() -> dict[str, str]:
    """Return what decides the step time on this machine: the device, and the versions of the libraries."""
    return installed() | device_versions()


def pace(trial: Trial, beside: Trial, *, cache: Path, plugins: tuple[Path, ...]) -> Pace:
    """Measure the pace of a trial's model relative to another's; `cache` holds the token streams.

    Raises NoStep if one of the two finishes no step; InputError and RefusedError as a trial does.
    """
    stepping = [_Stepping(_bare(each), cache, plugins) for each in (trial, beside)]
    with _left_as_it_was():
        try:
            ours, others = _measured(stepping)
        except NoStep as ended:
            if ended.kind != "out_of_memory":
                raise
            (ours,), (others,) = _measured(stepping[:1]), _measured(stepping[1:])
            return Pace(statistics.median(ours), statistics.median(others))
    seconds = statistics.median(others)
    low, ratio, high = statistics.quantiles((a / b for a, b in zip(ours, others, strict=True)), n=4)
    return Pace(seconds * ratio, seconds, (low, high))


@dataclass(frozen=True, slots=True)
class _Stepping:
    """A trial that is trained one step at a time."""

    trial: Trial
    cache: Path
    plugins: tuple[Path, ...]

    def begin(self) -> Generator[Training, None, None]:
        """Start training, and return its events."""
        events = compute(self.trial, cache=self.cache, plugins=self.plugins, resume=None, should_stop=lambda: False)
        return cast(Generator[Training, None, None], events)

    def step(self, events: Iterator[Training]) -> float:
        """Take the next step, and return its seconds."""
        began = time.perf_counter()
        try:
            for event in events:
                match event:
                    case Step():
                        if device() == "cuda":
                            torch.cuda.synchronize()
                        return time.perf_counter() - began
                    case Outcome(kind=kind, detail=detail):
                        raise NoStep(kind, str(detail.get("cause", kind)))
        except (InputError, RefusedError, NoStep):
            raise
        except Exception as error:
            raise NoStep("bug", f"{type(error).__name__}: {error}") from error
        raise NoStep("finished", "it has no steps")


def _measured(stepping: Sequence[_Stepping]) -> list[list[float]]:
    """Return the seconds of each counted step of each trial, which take steps in turn."""
    times: list[list[float]] = [[] for _ in stepping]
    with ExitStack() as stack:
        events = [stack.enter_context(closing(each.begin())) for each in stepping]
        began = time.perf_counter()
        while len(times[0]) < WARM_UP + FEWEST or (
            time.perf_counter() - began < SECONDS and len(times[0]) < WARM_UP + MOST
        ):
            for each, running, taken in zip(stepping, events, times, strict=True):
                taken.append(each.step(running))
    if device() == "cuda":
        torch.cuda.empty_cache()
    return [taken[WARM_UP:] for taken in times]


def _bare(trial: Trial) -> Trial:
    """Return the trial without an end, in batches of full size, and without what is not part of a training step."""
    recipe, measure = trial.recipe, trial.measure
    chosen = recipe.optimizer.settings
    slow = {name: RATE for name, value in chosen.items() if name.endswith("lr") and value is not None}
    optimizer = replace(recipe.optimizer, settings={**chosen, **slow})
    schedule = recipe.schedule.model_copy(update={"floor": 0.0})
    evaluation = measure.evaluation.model_copy(update={"every": NEVER, "windows": 1})
    never = {"every": NEVER, "checkpoint_every": NEVER, "probes": (), "evaluation": evaluation}
    update = {"steps": NEVER, "optimizer": optimizer, "schedule": schedule, "batch_ramp": None}
    return replace(trial, recipe=recipe.model_copy(update=update), measure=measure.model_copy(update=never))


@contextmanager
def _left_as_it_was() -> Iterator[None]:
    """Restore threads, determinism and random numbers of this process on exit."""
    threads, deterministic = torch.get_num_threads(), torch.get_deterministic_debug_mode()
    filled = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    try:
        with torch.random.fork_rng():
            yield
    finally:
        torch.set_num_threads(threads)
        torch.set_deterministic_debug_mode(deterministic)
        torch.utils.deterministic.fill_uninitialized_memory = filled  # type: ignore[attr-defined]
