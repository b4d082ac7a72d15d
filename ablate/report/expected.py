"""What a space claims beforehand, beside what was seen: a sentence on the screen, a table on the page."""

from __future__ import annotations

from collections.abc import Iterator

from ablate.output.words import spoken
from ablate.report import stamps, wording
from ablate.report.document import Grid, Statement, StyledText, Tone
from ablate.verdict.summary import Expectation, Summary

HEADING = ("claim", "expected", "seen", "so it is", "stated")
LATE: Tone = "worse"
"""The tone of a stamp after results."""
NOTE = "claims of the space; the verdict of a comparison says whether one holds"
OF_STAMPS = (
    "; one is stated before results if the space with it was kept before both sides had a result, at whatever seeds, "
    "profile or plan"
)
TONES: dict[str, Tone] = {"as expected": "equivalent", "not as expected": "worse", "undecided": "undecided"}
"""The verdict whose colour an outcome has."""


def statements(summary: Summary) -> Iterator[Statement]:
    """Yield a sentence for each claim: what was expected, what was seen, and whether that is the same."""
    for claim in summary.expectations:
        seen = StyledText(f"{claim.outcome}: {_seen(claim)}", TONES[claim.outcome])
        told = StyledText(f"claim: {claim.claim}; expected {_foreseen(claim)}; ")
        yield Statement((told, seen, *_stamp(claim, summary)))


def table(summary: Summary) -> Grid | None:
    """Return a row for each claim; None where the space makes none."""
    if not summary.expectations:
        return None
    dated = any(claim.stamp is not None for claim in summary.expectations)
    rows = tuple(
        (claim.claim, _foreseen(claim), _seen(claim), claim.outcome)
        + (("" if claim.stamp is None else stamps.full(claim.stamp, summary.space),) if dated else ())
        for claim in summary.expectations
    )
    return Grid(
        title="Expected and seen",
        note=NOTE + (OF_STAMPS if dated else ""),
        heading=HEADING if dated else HEADING[:-1],
        rows=rows,
    )


def _stamp(claim: Expectation, summary: Summary) -> Iterator[StyledText]:
    if claim.stamp is not None:
        late = claim.stamp.stamped == "after results"
        yield StyledText("; ")
        yield StyledText(stamps.short(claim.stamp, summary.space), LATE if late else "plain")


def _foreseen(claim: Expectation) -> str:
    return f"{' or '.join(map(spoken, claim.verdicts))} on {spoken(claim.metric)}, {claim.of}"


def _seen(claim: Expectation) -> str:
    effect = claim.effect
    if effect is None:
        return "nothing of that name was compared"
    verdict = "" if effect.verdict == "undecided" else f"{spoken(effect.verdict)}, "
    return f"{verdict}{wording.difference(effect)}, n = {effect.n}"
