"""Plans and specifications that `plans.jsonl` has lost, recovered from the DuckDB file where that still has them.

Lines are only ever added there, and the DuckDB file is filled from them. So a plan that it has and no line has is lost,
whether it is its space's current plan or an earlier one. Of a plan that has grown it has only the last text.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ablate.store import ledger
from ablate.store.checksummed_lines import Appender, Reading
from ablate.store.ledger import KeptPlans
from ablate.store.pending_rows import Stored
from ablate.store.projection import DATABASE
from ablate.store.repair import from_database
from ablate.store.repair.faults import Fault
from ablate.store.repair.from_database import StoredPlan
from ablate.store.repair.report import Finding
from ablate.store.repair.sealed_trials import named
from ablate.store.repair.text_lines import broken


@dataclass(frozen=True, slots=True)
class Back:
    """What `plans.jsonl` lacks: the `records` that are recovered, and the spaces of plans that are not (`gone`).

    `again` are the plans that remain the current ones of their spaces: they are written again, after the others.
    """

    records: Sequence[Any] = ()
    again: Sequence[Any] = ()
    gone: Sequence[str] = ()


def lacking(folder: Path, reading: Reading, known: KeptPlans, stored: Stored) -> Back:
    """Find the plans and specifications that `plans.jsonl` has lost and the database still has."""
    trials = stored.trials.keys() - known.trials.keys()
    seen = sorted(stored.first_seen.items())
    records = [
        *from_database.specifications(folder, trials),
        *(ledger.seen_record(id, at) for id, at in seen if at < known.first_seen.get(id, math.inf)),
    ]
    spaces = [space for space in stored.plans if not stored.plans_of(space) <= _digests(known, space)]
    if not spaces:
        return Back(records)
    again, gone = [], []
    kept = {(space, digest): number for number, space, digest in ledger.plan_lines(reading)}
    numbers, rest = broken(reading)
    damaged_up_to = math.inf if rest else numbers[-1] if numbers else None
    of_spaces = from_database.plans(folder, spaces)
    for space in spaces:
        plans = [plan for plan in of_spaces if plan.space == space and (space, plan.digest) not in kept]
        every = known.every(space) if space in known.plans else {}
        gone += [space for plan in plans if plan.document is None and plan.id not in every]
        back = [plan for plan in plans if _is_lost(plan, every, kept, damaged_up_to)]
        records += [plan.record() for plan in back]
        if back and every and not _comes_last(space, back, known, kept, damaged_up_to, stored):
            latest, document = known.plans[space]
            again.append(ledger.plan_record(latest, dict(document)))
    return Back(records, again, gone)


Places = Mapping[tuple[str, str], int]
"""The number of the last line of a plan, by its space and digest."""

Plans = Mapping[str, tuple[str, Mapping[str, Any]]]


def _digests(known: KeptPlans, space: str) -> set[str]:
    return {digest for digest, _ in known.every(space).values()} if space in known.plans else set()


def _is_lost(plan: StoredPlan, every: Plans, kept: Places, damaged_up_to: float | None) -> bool:
    """Return whether a plan that no line has is recovered. Where lines have another text of it, the later one counts:
    the damage is after the last of them, or the plan has all the trials of that text, and more."""
    if plan.document is None:
        return False
    if plan.id not in every:
        return True
    digest, other = every[plan.id]
    if damaged_up_to is not None:
        return kept[plan.space, digest] < damaged_up_to
    return {trial for trial, *_ in other["trials"]} < {trial for trial, *_ in plan.document["trials"]}


def _comes_last(
    space: str, back: Sequence[StoredPlan], known: KeptPlans, kept: Places, damaged_up_to: float | None, stored: Stored
) -> bool:
    """Return whether the space's current plan at the time the database was filled is among the recovered ones and
    nothing was requested since."""
    latest, document = known.plans[space]
    if back[-1].digest != stored.plans[space]:
        return False
    if ledger.id_of(space, document) in {plan.id for plan in back}:
        return True
    before = damaged_up_to is None or kept[space, latest] < damaged_up_to
    return before and latest in stored.plans_of(space)


def with_lines(known: KeptPlans, back: Back) -> KeptPlans:
    """Return the kept plans with the recovered lines."""
    mended = known.copy()
    for kind, *content in (*back.records, *back.again):
        if kind == "plan":
            mended.add(content[1]["space"], content[0], content[1])
        elif kind == "seen":
            mended.see(content[0]["plan"], content[0]["at"])
        else:
            mended.trials[content[0]["trial"]] = content[0]
    return mended


def faults(folder: Path, known: KeptPlans, back: Back, ended: Collection[str] = ()) -> Iterator[Fault]:
    """Find what is lost and recovered (`back`), and which specifications of `ended` trials are lost for good."""
    path = folder / ledger.PLANS
    trials = sorted(record[1]["trial"] for record in back.records if record[0] == "trial")
    if back.records:
        seen = sum(record[0] == "seen" for record in back.records)
        lost = [*_named_plans(back)]
        lost += [f"the specification of {named(trials)}"] if trials else []
        requested = "when a plan was" if seen == 1 else f"when {seen} plans were"
        lost += [f"{requested} first requested"] if seen else []
        what, remedy = f"lacks {' and '.join(lost)}", f"recovered from {DATABASE}"
        finding = Finding("specification", "repaired", what, path, remedy, changes=(path,))
        yield Fault((finding,), partial(_write_again, path, back))
    for space in back.gone:
        what = f"lacks a plan of {space}, and {DATABASE} has a different text of it"
        remedy = f"comes back when {space} is run with the settings of that plan"
        finding = Finding("specification", "lost", what, path, remedy)
        yield Fault((finding,), partial(str, f"{path} {what}; it {remedy}"))
    if gone := sorted(set(ended) - known.trials.keys() - set(trials)):
        what = f"lacks the specification of {named(gone)}"
        remedy = "comes back when a space that has it is run"
        yield Fault((Finding("specification", "lost", what, path, remedy),))


def _named_plans(back: Back) -> Iterator[str]:
    """Name the recovered plans, space by space."""
    spaces = [record[2]["space"] for record in back.records if record[0] == "plan"]
    stay = {record[2]["space"] for record in back.again}
    latest = [space for space in dict.fromkeys(spaces) if space not in stay and spaces.count(space) == 1]
    if latest:
        yield f"the plan of {', '.join(latest)}"
    for space in dict.fromkeys(spaces):
        if space in stay:
            yield (
                f"{spaces.count(space)} earlier plans of {space}"
                if spaces.count(space) > 1
                else (f"an earlier plan of {space}")
            )
        elif space not in latest:
            yield f"{spaces.count(space)} plans of {space}"


def _write_again(path: Path, back: Back) -> str:
    appender = Appender(path)
    try:
        appender.write([*back.records, *back.again])
        appender.sync()
    finally:
        appender.close()
    kinds = [record[0] for record in back.records]
    parts = [(kinds.count("plan"), "plan"), (kinds.count("trial"), "specification")]
    told = [f"{number} {name}{'s' * (number > 1)}" for number, name in parts if number]
    told += ["when plans were first requested"] if "seen" in kinds else []
    return f"{path} lacked {' and '.join(told)}; recovered from {DATABASE}"
