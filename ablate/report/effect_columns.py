"""The columns of every table of comparisons: of each the heading and what it says of an effect, declared once.

A table names those that it has: the screen of a run, the page, Markdown, LaTeX, and what confirms a search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ablate.output import numbers
from ablate.report import wording
from ablate.report.document import Column, StyledText, Tone, Words
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


def _alone(summary: Summary) -> str:
    return f"by itself [{100 * summary.confidence:.4g} %]"


def _noted(effect: Effect) -> str:
    return wording.verdict(effect) + (f" ({effect.note})" if effect.note else "")


def _chance(p: float | None) -> str:
    return numbers.chance(p) or "–"


COLUMNS: Mapping[str, EffectColumn] = {
    "change": EffectColumn("change", lambda effect: effect.change),
    "metric": EffectColumn("metric", lambda effect: effect.metric),
    "difference": EffectColumn(difference_heading, wording.difference),
    "difference and test": EffectColumn(difference_heading, _tested),
    "by itself": EffectColumn(_alone, wording.single),
    "by itself or –": EffectColumn(_alone, lambda effect: wording.single(effect) or "–"),
    "n": EffectColumn("n", wording.pairs),
    "verdict": EffectColumn("verdict", wording.verdict),
    "verdict and note": EffectColumn("verdict", _noted),
    "p": EffectColumn("p (Holm)", lambda effect: _chance(effect.p_adjusted)),
    "q": EffectColumn("q (Benjamini-Hochberg)", lambda effect: _chance(effect.q)),
    "p of equivalence": EffectColumn("p of equivalence (Holm)", lambda effect: _chance(effect.p_equivalent_adjusted)),
}


KINDS: Mapping[str, Literal["metric", "number", "verdict"]] = {"metric": "metric", "n": "number", "verdict": "verdict"}
"""What the cells of a column are, where they are no plain text."""


def headings(names: Sequence[str], summary: Summary) -> tuple[str, ...]:
    """The headings of these columns."""
    declared = [COLUMNS[name].heading for name in names]
    return tuple(heading if isinstance(heading, str) else heading(summary) for heading in declared)


def cells(names: Sequence[str], effect: Effect) -> tuple[str, ...]:
    """What these columns say of an effect."""
    return tuple(COLUMNS[name].cell(effect) for name in names)


def columns(names: Sequence[str], summary: Summary, **lines: int) -> tuple[Column, ...]:
    """These columns in a table of groups; `lines` says of a column on which line it stands where there is no room."""
    return tuple(
        Column(heading, KINDS.get(name, "text"), lines.get(name, 0), roomy=name == "by itself")
        for name, heading in zip(names, headings(names, summary), strict=True)
    )


def words(names: Sequence[str], effect: Effect) -> tuple[Words, ...]:
    """What these columns say of an effect: the verdict in its tone, which what is not judged has not."""
    tones: dict[str, Tone] = {"verdict": effect.verdict if effect.judged else "faint", "by itself": "faint"}
    return tuple(
        (StyledText(COLUMNS[name].cell(effect), tones[name]),) if name in tones else COLUMNS[name].cell(effect)
        for name in names
    )


def beside(effects: Iterable[Effect]) -> tuple[str, ...]:
    """The column of single intervals, where any stands beside another."""
    return ("by itself",) if any(wording.single(effect) for effect in effects) else ()


def faint(text: str) -> Words:
    """A text that is beside the point; nothing where it is empty."""
    return (StyledText(text, "faint"),) if text else ""
