"""Seconds per training step, measured once and kept: `paces.jsonl`, a line for each measurement of models.

["paces", {"reference": …, "seconds": {model: seconds}, "batch": …, "dtype": …, "threads": …, "machine": {…}, …}]

Models are identified by `plan.identity.computed`: what they compute, and the versions of the code that computes it.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from ablate.store import checksummed_lines
from ablate.store.checksummed_lines import Appender
from ablate.store.records import PacesRecord, understood

FILE = "paces.jsonl"


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


def record(folder: Path, paces: Paces) -> None:
    """Add a measurement; needs the folder's lock."""
    appender = Appender(folder / FILE)
    try:
        appender.write([["paces", asdict(paces)]])
        appender.sync()
    finally:
        appender.close()


def kept(folder: Path) -> tuple[Paces, ...]:
    """Return all measurements, in order."""
    path = folder / FILE
    contents = (
        record[1:]
        for record in checksummed_lines.read(path).records
        if isinstance(record, list) and record[:1] == ["paces"]
    )
    return tuple(_of(understood(PacesRecord, next(iter(content), None), path)) for content in contents)


def holding(measured: Collection[Paces], models: Collection[str], conditions: Conditions) -> Paces | None:
    """Return the measurement to use for these models: the first that has them all, or the last with `anew`.

    So a plan based on it does not change with later measurements. None where no measurement has all the models.
    """
    covering = [paces for paces in measured if paces.conditions == conditions and set(models) <= set(paces.seconds)]
    again = [paces for paces in covering if paces.anew]
    return next(iter([*again[-1:], *covering]), None)


def _of(document: Mapping[str, Any]) -> Paces:
    # Fields that a newer version adds are ignored.
    known = {each.name: document[each.name] for each in fields(Paces) if each.name in document}
    middles = {model: (low, high) for model, (low, high) in known.get("middles", {}).items()}
    return Paces(**{**known, "conditions": Conditions(**document["conditions"]), "middles": middles})
