"""What training yields, and what a worker makes of it on the way to whoever writes it down.

the trainer yields   Attending, Row, Timing, Step, Checkpoint, Outcome       it never touches a disk
a worker sends       Began, Row, Timing, Saved, Outcome                      it writes states, the driver the rest
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias


@dataclass(frozen=True, slots=True)
class Row:
    """One measured number. `address` names the part (`layers.3.attention`), empty for the whole model.

    (step, metric, address) is unique within a trial; `value` may be infinite or NaN (divergence is a result).
    """

    step: int
    metric: str
    address: str
    value: float


@dataclass(frozen=True, slots=True)
class Timing:
    """A clock-measured number: never part of what is compared bit for bit."""

    step: int
    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Step:
    """`step` steps are done: a sign of life, nothing to write down."""

    step: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Everything needed to go on after `step` steps, as bytes; going on ends bit-identical on CPU."""

    step: int
    state: bytes


@dataclass(frozen=True, slots=True)
class KernelUse:
    """The attentions at `address` (`layers.*.attention` where layers agree) are computed by the backend `kernel`.

    `reason` is why it is that one, and `refused` whether this machine does without one that would have come before it.
    `operator` is what the backend itself runs, where it says so; `memory` the bytes of scores that all of these
    attentions hold for a step, 0 where none are held.
    """

    address: str
    kernel: str
    reason: str
    operator: str = ""
    refused: bool = False
    memory: int = 0

    @property
    def named(self) -> str:
        """The backend, and its operator where that is known."""
        return f"{self.kernel} ({self.operator})" if self.operator else self.kernel

    @property
    def described(self) -> str:
        """In a line: what is used where, why, and what it takes where scores are held."""
        held = f", {_size(self.memory)} in a step" if self.memory else ""
        return f"{self.address} uses {self.named}: {self.reason}{held}"


@dataclass(frozen=True, slots=True)
class Attending:
    """What will compute the attentions of the model: the first that training yields, before anything is computed."""

    uses: tuple[KernelUse, ...]
    step: int = 0

    @property
    def operators(self) -> str:
        """What is kept of it with the versions of a trial: addresses, backends and operators, and no reasons."""
        return "; ".join(f"{use.address} {use.named}" for use in self.uses)


@dataclass(frozen=True, slots=True)
class Began:
    """A worker has taken the trial up at `step` (0: from its beginning), with these versions of what computes it.

    `attention` is what computes its attentions, with reasons; empty where they have not come to be known. `at` is when,
    in seconds since 1970 by the worker's clock.
    """

    step: int
    versions: Mapping[str, str]
    attention: tuple[KernelUse, ...] = field(default=(), compare=False)
    at: float = field(default_factory=time.time, compare=False)


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint that is on the disk: the step, and the CRC-32 and length in bytes of its state."""

    step: int
    crc: int
    size: int


OutcomeKind: TypeAlias = Literal[
    "finished", "diverged", "pruned", "out_of_memory", "bug", "timeout", "lost", "interrupted", "paused"
]
GOES_ON: tuple[OutcomeKind, ...] = ("interrupted", "paused")
"""Outcomes that are no end: what is kept of the trial is where it goes on from."""
WITH_RESULT: tuple[OutcomeKind, ...] = ("finished", "diverged")
"""Outcomes of trials that have a result: no run trains them again."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a trial ended. `detail` is JSON-able: for `diverged` the step, the first part with a non-finite output and
    the last statistics; for `bug` the trace; for `timeout` the limit in seconds. `interrupted` trials are not done
    (they were asked to stop, or their worker or its node was lost): they go on from their checkpoint; one that lost
    worker after worker ends as `lost`, which says nothing of what it computes. `paused` ones go on, too: they have come
    to the rung of a search they were asked to come to; the search ends those that it does not let go on as `pruned`."""

    kind: OutcomeKind
    step: int
    detail: dict[str, Any] = field(default_factory=dict)


Training: TypeAlias = Attending | Row | Timing | Step | Checkpoint | Outcome
Event: TypeAlias = Began | Row | Timing | Saved | Outcome


def _size(n_bytes: int) -> str:
    power = min(max((n_bytes.bit_length() - 1) // 10, 1), 3)
    return f"{n_bytes / 1024**power:.1f} {('KiB', 'MiB', 'GiB')[power - 1]}"
