"""The tables of comparisons: their columns, declared once, and each kind of table made of them.

Each table names the columns it has: the screen of a run, the page, Markdown, LaTeX, and the confirmation of a search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Literal

from ablate.output.words import chance, of_profile, significant
from ablate.report import footnotes, markdown_renderer, wording
from ablate.report.claims import claims_table
from ablate.report.comparisons import size_tables
from ablate.report.document import (
    BulletList,
    Column,
    Grid,
    GroupedTable,
    Prose,
    ReportDocument,
    RowGroup,
    Section,
    StyledText,
    TableOf,
    Tone,
    Words,
)
from ablate.verdict.factorial import averaged
from ablate.verdict.summary import Anova, Arm, Effect, Metric, Summary

ADJUSTED = "adjusted"


def interval_kind(summary: Summary) -> str:
    """Return `adjusted` if the intervals agree with verdicts, else their unadjusted confidence."""
    adjusted = any(effect.adjusted_low is not None for effect in summary.effects)
    return ADJUSTED if adjusted else f"{100 * summary.confidence:.4g} %"


def difference_heading(summary: Summary) -> str:
    kind = interval_kind(summary)
    return f"difference ({kind})" if kind == ADJUSTED else f"difference [{kind}]"


@dataclass(frozen=True, slots=True)
class EffectColumn:
    heading: str | Callable[[Summary], str]
    cell: Callable[[Effect], str]


def _tested(effect: Effect) -> str:
    return wording.difference(effect) + (wording.TESTS[effect.method].mark if effect.estimate is not None else "")


def _alone(summary: Summary) -> str:
    return f"unadjusted [{100 * summary.confidence:.4g} %]"


def _noted(effect: Effect) -> str:
    return wording.verdict(effect) + (f" ({effect.note})" if effect.note else "")


def p_or_dash(p: float | None) -> str:
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
    "p": EffectColumn("p (Holm)", lambda effect: p_or_dash(effect.p_adjusted)),
    "q": EffectColumn("q (Benjamini-Hochberg)", lambda effect: p_or_dash(effect.q)),
    "p of equivalence": EffectColumn("p of equivalence (Holm)", lambda effect: p_or_dash(effect.p_equivalent_adjusted)),
}

CELL_KINDS: Mapping[str, Literal["metric", "number", "verdict"]] = {
    "metric": "metric",
    "n": "number",
    "verdict": "verdict",
}
"""The kind of the cells of a column, unless they are plain text."""


def headings(names: Sequence[str], summary: Summary) -> tuple[str, ...]:
    declared = [COLUMNS[name].heading for name in names]
    return tuple(heading if isinstance(heading, str) else heading(summary) for heading in declared)


def cells(names: Sequence[str], effect: Effect) -> tuple[str, ...]:
    return tuple(COLUMNS[name].cell(effect) for name in names)


def columns(names: Sequence[str], summary: Summary, **lines: int) -> tuple[Column, ...]:
    """Return these columns for a table of groups; `lines` gives the line of a column where space is tight."""
    return tuple(
        Column(heading, CELL_KINDS.get(name, "text"), lines.get(name, 0), roomy=name == "unadjusted")
        for name, heading in zip(names, headings(names, summary), strict=True)
    )


def words(names: Sequence[str], effect: Effect) -> tuple[Words, ...]:
    """Return the cells with the verdict in its tone, or faint if it is not judged."""
    tones: dict[str, Tone] = {"verdict": effect.verdict if effect.judged else "faint", "unadjusted": "faint"}
    return tuple(
        (StyledText(COLUMNS[name].cell(effect), tones[name]),) if name in tones else COLUMNS[name].cell(effect)
        for name in names
    )


def beside(effects: Iterable[Effect]) -> tuple[str, ...]:
    """Return the column of unadjusted intervals, if any is shown beside an adjusted one."""
    return ("unadjusted",) if any(wording.single(effect) for effect in effects) else ()


def faint(text: str) -> Words:
    return (StyledText(text, "faint"),) if text else ""


# Tables of effects in groups: of edits, of a factorial, and its analysis of variance.

WIDE = 100  # width of a screen, in columns, from which the cells of these tables stand side by side

GROUPS = "groups"  # the design in which all variants are compared with all others
EDITS = {
    "path": "each against the step before it",
    "leave_one_out": "each as the whole against the whole without it",
    "add_one_in": "each added alone",
    GROUPS: "those without the baseline",
}

KINDS = {
    "edit": ("Edits", "edit"),
    "main": ("Edits", "edit"),
    "interaction": ("Interactions", "edits"),
    "trend": ("Over sizes", "treatment"),
}
"""The title of the table of a kind of comparison, and the heading of its first column."""


def title_of(kind: str, summary: Summary) -> str:
    varied = any(factors.varied for _, factors in summary.factors)
    if kind == "edit" and summary.ladders:
        return "At each size"
    if kind == "edit" and summary.design.startswith(GROUPS):
        return "Pairs"
    if kind == "main" and varied:
        return "Edits and factors" if any(factors.edits for _, factors in summary.factors) else "Factors"
    return KINDS[kind][0]


def described(kind: str, summary: Summary) -> str:
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
    source = "edit, each factor" if any(factors.varied for _, factors in summary.factors) else "edit"
    for terms, lines in anovas(summary).items():
        metrics = [(metric, [line for line in lines if line.metric == metric.name]) for metric in summary.metrics]
        yield GroupedTable(
            title=f"Analysis of variance under {terms}" if several and terms else "Analysis of variance",
            note=f"how much of the variation between runs each {source} and the seeds explain",
            columns=ANOVA_COLUMNS,
            groups=tuple(
                RowGroup(metric.name, "of logarithms" if metric.log else "", tuple(map(anova_row, rows)))
                for metric, rows in metrics
                if rows
            ),
            side_by_side=WIDE,
            room=(44, 24),
        )


ANOVA_COLUMNS = (
    Column("metric", "name"),
    Column("term", "name"),
    *(Column(heading, "number") for heading in ("sum of squares", "df", "F", "p")),
)


def anovas(summary: Summary) -> dict[str, list[Anova]]:
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
    """Return term, sum of squares, degrees of freedom, F or U, and p as texts."""
    squares = "" if line.sum_of_squares is None else significant(line.sum_of_squares)
    df = "" if line.df is None else str(line.df)
    return line.term, squares, df, anova_statistic(line), chance(line.p)


def anova_statistic(line: Anova) -> str:
    """F, or the U of sphericity; nothing if the line is not tested."""
    if line.u is not None:
        return f"U = {significant(line.u)}"
    return "" if line.f is None else significant(line.f)


# The verdicts as plain tables, for pages, Markdown and MLflow.

EFFECT = ("change", "metric", "difference", "unadjusted or –", "n", "verdict and note")
VARIANT_HEADING = ("variant", "metric", "mean ± sd", "finished", "diverged")
COST_HEADING = ("parameters", "FLOPs per example")


def to_markdown(summary: Summary, definitions: Mapping[str, str]) -> str:
    head = f"Design: {summary.design}", f"Baseline: {summary.baseline}", *of_profile(summary.profile)
    return markdown_renderer.render(
        ReportDocument(
            title=summary.space,
            about=(summary.question,),
            parts=(
                Prose(f"{'. '.join(head)}."),
                *map(TableOf, tables_of(summary)),
                Section("What the metrics mean", (BulletList(tuple(_meanings(summary, definitions))),)),
            ),
        )
    )


def _meanings(summary: Summary, definitions: Mapping[str, str]) -> Iterator[str]:
    for metric in summary.metrics:
        meaning = definitions.get(metric.name, "as measured")
        margin = wording.margin(metric) or "none"
        yield f"`{metric.name}` ({wording.better(metric)}; margin {margin}): {meaning}"
    yield from (*footnotes.in_bits(summary), *summary.notes)


def tables_of(summary: Summary) -> Iterator[Grid]:
    several = len(summary.terms) > 1
    heading = headings(EFFECT, summary)
    if (claims := claims_table(summary)) is not None:
        yield claims
    for (kind, terms), group in groupby(_in_order(summary), key=lambda effect: (effect.kind, effect.terms)):
        under = f", {terms}" if several and terms else ""
        yield _grid(_title(kind, summary) + under, heading, [cells(EFFECT, effect) for effect in group])
    yield from size_tables(summary)
    for terms, lines in anovas(summary).items():
        under = f", {terms}" if several and terms else ""
        rows: list[tuple[str, ...]] = [(line.metric, *anova_row(line)) for line in lines]
        yield _grid(f"Analysis of variance{under}", tuple(column.heading for column in ANOVA_COLUMNS), rows)
    variant_heading = VARIANT_HEADING if summary.elsewhere else (*VARIANT_HEADING, *COST_HEADING)
    yield _grid(
        "Variants", variant_heading, [_variant_row(arm, metric) for arm in summary.arms for metric in summary.metrics]
    )


NUMBERS = ("n", "finished", "diverged", *COST_HEADING)


def _grid(title: str, heading: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Grid:
    numbers = tuple(place for place, name in enumerate(heading) if name in NUMBERS)
    return Grid(title=title, note="", heading=heading, rows=tuple(rows), numbers=numbers)


def _in_order(summary: Summary) -> list[Effect]:
    kinds, terms = list(KINDS), list(summary.terms)
    order = {kind: place for place, kind in enumerate([*kinds, "baseline", "noise"])}
    return sorted(summary.effects, key=lambda e: (order[e.kind], terms.index(e.terms) if e.terms in terms else 0))


def _title(kind: str, summary: Summary) -> str:
    if kind == "noise":
        return "A/A: only the initialisation changed"
    return f"{title_of(kind, summary)}, {described(kind, summary)}" if kind in KINDS else f"Against {summary.baseline}"


def _variant_row(arm: Arm, metric: Metric) -> tuple[str, ...]:
    planned = arm.ended + len(arm.missing)
    cost = () if arm.cost is None else (f"{arm.parameters:,}", f"{arm.flops:,}")
    ends = (f"{arm.finished} of {planned}", str(arm.diverged))
    return arm.name, metric.name, wording.level(arm.levels.get(metric.name), metric), *ends, *cost
