"""What a space claims beforehand, beside what was seen: a sentence on the screen, a table on the page."""

from __future__ import annotations

from collections.abc import Iterator

from ablate.output.words import spoken
from ablate.report import wording
from ablate.report.document import Grid, Statement, StyledText, Tone
from ablate.verdict.summary import Expectation, Summary

HEADING = ("claim", "expected", "seen", "so it is")
TONES: dict[str, Tone] = {"as expected": "equivalent", "not as expected": "worse", "undecided": "undecided"}
"""The verdict whose colour an outcome has."""


def statements(summary: Summary) -> Iterator[Statement]:
    """Yield a sentence for each claim: what was expected, what was seen, and whether that is the same."""
    for claim in summary.expectations:
        seen = StyledText(f"{claim.outcome}: {_seen(claim)}", TONES[claim.outcome])
        told = StyledText(f"claim: {claim.claim}; expected {_foreseen(claim)}; ")
        yield Statement((told, seen))


def table(summary: Summary) -> Grid | None:
    """Return a row for each claim; None where the space makes none."""
    if not summary.expectations:
        return None
    rows = tuple((claim.claim, _foreseen(claim), _seen(claim), claim.outcome) for claim in summary.expectations)
    return Grid(
        title="Expected and seen",
        note="claims that the space made before it was run; the verdict of a comparison says whether one holds",
        heading=HEADING,
        rows=rows,
    )


def _foreseen(claim: Expectation) -> str:
    return f"{' or '.join(map(spoken, claim.verdicts))} on {spoken(claim.metric)}, {claim.of}"


def _seen(claim: Expectation) -> str:
    effect = claim.effect
    if effect is None:
        return "nothing of that name was compared"
    verdict = "" if effect.verdict == "undecided" else f"{spoken(effect.verdict)}, "
    return f"{verdict}{wording.difference(effect)}, n = {effect.n}"
