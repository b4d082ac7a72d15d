"""What each number of a page means."""

from __future__ import annotations

from ablate.report import footnotes
from ablate.report.page.curves import names
from ablate.report.page.record import PageRecord
from ablate.space.metrics import BITS


def definitions(record: PageRecord) -> list[str]:
    """Of verdicts and metrics first, then of what was measured beside them."""
    summary = record.summary
    lines = list(footnotes.definitions(summary, record.definitions))
    judged = {metric.name for metric in summary.metrics}
    beside = [BITS] if summary.bits_beside else []
    measured = [*beside, *names(record), *dict.fromkeys(course.metric for course in record.gains)]
    lines += [f"{name}: {record.definitions[name]}" for name in measured if name in record.definitions.keys() - judged]
    adjusted = "after looking several times, too, " if summary.looks else ""
    once = ", were it looked only then" if summary.looks else ""
    lines.append(
        f"p: of no difference; p of equivalence: the greater of the two one-sided tests; both by Holm {adjusted}over "
        "the family. q: that of no difference by Benjamini and Hochberg: of those below a level at most that share is "
        f"false on average{once}; no verdict is made by it"
    )
    return lines
