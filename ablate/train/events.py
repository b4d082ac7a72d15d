"""Events: the output of training, the messages of a worker to the driver, and the measurements of a step as rows.

the trainer yields   Attending, Row, Timing, Step, Checkpoint, Outcome       it never touches a disk
a worker sends       Began, Row, Timing, Saved, Outcome                      it writes states, the driver the rest
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from ablate.probes.reading import Reading


@dataclass(frozen=True, slots=True)
class Row:
    """One measured number.

    `address` names the part (`layers.3.attention`), empty for the whole model. (step, metric, address) is unique within
    a trial; `value` may be infinite or NaN (divergence is a result).
    """

    step: int
    metric: str
    address: str
    value: float


@dataclass(frozen=True, slots=True)
class Timing:
    """A time measured by the clock, so never part of a bit-for-bit comparison."""

    step: int
    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Step:
    """A heartbeat: `step` steps are done, with nothing to record."""

    step: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Everything needed to resume after `step` steps, as bytes; on CPU the result is bit-identical."""

    step: int
    state: bytes


@dataclass(frozen=True, slots=True)
class KernelUse:
    """The attentions at `address` (`layers.*.attention` where layers agree) are computed by the backend `kernel`.

    `reason` is why that backend was chosen, and `refused` whether a preferred one does not work on this machine.
    `operator` is the operator that the backend runs, if it reports one; `memory` the bytes of scores that all of these
    attentions hold for a step, 0 if none are held.
    """

    address: str
    kernel: str
    reason: str
    operator: str = ""
    refused: bool = False
    memory: int = 0

    @property
    def named(self) -> str:
        return f"{self.kernel} ({self.operator})" if self.operator else self.kernel

    @property
    def described(self) -> str:
        held = f", {_size(self.memory)} in a step" if self.memory else ""
        return f"{self.address} uses {self.named}: {self.reason}{held}"


@dataclass(frozen=True, slots=True)
class Attending:
    """The attention backends of the model: the first event of training, before anything is computed."""

    uses: tuple[KernelUse, ...]
    step: int = 0

    @property
    def operators(self) -> str:
        """The part that is stored with the versions of a trial: addresses, backends and operators, without reasons."""
        return "; ".join(f"{use.address} {use.named}" for use in self.uses)


@dataclass(frozen=True, slots=True)
class Began:
    """A worker has started the trial at `step` (0: from its beginning), with these versions of what computes it.

    `attention` are its attention backends, with reasons; empty if they are not known yet. `at` is the time in seconds
    since 1970 by the worker's clock.
    """

    step: int
    versions: Mapping[str, str]
    attention: tuple[KernelUse, ...] = field(default=(), compare=False)
    at: float = field(default_factory=time.time, compare=False)


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint on the disk: the step, and the CRC-32 and length in bytes of its state."""

    step: int
    crc: int
    size: int


OutcomeKind: TypeAlias = Literal[
    "finished", "diverged", "pruned", "out_of_memory", "bug", "timeout", "lost", "interrupted", "paused"
]
GOES_ON: tuple[OutcomeKind, ...] = ("interrupted", "paused")
"""Outcomes that do not end a trial: it resumes from its checkpoint."""
WITH_RESULT: tuple[OutcomeKind, ...] = ("finished", "diverged")
"""Outcomes of trials that have a result: no run trains them again."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a trial.

    `detail` is JSON-able: for `diverged` the step, the first part with a non-finite output and the last statistics; for
    `bug` the trace; for `timeout` the limit in seconds. `interrupted` trials are not done (they were asked to stop, or
    their worker or its node was lost): they resume from their checkpoint; one that lost worker after worker ends as
    `lost`, which says nothing about what it computes. `paused` ones can resume, too: they have reached the requested
    rung of a search, which ends those that it does not promote as `pruned`.
    """

    kind: OutcomeKind
    step: int
    detail: dict[str, Any] = field(default_factory=dict)


Training: TypeAlias = Attending | Row | Timing | Step | Checkpoint | Outcome
Event: TypeAlias = Began | Row | Timing | Saved | Outcome


def _size(n_bytes: int) -> str:
    power = min(max((n_bytes.bit_length() - 1) // 10, 1), 3)
    return f"{n_bytes / 1024**power:.1f} {('KiB', 'MiB', 'GiB')[power - 1]}"


# The measurements of a step, as rows and as the last statistics of a trial.


def rows_of(step: int, numbers: dict[str, float], rates: dict[str, float], readings: list[Reading]) -> Iterator[Row]:
    for metric, value in numbers.items():
        yield Row(step, metric, "", value)
    for group, rate in rates.items():
        yield Row(step, "learning_rate", "" if group == "weights" else group, rate)
    for reading in readings:
        yield Row(step, reading.metric, reading.address, reading.value.item())


def statistics(last: dict[str, Any], step: int, numbers: dict[str, float], rows: list[Row]) -> dict[str, Any]:
    """The statistics of the last healthy step, and the last measurements, as JSON-able data."""
    latest = {"measured_at": step, "measured": _by_metric(rows)} if rows else {}
    return {**last, **latest, "step": step, **numbers}


def evaluated(last: dict[str, Any], step: int, rows: list[Row], what: str = "evaluated") -> dict[str, Any]:
    """The last readings on the evaluation windows, after `step` updates."""
    return {**last, "evaluated_at": step, what: _by_metric(rows)}


def _by_metric(rows: list[Row]) -> dict[str, dict[str, float | None]]:
    values: dict[str, dict[str, float | None]] = {}
    for row in rows:
        values.setdefault(row.metric, {})[row.address] = row.value if math.isfinite(row.value) else None
    return values


class Clock:
    """A clock of training steps alone, without evaluations and without the consumer of the events."""

    def __init__(self) -> None:
        self.seconds, self.steps, self.tokens, self.started = 0.0, 0, 0, 0.0

    def start(self) -> None:
        self.started = time.perf_counter()

    def stop(self, tokens: int) -> None:
        self.seconds += time.perf_counter() - self.started
        self.steps += 1
        self.tokens += tokens

    def timings(self, step: int) -> Iterator[Timing]:
        yield Timing(step, "step_seconds", self.seconds / self.steps)
        yield Timing(step, "tokens_per_second", self.tokens / self.seconds)
        self.seconds, self.steps, self.tokens = 0.0, 0, 0
