"""The tables of the course of a search: proposals, removals, progress, rungs, cost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

from ablate.execute.executor import FAILED
from ablate.output import words
from ablate.report.document import Grid
from ablate.report.searched.analysis import BEYOND, SearchAnalysis
from ablate.report.searched.answer import OUTCOMES
from ablate.report.searched.record import SearchRecord
from ablate.report.searched.rows import number

STAGES = 4


def accounts(record: SearchRecord) -> Grid:
    rows = [("proposed", record.proposed), ("duplicates of earlier ones, not trained again", record.folded)]
    if record.passed_over:
        rows.append(("passed over for one that the zero-cost measure ranks better", record.passed_over))
    rows.append((f"blocks trained besides {record.reference}", len(record.trained)))
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
    return (
        f"{percent(record.random_share)} of all choices were made without regard to any result, and "
        f"{percent(record.wholly_random)} of proposals consist only of such choices"
    )


def failures(record: SearchRecord) -> tuple[str, ...]:
    failed = sum(record.outcomes[kind] for kind in FAILED)
    if not failed:
        return ()
    return (
        f"{words.plural(failed, 'block')} failed: a failed trial is not retried within its search, since later "
        "proposals took it into account; --fresh trains everything anew",
    )


def percent(share: float) -> str:
    """Return a share in percent, with everything below 1 % shown as that."""
    return "under 1 %" if 0 < share < 0.01 else f"{100 * share:.0f} %"


def removed(record: SearchRecord) -> Grid:
    rows = [(kind, why, f"{n:,}") for kind, why, n in _reasons(record.refused, record.vetoed)]
    return Grid(
        title="Removed before training",
        note="drawn, but not proposed",
        heading=("by", "because", "number"),
        rows=tuple(rows),
        numbers=(2,),
        remarks=() if rows else ("nothing was removed",),
    )


KINDS = {
    "cannot be built at these sizes: ": "sizes",
    "an override of the space does not fit: ": "override",
    "cannot be computed at its start: ": "start",
    "forecast: ": "forecast",
}
"""The start of each refusal that is not due to a constraint, and its cause; see `execute.search.search_space`."""


def kind_of(refusal: str) -> tuple[str, str]:
    """Return the cause of a refusal, and its reason."""
    begins = next((begins for begins in KINDS if refusal.startswith(begins)), "")
    return KINDS.get(begins, "constraint"), refusal.removeprefix(begins)


def _reasons(refused: Mapping[str, int], vetoed: Mapping[str, int]) -> Iterable[tuple[str, str, int]]:
    reasons = [(*kind_of(refusal), n) for refusal, n in refused.items()] + [
        ("veto", why, n) for why, n in vetoed.items()
    ]
    order = ("constraint", *KINDS.values(), "veto")
    return sorted(reasons, key=lambda reason: (order.index(reason[0]), -reason[2], reason[1]))


def progress(record: SearchRecord, analysis: SearchAnalysis) -> Grid | None:
    if not analysis.curve:
        return None
    single = len(record.objectives) == 1
    last = len(analysis.curve) - 1
    stops = sorted({0, *(round(last * part / STAGES) for part in range(1, STAGES + 1))})
    shown = [analysis.curve[stop] for stop in stops]
    name = f"best {record.objectives[0].metric}" if single else "hypervolume"
    text = ["none" if value is None else number(value) if single else f"{value:.3f}" for value in shown]
    improved = last_better(record, analysis)
    return Grid(
        title="Progress",
        note="by blocks started, the reference as number 0",
        heading=("after number", *(str(stop) for stop in stops)),
        rows=((name, *text),),
        numbers=tuple(range(1, len(stops) + 1)),
        remarks=(improved,) if single else (improved, hypervolume_in_words(record, analysis)),
    )


def last_better(record: SearchRecord, analysis: SearchAnalysis) -> str:
    """Return the block with which the search last improved; requires a curve."""
    last = len(analysis.curve) - 1
    rose = max((i for i in range(1, last + 1) if analysis.curve[i] != analysis.curve[i - 1]), default=0)
    return f"last improved by {record.entries[rose].name}, number {rose} of {last}" if rose else "never improved"


def hypervolume_in_words(record: SearchRecord, analysis: SearchAnalysis) -> str:
    sides = ", ".join(
        f"{objective.metric} {number(ideal)} to {number(worst)}"
        for objective, ideal, worst in zip(record.objectives, analysis.ideal, analysis.worst, strict=True)
    )
    logs = [objective.metric for objective in record.objectives if objective.log]
    scale = f"; {' and '.join(logs)} on the log scale" if logs else ""
    return (
        f"hypervolume: the dominated share of the box from the best value in each objective to {100 * BEYOND:.0f} % of "
        f"the range past the worst of those that finished ({sides}){scale}; the box depends on the whole search, so "
        "hypervolumes of different searches are not comparable"
    )


def rungs(record: SearchRecord) -> Grid | None:
    """Return how well the ranking at a rung predicts that at a later one; None without a pruner."""
    if record.pruner == "none":
        return None
    rows = [
        (
            f"{rung.lower} → {rung.upper}",
            record.objectives[rung.objective].metric,
            str(rung.n),
            "not defined" if rung.spearman is None else f"{rung.spearman:+.2f}",
        )
        for rung in record.correlations
    ]
    caveats = (
        "only blocks that were better at the lower rung reached the higher: over all blocks the correlation would "
        "differ and usually be higher (restricted range), and blocks that were stopped wrongly are not visible here",
    )
    return Grid(
        title="Rungs",
        note="does the ranking at one predict the ranking at a later one?",
        heading=("steps", "objective", "n", "Spearman"),
        rows=tuple(rows),
        numbers=(2, 3),
        remarks=() if rows else ("no block has reached two rungs",),
        caveats=caveats if rows else (),
    )


def cost(record: SearchRecord) -> list[str]:
    seconds = math.fsum(entry.seconds for entry in record.entries)
    lines = [budget(record)]
    if record.entries:
        reference = f", of which {record.reference} {words.took(record.entries[0].seconds)}"
        lines.append(
            f"training took {words.took(seconds)}, summed over {words.plural(len(record.entries), 'block')}"
            f"{reference}" + ("; confirmation is not included" if record.confirmed is not None else "")
        )
    return lines


def budget(record: SearchRecord) -> str:
    reasons = {"budget": "the budget is spent", "exhausted": "exhausted: proposals were known blocks again and again"}
    over = reasons.get(record.why_over, record.why_over) or "not over"
    return f"requested {record.budget}, spent {record.spent}; {over}"


def counts(record: SearchRecord, analysis: SearchAnalysis) -> list[str]:
    became = ", ".join(f"{n} {OUTCOMES.get(kind, kind)}" for kind, n in record.outcomes.most_common())
    parts = [f"{record.proposed:,} proposed", f"{record.folded:,} duplicates of earlier ones"]
    parts += [f"{record.passed_over:,} passed over by the zero-cost measure"] if record.passed_over else []
    parts.append(f"{words.plural(len(record.trained), 'block')} trained" + (f" ({became})" if became else ""))
    there = f", of which {record.known_failed:,} failed there" if record.known_failed else ""
    parts += [f"{record.known:,} of them known from trials of other spaces{there}"] if record.known else []
    lines = [", ".join(parts)]
    by: Counter[str] = Counter()
    for kind, _, n in _reasons(record.refused, record.vetoed):
        by[kind] += n
    causes = ", ".join(f"{n:,} by {_BY[kind]}" for kind, n in by.items())
    lines.append(
        f"removed before training: {causes or 'none'}" + f"; {chance_in_words(record)}" * bool(record.proposed)
    )
    seconds = math.fsum(entry.seconds for entry in record.entries)
    cost = [budget(record)] + ([f"training took {words.took(seconds)}"] if record.entries else [])
    lines.append("; ".join(cost + ([last_better(record, analysis)] if analysis.curve else [])))
    return lines + ([_rungs_in_words(record)] if record.pruner != "none" else [])


_BY = {
    "constraint": "constraints",
    "sizes": "the sizes",
    "override": "an override",
    "start": "their start",
    "forecast": "a forecast",
    "veto": "a veto",
}


def _rungs_in_words(record: SearchRecord) -> str:
    if not record.correlations:
        return "rungs: no block has reached two"
    correlations = [
        f"steps {rung.lower} → {rung.upper} {record.objectives[rung.objective].metric} "
        f"{'not defined' if rung.spearman is None else f'{rung.spearman:+.2f}'} (n = {rung.n})"
        for rung in record.correlations
    ]
    return f"rungs: Spearman over the blocks that reached both, a restricted range: {', '.join(correlations)}"
