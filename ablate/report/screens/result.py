"""The screen at the end of a run: the question, an answer for each edit, the numbers, and what they mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ablate.output.words import listed, of_profile
from ablate.report import footnotes, wording
from ablate.report.answers import answers, conclusion
from ablate.report.comparisons import size_tables, unequal_lines
from ablate.report.document import (
    BulletList,
    Column,
    GroupedTable,
    Part,
    ReportDocument,
    RowGroup,
    Statements,
    TableOf,
    Words,
)
from ablate.report.effect_tables import WIDE, beside, columns, effect_tables, faint, words
from ablate.verdict.fairness_audit import Unequal
from ablate.verdict.summary import Arm, Effect, Metric, Summary

MOST_NOTES = 5
"""Number of notes above which the conclusion is repeated below them: a terminal shows what was printed last."""


def result_screen(
    summary: Summary,
    definitions: Mapping[str, str] | None = None,
    *,
    unequal: Sequence[Unequal] = (),
    mixed: Sequence[str] = (),
) -> ReportDocument:
    """Return the screen as a document: the answer first, the numbers after; below many notes its conclusion again.

    `definitions` says how each metric, by name, is computed. `unequal` is what was not equal between variants, if a
    space declares terms, `mixed` the versions in which trials differ, in lines.
    """
    return ReportDocument(
        title=summary.question.strip() or summary.space,
        about=(" · ".join((summary.space, summary.design, *of_profile(summary.profile))),),
        parts=tuple(_parts(summary, definitions or {}, unequal, mixed)),
    )


def _parts(
    summary: Summary, definitions: Mapping[str, str], unequal: Sequence[Unequal], mixed: Sequence[str]
) -> Iterator[Part]:
    yield answers(summary)
    yield from effect_tables(summary)
    yield from map(TableOf, size_tables(summary))
    yield _variants(summary)
    beware = BulletList((*mixed, *footnotes.peculiarities(summary), *footnotes.warnings(summary.notes)), "beware")
    terms = BulletList(tuple(unequal_lines(unequal)), "unequal")
    explained = (*footnotes.in_bits(summary), *footnotes.definitions(summary, definitions))
    remarks = BulletList((*footnotes.information(summary.notes), *explained), "remarks")
    yield from (beware, terms, remarks)
    if sum(len(notes.lines) for notes in (beware, terms, remarks)) > MOST_NOTES and (last := conclusion(summary)):
        yield Statements((last,))


def _against(summary: Summary) -> str:
    """Most runs of a factorial are not compared, since effects are over all of them."""
    compared = {e.after for e in summary.effects if e.kind in ("baseline", "noise")}
    bare = [arm for arm in summary.arms if arm.name != summary.baseline and arm.variant not in compared]
    if summary.ladders:
        return "the comparisons are above"
    if not summary.factors or not bare:
        return f"each against {summary.baseline}"
    named = listed([arm.name for arm in summary.arms if arm.variant in compared]) if compared else "none"
    judged = "effects" if any(factors.varied for _, factors in summary.factors) else "edits"
    return f"of which {named} against {summary.baseline}; {judged} are judged over all runs, above"


def _variants(summary: Summary) -> GroupedTable:
    compared = (*summary.comparisons("noise"), *summary.comparisons("baseline"))
    alone = beside(effect for effects in compared for effect in effects)
    against = {(e.after, e.metric): e for effects in compared for e in effects}
    return GroupedTable(
        title="Variants",
        note=_against(summary),
        columns=(
            Column("variant", "name"),
            *columns(("metric",), summary),
            Column("mean ± sd", line=1),
            *columns(("difference", *alone, "n", "verdict"), summary, difference=2),
        ),
        groups=tuple(
            RowGroup(
                arm.name,
                f"diverged {arm.diverged} of {arm.ended}",
                tuple(_row(arm, m, against.get((arm.variant, m.name)), summary, alone) for m in summary.metrics),
            )
            for arm in summary.arms
        ),
        side_by_side=WIDE,
        room=(20, 16),
    )


def _row(
    arm: Arm, metric: Metric, effect: Effect | None, summary: Summary, alone: tuple[str, ...]
) -> tuple[Words, ...]:
    level = arm.levels.get(metric.name)
    mean, counted = wording.level(level, metric), wording.seeds_of(level.n if level else 0, effect)
    if effect is None:
        return metric.name, mean, "", *("" for _ in alone), counted, faint("baseline" * (arm.name == summary.baseline))
    return metric.name, mean, *words(("difference", *alone), effect), counted, *words(("verdict",), effect)
