"""Tables of effects: of edits, of a factorial's edits and interactions, and its analysis of variance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.console import RenderableType
from rich.table import Table

from ablate.output import numbers
from ablate.output.terminal import Text
from ablate.report import wording
from ablate.report.parts import (
    WIDE,
    Block,
    add_block,
    by_itself,
    difference_heading,
    heading_line,
    new_table,
    single_interval,
    styled,
    verdict_table,
    wrapped,
)
from ablate.verdict.factorial import averaged
from ablate.verdict.summary import Anova, Effect, Summary

EDITS = {
    "path": "each against the step before it",
    "leave_one_out": "each by what taking it out of the whole undoes",
    "add_one_in": "each added alone",
}
"""What the differences of edits are, by design."""

KINDS = {
    "edit": ("Edits", "edit"),
    "main": ("Edits", "edit"),
    "interaction": ("Interactions", "edits"),
}
"""The title of the table of a kind of comparison, and the heading of its first column."""


def described(kind: str, summary: Summary) -> str:
    """What the differences in the table of a kind are."""
    if kind == "interaction":
        return "what edits do together beyond what each does"
    if kind == "main":
        if averaged(summary):
            return "each averaged over the other edits, there or not"
        return "each by least squares over the runs there are, which are not alike in the other edits"
    return EDITS.get(summary.design.split(" ")[0].rstrip(","), "each the difference that it makes")


def effect_tables(summary: Summary, *, width: int) -> Iterator[RenderableType]:
    """A table for each kind of comparison that is about edits, and for each set of terms; then the analysis of
    variance; on a screen of so many columns.
    """
    several = len(summary.terms) > 1
    for kind, (title, heading) in KINDS.items():
        for terms, group in groupby(summary.comparisons(kind), key=lambda effects: effects[0].terms):
            under = f"{title} under {terms}" if several and terms else title
            yield heading_line(under, described(kind, summary))
            yield _effects(list(group), summary, heading, width=width)
            yield Text()
    for terms, lines in anovas(summary).items():
        under = f"Analysis of variance under {terms}" if several and terms else "Analysis of variance"
        yield heading_line(under, "what each edit and seed explains of how the runs differ")
        yield _anova(lines, summary, room=44 if width >= WIDE else 24)
        yield Text()


def anovas(summary: Summary) -> dict[str, list[Anova]]:
    """The lines of the analyses of variance by the name of their terms."""
    found: dict[str, list[Anova]] = {}
    for line in summary.anova:
        found.setdefault(line.terms, []).append(line)
    return found


def _effects(comparisons: Sequence[Sequence[Effect]], summary: Summary, heading: str, *, width: int) -> Table:
    wide, blocks = width >= WIDE, []
    alone = by_itself((effect for effects in comparisons for effect in effects), summary, width)
    for effects in comparisons:
        rows: list[tuple[str | Text, ...]] = [
            (
                e.metric,
                wording.difference(e),
                *([single_interval(e)] * len(alone)),
                wording.pairs(e),
                styled(e, wide=wide),
            )
            for e in effects
        ]
        blocks.append(Block(effects[0].change, _diverged_of(effects[0]), rows))
    headings = (heading, "metric", difference_heading(summary), *alone, "n", "verdict")
    return verdict_table(headings, blocks, room=24 if wide else 16, width=width)


def _diverged_of(effect: Effect) -> str:
    if not effect.diverged_before + effect.diverged_after:
        return "none diverged"
    if not (effect.before and effect.after):
        ended = effect.ended_before + effect.ended_after
        return f"diverged {effect.diverged_before + effect.diverged_after} of {ended}"
    if effect.ended_before == effect.ended_after:
        return f"diverged {effect.diverged_before}→{effect.diverged_after} of {effect.ended_after}"
    before = f"{effect.diverged_before} of {effect.ended_before}"
    return f"diverged {before}→{effect.diverged_after} of {effect.ended_after}"


def _anova(lines: Sequence[Anova], summary: Summary, *, room: int) -> Table:
    table = new_table()
    table.add_column("metric", no_wrap=True)
    table.add_column("term", overflow="fold")
    for heading in ("sum of squares", "df", "F", "p"):
        table.add_column(heading, justify="right", no_wrap=True)
    for metric in summary.metrics:
        rows = [anova_row(line) for line in lines if line.metric == metric.name]
        short = [("\n".join(wrapped(term, room)), *numbers) for term, *numbers in rows]
        if short:
            add_block(table, metric.name, "of logarithms" if metric.log else "", short, room=room)
    return table


def anova_row(line: Anova) -> tuple[str, str, str, str, str]:
    """A line of the analysis of variance, in words: term, sum of squares, degrees of freedom, F or U, p."""
    squares = "" if line.sum_of_squares is None else numbers.significant(line.sum_of_squares)
    df = "" if line.df is None else str(line.df)
    return line.term, squares, df, anova_statistic(line), numbers.chance(line.p)


def anova_statistic(line: Anova) -> str:
    """F, or the U of sphericity; nothing where the line is not tested."""
    if line.u is not None:
        return f"U = {numbers.significant(line.u)}"
    return "" if line.f is None else numbers.significant(line.f)
