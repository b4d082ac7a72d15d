"""Claims: what a space expects beside what was found, and when each claim was stated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from ablate.output.words import plural, spoken
from ablate.report import wording
from ablate.report.document import Grid, Statement, StyledText, Tone
from ablate.space.judge import STEP
from ablate.verdict.summary import Correlation, Effect, Expectation, Stamp, Summary

HEADING = ("claim", "expected", "seen", "so it is", "stated")
LATE: Tone = "worse"
NOTE = "claims of the space; the verdict of a comparison says whether one holds"
OF_STAMPS = (
    "; one is stated before results if the space with it was kept before both sides had a result, at whatever seeds, "
    "profile or plan"
)
TONES: dict[str, Tone] = {"as expected": "equivalent", "not as expected": "worse", "undecided": "undecided"}


def statements(summary: Summary) -> Iterator[Statement]:
    for claim in summary.expectations:
        seen = StyledText(f"{claim.outcome}: {_seen(claim, summary)}", TONES[claim.outcome])
        told = StyledText(f"claim: {claim.claim}; expected {_foreseen(claim)}; ")
        dated: tuple[StyledText, ...] = ()
        if claim.stamp is not None:
            tone: Tone = LATE if claim.stamp.stamped == "after results" else "plain"
            dated = (StyledText("; "), StyledText(short_date(claim.stamp, summary.space), tone))
        yield Statement((told, seen, *dated))


def claims_table(summary: Summary) -> Grid | None:
    if not summary.expectations:
        return None
    dated = any(claim.stamp is not None for claim in summary.expectations)
    rows = tuple(
        (claim.claim, _foreseen(claim), _seen(claim, summary), claim.outcome)
        + (("" if claim.stamp is None else whole_date(claim.stamp, summary.space),) if dated else ())
        for claim in summary.expectations
    )
    return Grid(
        title="Expected and seen",
        note=NOTE + (OF_STAMPS if dated else ""),
        heading=HEADING if dated else HEADING[:-1],
        rows=rows,
    )


def _foreseen(claim: Expectation) -> str:
    if claim.correlation is not None:
        other = spoken(claim.correlation.other)
        return f"a {claim.verdicts[0]} correlation of {spoken(claim.metric)} with {other}"
    if not claim.verdicts:  # an order, or equivalents
        what = claim.of if STEP in claim.of else f"{claim.of} equivalent"
        return f"{what} in {spoken(claim.metric)}"
    return f"{' or '.join(map(spoken, claim.verdicts))} on {spoken(claim.metric)}, {claim.of}"


def _seen(claim: Expectation, summary: Summary) -> str:
    if claim.correlation is not None:
        return _correlated(claim.correlation, sum(each.correlation is not None for each in summary.expectations))
    if not claim.steps:
        return "nothing of that name was compared"
    if claim.verdicts:
        return _of(claim.steps[0].effect)
    told = []
    for step in claim.steps:
        after, before = (summary.arm(id).name for id in (step.effect.after, step.effect.before))
        undecided = "undecided, " if step.outcome == "undecided" else ""
        told.append(f"{after} against {before} {undecided}{_of(step.effect)}")
    return f"{'; '.join(told)} ({len(claim.steps)} of the {plural(summary.tests, 'comparison')} of its family)"


def _of(effect: Effect) -> str:
    verdict = "" if effect.verdict == "undecided" else f"{spoken(effect.verdict)}, "
    return f"{verdict}{wording.difference(effect)}, n = {effect.n}"


def _correlated(seen: Correlation, claimed: int) -> str:
    if seen.mean is None:
        return "no seed has a correlation yet"
    bounds = "" if seen.low is None or seen.high is None else f" [{seen.low:.2f}, {seen.high:.2f}]"
    family = f", one of {plural(claimed, 'correlation')} that are a family" if claimed > 1 else ", a family of its own"
    note = f"; {seen.note}" if seen.note else ""
    sign = f"{seen.sign}, " if seen.sign else ""
    over = f"mean over {plural(seen.n, 'seed')} of Spearman's ρ over {plural(seen.rows, 'variant')}"
    return f"{sign}{seen.mean:.2f}{bounds}, {over}{family}{note}"


# The date of a claim in words: before or after its results, and what has changed since.

MOST_ON_A_SCREEN = 4  # the most changes that a sentence lists; the page, JSON and SQL have all
ID_DIGITS = 8


def short_date(stamp: Stamp, here: str) -> str:
    changes, left = stamp.changes, len(stamp.changes) - MOST_ON_A_SCREEN
    if left > 0:
        changes = (*changes[:MOST_ON_A_SCREEN], f"and {plural(left, 'more change')}")
    return _told(stamp, here, changes)


def whole_date(stamp: Stamp, here: str) -> str:
    return _told(stamp, here, stamp.changes)


def _told(stamp: Stamp, here: str, changes: Sequence[str]) -> str:
    where = f" in {stamp.space}" if stamp.space not in ("", here) else ""
    by = f" (plan {stamp.plan[:ID_DIGITS]}{where})" if stamp.plan else ""
    if stamp.stamped == "not dated":
        told = ["not dated yet: a run keeps it with its date"]
    elif stamp.stamped == "before results":
        told = [f"stated before results, on {moment(stamp.at)}{by}"]
    else:
        place = f" in {stamp.known_in}" if stamp.known_in not in ("", here) else ""
        when = "not dated" if stamp.at is None else f"stated on {moment(stamp.at)}{by}"
        told = [f"after results: {when}, and what it compares had results on {moment(stamp.known_at)}{place}"]
    if changes:
        told.append(f"since then {', '.join(changes)}")
    if stamp.was:
        told.append(f"before it was: {'; '.join(stamp.was)}")
    return "; ".join(told)


def moment(at: float | None) -> str:
    """Return a moment in words.

    >>> moment(0.0), moment(None)
    ('1970-01-01 00:00 UTC', 'a date that was not recorded')
    """
    return "a date that was not recorded" if at is None else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"
