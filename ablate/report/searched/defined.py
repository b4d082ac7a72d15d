"""What each number of a search means."""

from __future__ import annotations

from ablate.report.searched.record import SearchRecord
from ablate.report.wording import plural


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
        f"training; against {record.reference}: the difference at the same {'seeds' if several else 'seed'}"
        + (", × where it is a ratio" if any(one.log for one in record.objectives) else "")
        + ", without an interval, for there is none to trust after a choice"
    )
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
