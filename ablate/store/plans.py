"""The plans that a folder keeps: what was asked, with every trial's specification.

{"plan": id, "first_seen": …, "document": {"space": …}, "specifications": {"values": {…}, "trials": {…}}}

The plan of a space with the largest number is its current one: the last that was requested. Specifications of a plan
differ in few places, so each distinct value of each key is written once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ablate.store.checksummed_lines import compact
from ablate.store.documents import PackedSpecifications, PlanDocument, PlanFile, Specification
from ablate.store.files import Document
from ablate.store.serialise import digest


@dataclass(frozen=True)
class KeptPlan:
    """A plan as it is kept: its file, its id, when it was first requested in seconds since 1970, and its document."""

    file: str
    number: int
    id: str
    first_seen: float | None
    document: PlanDocument

    @cached_property
    def digest(self) -> str:
        return digest(self.document)

    @property
    def space(self) -> str:
        return self.document["space"]


@dataclass(frozen=True)
class KeptPlans:
    """The plans of each space in the order in which they were last requested, and the specifications of all trials."""

    of_space: Mapping[str, tuple[KeptPlan, ...]]
    specifications: Mapping[str, Specification]

    def current(self, space: str) -> KeptPlan | None:
        return self.of_space[space][-1] if space in self.of_space else None

    @property
    def every_current(self) -> Mapping[str, PlanDocument]:
        return {space: plans[-1].document for space, plans in self.of_space.items()}

    def adding(self, plan: KeptPlan, specifications: Mapping[str, Specification]) -> KeptPlans:
        """Return these plans with one that is now its space's current one."""
        others = tuple(each for each in self.of_space.get(plan.space, ()) if each.id != plan.id)
        return KeptPlans({**self.of_space, plan.space: (*others, plan)}, {**self.specifications, **specifications})


def kept_plans(documents: Iterable[Document[PlanFile]]) -> KeptPlans:
    """Read plans from their documents, given in the order of their numbers; a later one of the same plan counts."""
    plans: dict[str, KeptPlan] = {}
    specifications: dict[str, Specification] = {}
    for file in documents:
        plan = plan_of(file)
        plans.pop(plan.id, None)
        plans[plan.id] = plan
        specifications.update(unpacked(file.content["specifications"]))
    of_space: dict[str, tuple[KeptPlan, ...]] = {}
    for plan in plans.values():
        of_space[plan.space] = (*of_space.get(plan.space, ()), plan)
    return KeptPlans(of_space, specifications)


def plan_of(file: Document[PlanFile]) -> KeptPlan:
    content = file.content
    return KeptPlan(file.name, file.number, content["plan"], content["first_seen"], content["document"])


def packed(specifications: Sequence[Specification]) -> PackedSpecifications:
    """Return specifications with each distinct value of each key once, and for each trial the place of its value."""
    values: dict[str, list[object]] = {}
    trials: dict[str, list[int]] = {}
    texts: dict[int, str] = {}
    for key in dict.fromkeys(key for each in specifications for key in each):
        places: dict[str, int] = {}
        of_key = [_text(each[key], texts) if key in each else "" for each in specifications]
        trials[key] = [places.setdefault(text, len(places)) if text else -1 for text in of_key]
        of_place = dict(zip(trials[key], specifications, strict=True))
        values[key] = [of_place[place][key] for place in range(len(places))]
    return {"values": values, "trials": trials}


def _text(value: object, known: dict[int, str]) -> str:
    """Return a value as it is written; what specifications share is one object, and written once."""
    if id(value) not in known:
        known[id(value)] = compact(value)
    return known[id(value)]


def unpacked(content: PackedSpecifications) -> Iterator[tuple[str, Specification]]:
    """Yield each trial's id and specification, keys in the order in which they were written."""
    values, keys = content["values"], list(content["trials"])
    for places in zip(*content["trials"].values(), strict=True):
        found = {key: values[key][place] for key, place in zip(keys, places, strict=True) if place >= 0}
        yield found["trial"], found
