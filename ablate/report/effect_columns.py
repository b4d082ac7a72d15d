"""The columns of every table of comparisons: of each the heading and what it says of an effect, declared once.

A table names those that it has: the screen of a run, the page, Markdown, LaTeX, and what confirms a search.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ablate.output import numbers
from ablate.report import wording
from ablate.report.document import Span, Words
from ablate.verdict.summary import Effect, Summary

ADJUSTED = "adjusted"
"""What an interval is called that goes with its verdict."""

TESTS = {"sign_flip": ", sign flips", "sign": ", sign test", "worst_rank": ", of survivors"}
"""By what a difference was tested, where it was not by t."""


def interval_kind(summary: Summary) -> str:
    """What the intervals shown are: `adjusted` where they go with verdicts, else the confidence of each by itself."""
    adjusted = any(effect.adjusted_low is not None for effect in summary.effects)
    return ADJUSTED if adjusted else f"{100 * summary.confidence:.4g} %"


def difference_heading(summary: Summary) -> str:
    """The heading over differences: what they are given with."""
    kind = interval_kind(summary)
    return f"difference ({kind})" if kind == ADJUSTED else f"difference [{kind}]"


@dataclass(frozen=True, slots=True)
class EffectColumn:
    """A column: its heading in the tables of a summary, and its cell for an effect."""

    heading: str | Callable[[Summary], str]
    cell: Callable[[Effect], str]


def _tested(effect: Effect) -> str:
    """The difference, and by what it was tested where that was not by t."""
    return wording.difference(effect) + (TESTS.get(effect.method, "") if effect.estimate is not None else "")


def _noted(effect: Effect) -> str:
    return wording.verdict(effect) + (f" ({effect.note})" if effect.note else "")


def _chance(p: float | None) -> str:
    return numbers.chance(p) or "–"


COLUMNS: Mapping[str, EffectColumn] = {
    "change": EffectColumn("change", lambda effect: effect.change),
    "metric": EffectColumn("metric", lambda effect: effect.metric),
    "difference": EffectColumn(difference_heading, wording.difference),
    "difference and test": EffectColumn(difference_heading, _tested),
    "by itself": EffectColumn(
        lambda summary: f"by itself [{100 * summary.confidence:.4g} %]", lambda effect: wording.single(effect) or "–"
    ),
    "n": EffectColumn("n", wording.pairs),
    "verdict": EffectColumn("verdict", wording.verdict),
    "verdict and note": EffectColumn("verdict", _noted),
    "p": EffectColumn("p (Holm)", lambda effect: _chance(effect.p_adjusted)),
    "q": EffectColumn("q (Benjamini-Hochberg)", lambda effect: _chance(effect.q)),
    "p of equivalence": EffectColumn("p of equivalence (Holm)", lambda effect: _chance(effect.p_equivalent_adjusted)),
}


def headings(names: tuple[str, ...], summary: Summary) -> tuple[str, ...]:
    """The headings of these columns."""
    columns = [COLUMNS[name].heading for name in names]
    return tuple(heading if isinstance(heading, str) else heading(summary) for heading in columns)


def cells(names: tuple[str, ...], effect: Effect) -> tuple[str, ...]:
    """What these columns say of an effect."""
    return tuple(COLUMNS[name].cell(effect) for name in names)


def verdict_words(effect: Effect) -> Words:
    """The verdict in its tone, which what is not judged has not."""
    return (Span(wording.verdict(effect), effect.verdict if effect.judged else "faint"),)


def faint(text: str) -> Words:
    """A text that is beside the point; nothing where it is empty."""
    return (Span(text, "faint"),) if text else ""
