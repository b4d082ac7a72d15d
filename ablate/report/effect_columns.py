"""The columns of every table of comparisons: the heading and the cell of each, declared once.

Each table names the columns it has: the screen of a run, the page, Markdown, LaTeX, and the confirmation of a search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ablate.output.words import chance
from ablate.report import wording
from ablate.report.document import Column, StyledText, Tone, Words
from ablate.verdict.summary import Effect, Summary

ADJUSTED = "adjusted"
"""The name of an interval that agrees with its verdict."""

TESTS = {
    "sign_flip": ", sign flips",
    "sign": ", sign test",
    "worst_rank": ", survivors only",
    "welch": ", Welch",
    "floor": ", floor",
    "strata": ", strata",
    "mann_whitney": ", ranks",
}
"""The test of a difference, where it was not Student's t."""


def interval_kind(summary: Summary) -> str:
    """Return the kind of intervals shown: `adjusted` if they agree with verdicts, else their unadjusted confidence."""
    adjusted = any(effect.adjusted_low is not None for effect in summary.effects)
    return ADJUSTED if adjusted else f"{100 * summary.confidence:.4g} %"


def difference_heading(summary: Summary) -> str:
    """Return the heading over differences, with the kind of their intervals."""
    kind = interval_kind(summary)
    return f"difference ({kind})" if kind == ADJUSTED else f"difference [{kind}]"


@dataclass(frozen=True, slots=True)
class EffectColumn:
    """A column: its heading in the tables of a summary, and its cell for an effect."""

    heading: str | Callable[[Summary], str]
    cell: Callable[[Effect], str]


def _tested(effect: Effect) -> str:
    """Return the difference, and its test if that was not Student's t."""
    return wording.difference(effect) + (TESTS.get(effect.method, "") if effect.estimate is not None else "")


def _alone(summary: Summary) -> str:
    return f"unadjusted [{100 * summary.confidence:.4g} %]"


def _noted(effect: Effect) -> str:
    return wording.verdict(effect) + (f" ({effect.note})" if effect.note else "")


def _chance(p: float | None) -> str:
    return chance(p) or "–"


COLUMNS: Mapping[str, EffectColumn] = {
    "change": EffectColumn("change", lambda effect: effect.change),
    "metric": EffectColumn("metric", lambda effect: effect.metric),
    "difference": EffectColumn(difference_heading, wording.difference),
    "difference and test": EffectColumn(difference_heading, _tested),
    "unadjusted": EffectColumn(_alone, wording.single),
    "unadjusted or –": EffectColumn(_alone, lambda effect: wording.single(effect) or "–"),
    "n": EffectColumn("n", wording.pairs),
    "verdict": EffectColumn("verdict", wording.verdict),
    "verdict and note": EffectColumn("verdict", _noted),
    "p": EffectColumn("p (Holm)", lambda effect: _chance(effect.p_adjusted)),
    "q": EffectColumn("q (Benjamini-Hochberg)", lambda effect: _chance(effect.q)),
    "p of equivalence": EffectColumn("p of equivalence (Holm)", lambda effect: _chance(effect.p_equivalent_adjusted)),
}


KINDS: Mapping[str, Literal["metric", "number", "verdict"]] = {"metric": "metric", "n": "number", "verdict": "verdict"}
"""The kind of the cells of a column, unless they are plain text."""


def headings(names: Sequence[str], summary: Summary) -> tuple[str, ...]:
    """Return the headings of these columns."""
    declared = [COLUMNS[name].heading for name in names]
    return tuple(heading if isinstance(heading, str) else heading(summary) for heading in declared)


def cells(names: Sequence[str], effect: Effect) -> tuple[str, ...]:
    """Return the cells of these columns for an effect."""
    return tuple(COLUMNS[name].cell(effect) for name in names)


def columns(names: Sequence[str], summary: Summary, **lines: int) -> tuple[Column, ...]:
    """Return these columns for a table of groups; `lines` gives the line of a column where space is tight."""
    return tuple(
        Column(heading, KINDS.get(name, "text"), lines.get(name, 0), roomy=name == "unadjusted")
        for name, heading in zip(names, headings(names, summary), strict=True)
    )


def words(names: Sequence[str], effect: Effect) -> tuple[Words, ...]:
    """Return the cells of these columns for an effect, with the verdict in its tone, or faint if it is not judged."""
    tones: dict[str, Tone] = {"verdict": effect.verdict if effect.judged else "faint", "unadjusted": "faint"}
    return tuple(
        (StyledText(COLUMNS[name].cell(effect), tones[name]),) if name in tones else COLUMNS[name].cell(effect)
        for name in names
    )


def beside(effects: Iterable[Effect]) -> tuple[str, ...]:
    """Return the column of unadjusted intervals, if any is shown beside an adjusted one."""
    return ("unadjusted",) if any(wording.single(effect) for effect in effects) else ()


def faint(text: str) -> Words:
    """Return a text as secondary; nothing if it is empty."""
    return (StyledText(text, "faint"),) if text else ""
