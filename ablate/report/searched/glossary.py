"""What each number of a search means."""

from __future__ import annotations

from ablate.output.words import plural
from ablate.report import footnotes, wording
from ablate.report.searched.record import SearchRecord
from ablate.verdict.summary import Summary


def definitions(record: SearchRecord) -> list[str]:
    """A line for each objective, then one for each kind of number shown."""
    seeds = ", ".join(map(str, record.seeds))
    lines = [
        f"{one.metric}: {one.definition + '; ' if one.definition else ''}"
        f"{'lower' if one.goal == 'min' else 'higher'} is better{', compared as a ratio' if one.log else ''}"
        for one in record.objectives
    ]
    several = len(record.seeds) > 1
    lines.append(
        f"value: {_mean(record) if several else 'at'} {plural(len(record.seeds), 'seed')} ({seeds}) at the end of "
        f"training, on the tuning split of the text; against {record.reference}: the difference at the same "
        f"{'seeds' if several else 'seed'}"
        + (", × where it is a ratio" if any(one.log for one in record.objectives) else "")
        + ", without an interval, for there is none to trust after a choice"
    )
    if record.chosen:
        lines.append(_CONFIRMED.format(record.reference))
    if len(record.objectives) > 1:
        lines.append(
            "front: blocks that finished, and that no other equals or betters in every objective while it betters them "
            "in one; dominated: not on it"
        )
        lines.append(f"beats: is better than {record.reference} in every objective, by however little")
    else:
        lines.append(f"beats: is better than {record.reference}, by however little")
    lines.append(
        f"parameters, FLOPs (of one forward pass over one sequence): against {record.reference}; "
        f"edits: the named differences from {record.reference}"
    )
    if record.pruner != "none":
        lines.append(
            "pruned: stopped at a rung for being behind; its values are of that step and not compared. Spearman: rank "
            "correlation of the values at the two steps over the n blocks that came to both"
        )
    lines.append("number of derivations: of the grammar, with those that constraints refuse or that are the same block")
    return lines


def _mean(record: SearchRecord) -> str:
    return "mean (where it is a ratio, geometric) over" if any(one.log for one in record.objectives) else "mean over"


_CONFIRMED = (
    "confirmed: the best of the search, those that beat {} in every objective first, trained anew at fresh seeds and "
    "judged on the verdict split of the text; the search has seen neither"
)


def briefly(record: SearchRecord) -> list[str]:
    """The least that is needed to read the terminal; the page has the rest."""
    margins = {} if record.confirmed is None else {one.name: wording.margin(one) for one in record.confirmed.metrics}
    lines = [
        f"{one.metric}: {one.definition + '; ' if one.definition else ''}"
        f"{'lower' if one.goal == 'min' else 'higher'} is better{', compared as a ratio' if one.log else ''}"
        + (f"; margin {margins[one.metric] or 'none'}" if one.metric in margins else "")
        for one in record.objectives
    ]
    several = len(record.seeds) > 1
    lines.append(
        f"value: {_mean(record) if several else 'at'} {plural(len(record.seeds), 'seed')}, on the tuning split; "
        f"against {record.reference}: the difference at the same {'seeds' if several else 'seed'}, without an "
        "interval, for there is none to trust after a choice"
    )
    if record.confirmed is not None:
        lines += _of_confirmed(record, record.confirmed)
    return [*lines, "all numbers are defined on the page"]


def _of_confirmed(record: SearchRecord, summary: Summary) -> list[str]:
    confidence = f"{100 * summary.confidence:.3g} %"
    others = plural(len(summary.comparisons("baseline")), "comparison")
    lines = [
        "confirmed: the best of the search at fresh seeds and on the verdict split, which it has not seen; search: "
        f"the difference to {record.reference} seen there; difference: paired over the n seeds finished on both sides, "
        f"with Student's interval at {confidence} over seeds, each with an initialisation, an order of "
        "the data and held-out text of its own; left: it as a share of the search's, where that was an advantage",
        f"better, worse: {footnotes.p_below(summary)} after Holm's correction over {others}, metric by metric",
    ]
    if any(metric.margin is not None for metric in summary.metrics):
        lines[-1] += "; equivalent: the same of both one-sided tests against the margin"
    if any(effect.ranked for effect in summary.effects):
        lines[-1] += (
            "; by rank: over all seeds where one diverged, which is worse than any number; n: survivors / seeds"
        )
    if any(effect.seeds_needed is not None for effect in summary.effects):
        lines[-1] += "; +k seeds: about so many more would decide"
    return lines
