"""What the terminal shows: the plan, and the screen at the end of a run. Everything here is something `rich` prints.

The screen answers first and shows the numbers after. Words carry every verdict; colour only repeats them.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table

from ablate.output import words
from ablate.output.terminal import Text
from ablate.plan.plan import Plan, Variant
from ablate.report import footnotes, wording
from ablate.report.aliases import alias_table, beside_table
from ablate.report.answers import answers
from ablate.report.effect_tables import effect_tables
from ablate.report.fairness import unequal_lines
from ablate.report.noise_floor import floor_lines
from ablate.report.parts import (
    STYLES,
    WIDE,
    Block,
    add_block,
    bullet_list,
    by_itself,
    difference_heading,
    heading_line,
    new_table,
    single_interval,
    styled,
    title_lines,
    verdict_table,
)
from ablate.report.to_come import to_come
from ablate.space.documents import Judge
from ablate.statistics import Floor
from ablate.verdict.fairness_audit import Unequal
from ablate.verdict.judgement import Account
from ablate.verdict.summary import Arm, Effect, Metric, Summary

__all__ = [
    "STYLES",
    "WIDE",
    "ResultScreen",
    "add_block",
    "bullet_list",
    "heading_line",
    "new_table",
    "plan_table",
    "title_lines",
]


LISTED_IN_FULL = 3
"""Edits of a variant that the plan names one by one, whatever other variants have."""
MOST_LEFT_OUT = 2
"""A variant with more edits, all but so many of another's, is said to be that one without these."""


def plan_table(
    plan: Plan,
    known: Container[str],
    *,
    seconds: float | None = None,
    rules: Judge | None = None,
    floors: Sequence[Floor] = (),
    means: Mapping[str, float] | None = None,
    account: Account | None = None,
    titled: bool = True,
    failed: Mapping[str, str] | None = None,
    retry: str = "",
) -> RenderableType:
    """The plan: a row for each variant, and how many of its trials are to run or `known` (ids in the store) already.

    Of the known, `failed` have no result, with the kind of their outcome; `retry` is the command that tries them again.
    `seconds` is how long the rest is expected to take, from trials measured before; None where none was. With the
    `rules` of the judge it says what the plan can see: from the noise `floors` of the metrics judged, the
    baseline's `means` where margins are shares of them, and the `account` of what was judged before.
    """
    table = new_table()
    table.add_column("variant", overflow="fold")
    table.add_column("edits applied", overflow="fold")
    for heading in ("parameters", "FLOPs per\nsequence", "to run", "known"):
        table.add_column(heading, justify="right", no_wrap=True)
    to_run, shown, failed = 0, _edits_of(plan), failed or {}
    for variant in plan.variants:
        trials = [trial.id for trial in plan.trials if trial.variant == variant.id]
        new = sum(trial not in known for trial in trials)
        to_run += new
        name = Text(variant.name, style="bold")
        if variant.id == plan.baseline:
            name.append("  baseline", style="not bold dim")
        for other in variant.names[1:]:
            name.append(f"\nsame as {other}", style="not bold dim")
        edits = "\n".join(shown[variant.id]) or Text("none", style="dim")
        flops = f"{variant.flops / 1e6:,.1f} M"
        table.add_row(name, edits, f"{variant.parameters:,}", flops, str(new), _known(trials, known, failed))
    title = title_lines(plan.question, plan.space, plan.design) if titled else ()
    kinds = [failed[trial.id] for trial in plan.trials if trial.id in failed]
    again = [f"what failed is not run again by itself; to try it again: {retry}"] if kinds and retry else []
    notes = [*beside_table(plan.notes, plan.factors), *again]
    parts = [*title, table, Text(), _totals(plan, to_run, seconds, kinds), *bullet_list("!", notes)]
    parts += alias_table(plan.factors)
    if rules is not None:
        parts += bullet_list("~", list(floor_lines(plan, rules, floors, means or {}, account or {})))
    return Group(*parts)


def _edits_of(plan: Plan) -> dict[str, tuple[str, ...]]:
    """The edits of each variant by its id: in full, or, where they are many, by what they leave out of another's."""
    shown: dict[str, tuple[str, ...]] = {}
    full: list[Variant] = []
    for variant in sorted(plan.variants, key=lambda variant: len(variant.edits), reverse=True):
        left = [(other, [edit for edit in other.edits if edit not in variant.edits]) for other in full]
        near = [(o, gone) for o, gone in left if len(gone) <= MOST_LEFT_OUT and set(variant.edits) <= set(o.edits)]
        if len(variant.edits) <= LISTED_IN_FULL or not near:
            shown[variant.id] = variant.edits
            full.append(variant)
            continue
        other, gone = min(near, key=lambda one: len(one[1]))
        shown[variant.id] = (f"all of {other.name}{f' but {words.listed(gone)}' if gone else ''}",)
    return shown


def _known(trials: Sequence[str], known: Container[str], failed: Container[str]) -> str:
    """How many of them are known, and how many of those have no result."""
    number, without = sum(trial in known for trial in trials), sum(trial in failed for trial in trials)
    return f"{number}, {without} failed" if without else str(number)


def _totals(plan: Plan, to_run: int, seconds: float | None, failed: Sequence[str]) -> Text:
    line = Text(words.plural(len(plan.trials), "trial"), style="bold")
    line.append(f" over {words.plural(len(plan.seeds), 'seed')}: ", style="not bold")
    if plan.open and plan.design.startswith("search"):
        line.append("the reference; what a search trains besides is found on the way", style="not bold")
        time = "" if seconds is None else f"; at most about {words.duration(seconds)}"
        return line.append(time, style="not bold")
    more = " for now" if plan.open else ""
    follows = f"; {to_come(plan)}" if plan.open and to_come(plan) else ""
    if to_run == 0 and any(variant.setting.open for variant in plan.variants):
        return line.append(f"nothing to run before seconds a step are measured{follows}", style="not bold")
    of_known = f", of which {wording.failed(failed)}" if failed else ""
    if to_run == 0:
        known = f"{len(plan.trials)} known already{of_known}" if failed else "all known already"
        return line.append(f"{known}, nothing to run{more}{follows}", style="not bold")
    time = "time unknown until one is measured" if seconds is None else f"about {words.duration(seconds)}"
    return line.append(
        f"{to_run} to run{more}, {len(plan.trials) - to_run} known already{of_known}; {time}{follows}", style="not bold"
    )


@dataclass(frozen=True)
class ResultScreen:
    """The screen at the end of a run: the question, an answer for each edit, the numbers, and what they mean.

    `definitions` says of a metric, by name, how it is computed. Below `WIDE` columns a variant's mean and its
    difference stand one below the other. Part of another screen, it has no title (`titled`). `unequal` is what was not
    equal between variants, where a space declares terms.
    """

    summary: Summary
    definitions: Mapping[str, str] = field(default_factory=dict)
    titled: bool = True
    unequal: Sequence[Unequal] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        summary, width = self.summary, options.max_width
        if self.titled:
            yield from title_lines(summary.question, summary.space, summary.design)
        yield from answers(summary)
        yield from effect_tables(summary, width=width)
        yield heading_line("Variants", _against(summary))
        yield _variants(summary, width=width)
        yield Text()
        yield from bullet_list("!", [*footnotes.peculiarities(summary), *summary.notes])
        yield from bullet_list("≠", list(unequal_lines(self.unequal)))
        told = [*footnotes.in_bits(summary), *footnotes.definitions(summary, self.definitions)]
        yield from bullet_list("·", told, style="dim")


def _against(summary: Summary) -> str:
    """What variants are compared with; runs of a factorial mostly with nothing, since effects are over all of them."""
    compared = {e.after for e in summary.effects if e.kind in ("baseline", "noise")}
    bare = [arm for arm in summary.arms if arm.name != summary.baseline and arm.variant not in compared]
    if not summary.factors or not bare:
        return f"each against {summary.baseline}"
    named = words.listed([arm.name for arm in summary.arms if arm.variant in compared]) if compared else "none"
    return f"of which {named} against {summary.baseline}; what edits do is judged over all runs, above"


def _variants(summary: Summary, *, width: int) -> Table:
    wide = width >= WIDE
    compared = (*summary.comparisons("noise"), *summary.comparisons("baseline"))
    alone = by_itself((effect for effects in compared for effect in effects), summary, width)
    numbers = ("mean ± sd", difference_heading(summary))
    headings = ("variant", "metric", *(numbers if wide else ("\n".join(numbers),)), *alone, "n", "verdict")
    against = {(e.after, e.metric): e for effects in compared for e in effects}
    blocks = []
    for arm in summary.arms:
        rows = [
            _variant_row(arm, m, against.get((arm.variant, m.name)), summary, wide, alone=bool(alone))
            for m in summary.metrics
        ]
        blocks.append(Block(arm.name, f"diverged {arm.diverged} of {arm.ended}", rows))
    return verdict_table(headings, blocks, room=20 if wide else 16, width=width)


def _variant_row(
    arm: Arm, metric: Metric, effect: Effect | None, summary: Summary, wide: bool, *, alone: bool
) -> tuple[str | Text, ...]:
    level = arm.levels.get(metric.name)
    mean, difference = wording.level(level, metric), wording.difference(effect) if effect else ""
    shown = (mean, difference) if wide else (f"{mean}\n{difference}".strip(),)
    verdict = (
        styled(effect, wide=wide) if effect else Text("baseline" if arm.name == summary.baseline else "", style="dim")
    )
    single = (single_interval(effect),) if alone else ()
    return metric.name, *shown, *single, wording.seeds_of(level.n if level else 0, effect), verdict
