"""Seconds per training step, measured once and kept: a file for each measurement of models.

{"reference": …, "seconds": {model: seconds}, "conditions": {"batch": …, "dtype": …, "threads": …}, "machine": {…}, …}

Models are identified by `plan.identity.computed`: what they compute, and the versions of the code that computes it.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

from ablate.store import files
from ablate.store.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What a step's time depends on besides the model, as the space declares it."""

    batch: int
    dtype: str
    threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Paces:
    """Models that were measured together, on one `machine` (versions and device).

    `seconds` per training step, by model; each was compared with `reference` step by step. `anew`: earlier measurements
    were to be repeated. `unmeasured` are models that completed no step, and why; they get the reference's time.
    `middles` are the quartiles of the ratios to the reference, by model, for models measured in pairs of steps. `at` is
    seconds since 1970.
    """

    reference: str
    seconds: Mapping[str, float]
    conditions: Conditions
    machine: Mapping[str, str]
    unmeasured: Mapping[str, str] = field(default_factory=dict)
    middles: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    anew: bool = False
    at: float = field(default_factory=time.time)


READ = TypeAdapter(Paces)
"""Reads a document; fields that a newer version adds are ignored."""


def record(folder: Path, paces: Paces) -> None:
    files.keep(folder, "paces", asdict(paces), files.next_number(files.documents(folder, "paces")[0]))


def kept(folder: Path) -> tuple[Paces, ...]:
    return tuple(READ.validate_python(document.content) for document in Snapshot(folder).paces)


def holding(measured: Collection[Paces], models: Collection[str], conditions: Conditions) -> Paces | None:
    """Return the first measurement of all these models, so that a plan stays as it is, or the last with `anew`."""
    covering = [paces for paces in measured if paces.conditions == conditions and set(models) <= set(paces.seconds)]
    again = [paces for paces in covering if paces.anew]
    return next(iter([*again[-1:], *covering]), None)
