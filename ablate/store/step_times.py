"""Seconds a training step, measured once and kept: `paces.jsonl`, a line for each time that models were measured.

["paces", {"reference": …, "seconds": {model: seconds}, "batch": …, "dtype": …, "threads": …, "machine": {…}, …}]

Models are named by `plan.identity.computed`: what they compute, and the versions of what computes it.
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
    """What a step's time depends on besides the model, and a space says."""

    batch: int
    dtype: str
    threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Paces:
    """Models that were measured beside each other, on one `machine` (versions and device).

    `seconds` are those of one training step, by model; each was compared with `reference` step by step. `anew`: what
    was known before was to be measured again. `unmeasured` are models that took no step to its end, and why; they are
    given the reference's time. `middles` are where the middle half of the ratios to the reference lay, by
    model, of what was measured in pairs of steps. `at` is seconds since 1970.
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
    """Add what was measured; needs the folder's lock."""
    appender = Appender(folder / FILE)
    try:
        appender.write([["paces", asdict(paces)]])
        appender.sync()
    finally:
        appender.close()


def kept(folder: Path) -> tuple[Paces, ...]:
    """All that was measured, in that order."""
    path = folder / FILE
    said = (
        record[1:]
        for record in checksummed_lines.read(path).records
        if isinstance(record, list) and record[:1] == ["paces"]
    )
    return tuple(_of(understood(PacesRecord, next(iter(one), None), path)) for one in said)


def holding(found: Collection[Paces], models: Collection[str], conditions: Conditions) -> Paces | None:
    """What holds for these models together: the first that has them all, or the last of those that were to be anew.

    So a plan that was made of it stays as it is, whatever is measured later. None where no measurement has them all.
    """
    covering = [one for one in found if one.conditions == conditions and set(models) <= set(one.seconds)]
    again = [one for one in covering if one.anew]
    return next(iter([*again[-1:], *covering]), None)


def _of(document: Mapping[str, Any]) -> Paces:
    # What a newer version says besides is of no use to this one.
    known = {one.name: document[one.name] for one in fields(Paces) if one.name in document}
    middles = {model: (low, high) for model, (low, high) in known.get("middles", {}).items()}
    return Paces(**{**known, "conditions": Conditions(**document["conditions"]), "middles": middles})
