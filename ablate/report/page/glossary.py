"""The meaning of each number of a page."""

from __future__ import annotations

from ablate.report import footnotes
from ablate.report.page.curves import names
from ablate.report.page.record import PageRecord
from ablate.space.metrics import BITS


def definitions(record: PageRecord) -> list[str]:
    """Return the definitions of verdicts and metrics, then of what else was measured."""
    summary = record.summary
    lines = list(footnotes.definitions(summary, record.definitions))
    judged = {metric.name for metric in summary.metrics}
    beside = [BITS] if summary.bits_beside else []
    measured = [*beside, *names(record), *dict.fromkeys(course.metric for course in record.gains)]
    lines += [f"{name}: {record.definitions[name]}" for name in measured if name in record.definitions.keys() - judged]
    analyses = " and for the interim analyses" if summary.looks else ""
    alone = ", if only this analysis were made" if summary.looks else ""
    lines.append(
        "p: for no difference; p of equivalence: the larger of the two one-sided tests; both are adjusted by Holm over "
        f"the family{analyses}. q: the p for no difference, adjusted by Benjamini and Hochberg: of those below a "
        f"level, at most that share is false on average{alone}; no verdict is based on it"
    )
    return lines
