"""What training yields. Whoever consumes them writes them down; the trainer never touches a disk."""

from __future__ import annotations

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
class Checkpoint:
    """Everything needed to go on after `step` steps, as bytes; going on ends bit-identical on CPU."""

    step: int
    state: bytes


OutcomeKind: TypeAlias = Literal["finished", "diverged", "out_of_memory", "bug", "timeout", "interrupted"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a trial ended. `detail` is JSON-able: for `diverged` the step, the first part with a non-finite output and
    the last statistics; for `bug` the trace. `interrupted` trials are not done: they go on from their checkpoint."""

    kind: OutcomeKind
    step: int
    detail: dict[str, Any] = field(default_factory=dict)


Event: TypeAlias = Row | Timing | Checkpoint | Outcome
