"""The design of a plan that a folder keeps: its comparisons, and what their contrasts are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cached_property
from typing import Any

from ablate.plan.plan import Comparison, Factors, LadderStep, PlannedLadder, VariedFactor
from ablate.store.documents import PlanDocument


class KeptDesign:
    """The comparisons of a kept plan, the runs of its factorials and the sizes of its ladders; aliases are left out."""

    def __init__(self, document: PlanDocument):
        self._document = document

    @cached_property
    def comparisons(self) -> tuple[Comparison, ...]:
        return tuple(Comparison(**_frozen(each)) for each in self._document["comparisons"])

    @cached_property
    def factors(self) -> tuple[tuple[str, Factors], ...]:
        return tuple((terms, _factors(each)) for terms, each in self._document.get("factors", ()))

    @cached_property
    def ladders(self) -> tuple[tuple[str, PlannedLadder], ...]:
        return tuple((terms, _ladder(each)) for terms, each in self._document.get("ladders", ()))


def _factors(kept: Mapping[str, Any]) -> Factors:
    known = {field.name: kept[field.name] for field in fields(Factors) if field.name in kept}
    varied = tuple(VariedFactor(**_frozen(each)) for each in kept.get("varied", ()))
    return Factors(**{**_frozen(known), "aliases": (), "varied": varied})


def _ladder(kept: Mapping[str, Any]) -> PlannedLadder:
    steps = tuple(LadderStep(**_frozen(step)) for step in kept["steps"])
    return PlannedLadder(**{**_frozen(kept), "steps": steps})


def _frozen(document: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _tuples(value) for name, value in document.items()}


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value
