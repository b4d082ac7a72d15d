"""Tables of effects: of edits, of a factorial's edits and interactions, and its analysis of variance."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, groupby

from ablate.output.words import chance, significant
from ablate.report.document import Column, GroupedTable, RowGroup
from ablate.report.effect_columns import beside, columns, words
from ablate.verdict.factorial import averaged
from ablate.verdict.summary import Anova, Effect, Summary

WIDE = 100
"""Width of a screen, in columns, from which the cells of these tables stand side by side."""

GROUPS = "groups"
"""The design in which all variants are compared with all others."""
EDITS = {
    "path": "each against the step before it",
    "leave_one_out": "each as the whole against the whole without it",
    "add_one_in": "each added alone",
    GROUPS: "those without the baseline",
}
"""The meaning of the differences of edits, by design."""

KINDS = {
    "edit": ("Edits", "edit"),
    "main": ("Edits", "edit"),
    "interaction": ("Interactions", "edits"),
    "trend": ("Over sizes", "treatment"),
}
"""The title of the table of a kind of comparison, and the heading of its first column."""


def title_of(kind: str, summary: Summary) -> str:
    """Return the title of the table of a kind of comparison."""
    varied = any(factors.varied for _, factors in summary.factors)
    if kind == "edit" and summary.ladders:
        return "At each size"
    if kind == "edit" and summary.design.startswith(GROUPS):
        return "Pairs"
    if kind == "main" and varied:
        return "Edits and factors" if any(factors.edits for _, factors in summary.factors) else "Factors"
    return KINDS[kind][0]


def described(kind: str, summary: Summary) -> str:
    """Return the meaning of the differences in the table of a kind of comparison."""
    varied = any(factors.varied for _, factors in summary.factors)
    if kind == "trend":
        return "the factor by which the speed-up grows for ten times the training compute; better: it grows"
    if kind == "edit" and summary.ladders:
        return f"each treatment against {summary.ladders[0].baseline} at the same size"
    if kind == "interaction":
        return f"what {'two of them' if varied else 'edits'} do together beyond what each does alone"
    if kind == "main":
        if averaged(summary) and varied:
            return "each averaged over the levels of the others"
        if averaged(summary):
            return "each averaged over runs with and without the other edits"
        return "each by least squares over the available runs, which are unbalanced in the other edits"
    return EDITS.get(summary.design.split(" ")[0].rstrip(","), "the difference that each makes")


def effect_tables(summary: Summary) -> Iterator[GroupedTable]:
    """Yield a table for each kind of comparison of edits and each set of terms, then the analyses of variance."""
    several = len(summary.terms) > 1
    for kind, (_, heading) in KINDS.items():
        title = title_of(kind, summary)
        heading = "effect" if title != KINDS[kind][0] else heading
        for terms, group in groupby(summary.comparisons(kind), key=lambda effects: effects[0].terms):
            comparisons = list(group)
            names = ("metric", "difference", *beside(chain.from_iterable(comparisons)), "n", "verdict")
            yield GroupedTable(
                title=f"{title} under {terms}" if several and terms else title,
                note=described(kind, summary),
                columns=(Column(heading, "name"), *columns(names, summary)),
                groups=tuple(
                    RowGroup(effects[0].change, _diverged_of(effects[0]), tuple(words(names, e) for e in effects))
                    for effects in comparisons
                ),
                side_by_side=WIDE,
                room=(24, 16),
            )
    for terms, lines in anovas(summary).items():
        metrics = [(metric, [line for line in lines if line.metric == metric.name]) for metric in summary.metrics]
        yield GroupedTable(
            title=f"Analysis of variance under {terms}" if several and terms else "Analysis of variance",
            note=f"how much of the variation between runs each {_explained(summary)} and the seeds explain",
            columns=ANOVA_COLUMNS,
            groups=tuple(
                RowGroup(metric.name, "of logarithms" if metric.log else "", tuple(map(anova_row, rows)))
                for metric, rows in metrics
                if rows
            ),
            side_by_side=WIDE,
            room=(44, 24),
        )


def _explained(summary: Summary) -> str:
    return "edit, each factor" if any(factors.varied for _, factors in summary.factors) else "edit"


ANOVA_COLUMNS = (
    Column("metric", "name"),
    Column("term", "name"),
    *(Column(heading, "number") for heading in ("sum of squares", "df", "F", "p")),
)


def anovas(summary: Summary) -> dict[str, list[Anova]]:
    """Return the lines of the analyses of variance by the name of their terms."""
    by_terms: dict[str, list[Anova]] = {}
    for line in summary.anova:
        by_terms.setdefault(line.terms, []).append(line)
    return by_terms


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


def anova_row(line: Anova) -> tuple[str, str, str, str, str]:
    """Return a line of the analysis of variance as texts: term, sum of squares, degrees of freedom, F or U, p."""
    squares = "" if line.sum_of_squares is None else significant(line.sum_of_squares)
    df = "" if line.df is None else str(line.df)
    return line.term, squares, df, anova_statistic(line), chance(line.p)


def anova_statistic(line: Anova) -> str:
    """Return F, or the U of sphericity; nothing if the line is not tested."""
    if line.u is not None:
        return f"U = {significant(line.u)}"
    return "" if line.f is None else significant(line.f)
