"""The tables of how a search went, as text: proposals, what was removed, progress, rungs, cost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

from ablate.execute.policy import FAILED
from ablate.output import words
from ablate.report.document import Grid
from ablate.report.searched.analysis import BEYOND, SearchAnalysis
from ablate.report.searched.answer import OUTCOMES
from ablate.report.searched.record import SearchRecord
from ablate.report.searched.rows import number

STAGES = 4
"""In how many parts of the search its progress is shown."""


def accounts(record: SearchRecord) -> Grid:
    """What became of the proposals."""
    rows = [("proposed", record.proposed), ("the same as an earlier one, not trained again", record.folded)]
    if record.passed_over:
        rows.append(("passed over for one that is less by the zero-cost order", record.passed_over))
    rows.append((f"blocks trained beside {record.reference}", len(record.trained)))
    rows += [(f"  {OUTCOMES.get(kind, kind)}", n) for kind, n in record.outcomes.most_common()]
    if record.known:
        rows.append(("  of them known from trials of other spaces", record.known))
    if record.known_failed:
        rows.append(("    of which failed there", record.known_failed))
    if record.repaired:
        rows.append(("proposals mutated until they were admitted", record.repaired))
    return Grid(
        title="Proposals",
        note="what became of them",
        heading=("", "number"),
        rows=tuple((what, f"{n:,}") for what, n in rows),
        numbers=(1,),
        remarks=(chance_in_words(record),) if record.proposed else (),
        caveats=failures(record),
    )


def chance_in_words(record: SearchRecord) -> str:
    """How much of what was proposed is owed to no result."""
    return (
        f"{percent(record.random_share)} of all choices were made without regard to any result, and "
        f"{percent(record.wholly_random)} of proposals had no other"
    )


def failures(record: SearchRecord) -> tuple[str, ...]:
    """That what failed stays failed, where something did."""
    failed = sum(record.outcomes[kind] for kind in FAILED)
    if not failed:
        return ()
    return (
        f"{words.plural(failed, 'block')} failed: a failed trial is not tried again within its search, since what "
        "followed was proposed knowing it; --fresh trains all anew",
    )


def percent(share: float) -> str:
    """A share in percent, of the smallest ones only that they are small."""
    return "under 1 %" if 0 < share < 0.01 else f"{100 * share:.0f} %"


def removed(record: SearchRecord) -> Grid:
    """What was drawn and never trained, by what removed it: a constraint, the sizes, an override, its start, a veto."""
    rows = [(kind, why, f"{n:,}") for kind, why, n in _reasons(record.refused, record.vetoed)]
    return Grid(
        title="Removed before training",
        note="drawn, and not proposed",
        heading=("by", "because", "number"),
        rows=tuple(rows),
        numbers=(2,),
        remarks=() if rows else ("nothing was removed",),
    )


KINDS = {
    "cannot be built at these sizes: ": "sizes",
    "an override of the space does not fit: ": "override",
    "cannot be computed at its start: ": "start",
}
"""What a refusal begins with that is of no constraint, and what it is of; see `execute.search.ground`."""


def kind_of(refusal: str) -> tuple[str, str]:
    """What a refusal is of, and why."""
    begins = next((begins for begins in KINDS if refusal.startswith(begins)), "")
    return KINDS.get(begins, "constraint"), refusal.removeprefix(begins)


def _reasons(refused: Mapping[str, int], vetoed: Mapping[str, int]) -> Iterable[tuple[str, str, int]]:
    """Kind by kind, the most common first."""
    found = [(*kind_of(refusal), n) for refusal, n in refused.items()] + [("veto", why, n) for why, n in vetoed.items()]
    order = ("constraint", *KINDS.values(), "veto")
    return sorted(found, key=lambda one: (order.index(one[0]), -one[2], one[1]))


def progress(record: SearchRecord, analysis: SearchAnalysis) -> Grid | None:
    """The hypervolume, or the best value, after parts of the search; None before there is one."""
    if not analysis.curve:
        return None
    one = len(record.objectives) == 1
    last = len(analysis.curve) - 1
    stops = sorted({0, *(round(last * part / STAGES) for part in range(1, STAGES + 1))})
    shown = [analysis.curve[stop] for stop in stops]
    name = f"best {record.objectives[0].metric}" if one else "hypervolume"
    text = ["none" if value is None else number(value) if one else f"{value:.3f}" for value in shown]
    said = last_better(record, analysis)
    return Grid(
        title="Progress",
        note="by blocks begun, the reference as number 0",
        heading=("after number", *(str(stop) for stop in stops)),
        rows=((name, *text),),
        numbers=tuple(range(1, len(stops) + 1)),
        remarks=(said,) if one else (said, hypervolume_in_words(record, analysis)),
    )


def last_better(record: SearchRecord, analysis: SearchAnalysis) -> str:
    """With which block the search last became better; there is a curve."""
    last = len(analysis.curve) - 1
    rose = max((i for i in range(1, last + 1) if analysis.curve[i] != analysis.curve[i - 1]), default=0)
    return f"last better with {record.entries[rose].name}, begun as number {rose} of {last}" if rose else "never better"


def hypervolume_in_words(record: SearchRecord, analysis: SearchAnalysis) -> str:
    """What the hypervolume is a share of."""
    sides = ", ".join(
        f"{objective.metric} {number(ideal)} to {number(worst)}"
        for objective, ideal, worst in zip(record.objectives, analysis.ideal, analysis.worst, strict=True)
    )
    logs = [objective.metric for objective in record.objectives if objective.log]
    scale = f"; {' and '.join(logs)} on the log scale" if logs else ""
    return (
        f"hypervolume: the share dominated of the box from the best value in each objective to {100 * BEYOND:.0f} % of "
        f"the range past the worst of those that finished ({sides}){scale}; the box is that of the whole search, so it "
        "may not be compared with another's"
    )


def rungs(record: SearchRecord) -> Grid | None:
    """How well the order at a rung foretells that at a later one; None without a pruner."""
    if record.pruner == "none":
        return None
    rows = [
        (
            f"{one.lower} → {one.upper}",
            record.objectives[one.objective].metric,
            str(one.n),
            "not defined" if one.spearman is None else f"{one.spearman:+.2f}",
        )
        for one in record.correlations
    ]
    caveats = (
        "only what was better at the lower rung came to the higher: over all blocks the correlation would differ, as a "
        "rule be higher (restricted range), and what was stopped wrongly is not seen here",
    )
    return Grid(
        title="Rungs",
        note="does the order at one foretell the order at a later one?",
        heading=("steps", "objective", "n", "Spearman"),
        rows=tuple(rows),
        numbers=(2, 3),
        remarks=() if rows else ("no block has come to two rungs",),
        caveats=caveats if rows else (),
    )


def cost(record: SearchRecord) -> list[str]:
    """What it took, and why it ended."""
    seconds = math.fsum(entry.seconds for entry in record.entries)
    lines = [budget(record)]
    if record.entries:
        one = f", of it {record.reference} {words.took(record.entries[0].seconds)}"
        lines.append(
            f"training took {words.took(seconds)}, summed over {words.plural(len(record.entries), 'block')}"
            f"{one}" + ("; confirmation is not in it" if record.confirmed is not None else "")
        )
    return lines


def budget(record: SearchRecord) -> str:
    """What was asked for and spent, and why the search ended."""
    reasons = {"budget": "the budget is spent", "exhausted": "proposals were known again and again: exhausted"}
    over = reasons.get(record.why_over, record.why_over) or "not over"
    return f"asked for {record.budget}, spent {record.spent}; {over}"


def counts(record: SearchRecord, analysis: SearchAnalysis) -> list[str]:
    """All of it in a line or two each: proposals, what was removed, cost and progress, and rungs where there are."""
    became = ", ".join(f"{n} {OUTCOMES.get(kind, kind)}" for kind, n in record.outcomes.most_common())
    parts = [f"{record.proposed:,} proposed", f"{record.folded:,} the same as an earlier one"]
    parts += [f"{record.passed_over:,} passed over by the zero-cost order"] if record.passed_over else []
    parts.append(f"{words.plural(len(record.trained), 'block')} trained" + (f" ({became})" if became else ""))
    there = f", of which {record.known_failed:,} failed there" if record.known_failed else ""
    parts += [f"{record.known:,} of them known from trials of other spaces{there}"] if record.known else []
    lines = [", ".join(parts)]
    by: Counter[str] = Counter()
    for kind, _, n in _reasons(record.refused, record.vetoed):
        by[kind] += n
    said = ", ".join(f"{n:,} by {_BY[kind]}" for kind, n in by.items())
    lines.append(f"removed before training: {said or 'none'}" + f"; {chance_in_words(record)}" * bool(record.proposed))
    seconds = math.fsum(entry.seconds for entry in record.entries)
    cost = [budget(record)] + ([f"training took {words.took(seconds)}"] if record.entries else [])
    lines.append("; ".join(cost + ([last_better(record, analysis)] if analysis.curve else [])))
    return lines + ([_rungs_in_words(record)] if record.pruner != "none" else [])


_BY = {
    "constraint": "constraints",
    "sizes": "the sizes",
    "override": "an override",
    "start": "their start",
    "veto": "a veto",
}


def _rungs_in_words(record: SearchRecord) -> str:
    """The correlations alone; that they are of a restricted range is said with them."""
    if not record.correlations:
        return "rungs: no block has come to two"
    said = [
        f"steps {one.lower} → {one.upper} {record.objectives[one.objective].metric} "
        f"{'not defined' if one.spearman is None else f'{one.spearman:+.2f}'} (n = {one.n})"
        for one in record.correlations
    ]
    return f"rungs: Spearman over those that came to both, a restricted range: {', '.join(said)}"
