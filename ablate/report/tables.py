"""What the terminal shows: the plan, and the screen at the end of a run. Everything here is something `rich` prints.

The screen answers first and shows the numbers after. Words carry every verdict; colour only repeats them.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from ablate.plan.plan import Plan
from ablate.report import footnotes, wording
from ablate.report.summary import Arm, Effect, Metric, Summary, Verdict

STYLES: Mapping[Verdict, str] = {
    "better": "green",
    "worse": "red",
    "equivalent": "cyan",
    "undecided": "yellow",
    "diverged": "bold magenta",
}

WIDE = 100
"""Columns from which a variant's mean and its difference stand side by side."""


def plan_table(plan: Plan, known: Container[str], *, seconds: float | None = None) -> RenderableType:
    """The plan: a row for each variant, and how many of its trials are to run or `known` (ids in the store) already.

    `seconds` is how long the rest is expected to take, from trials measured before; None where none was.
    """
    table = new_table()
    table.add_column("variant", overflow="fold")
    table.add_column("edits applied", overflow="fold")
    for heading in ("parameters", "FLOPs per\nsequence", "to run", "known"):
        table.add_column(heading, justify="right", no_wrap=True)
    to_run = 0
    for variant in plan.variants:
        trials = [trial.id for trial in plan.trials if trial.variant == variant.id]
        new = sum(trial not in known for trial in trials)
        to_run += new
        name = Text(variant.name, style="bold")
        if variant.id == plan.baseline:
            name.append("  baseline", style="not bold dim")
        for other in variant.names[1:]:
            name.append(f"\nsame as {other}", style="not bold dim")
        edits = "\n".join(variant.edits) or Text("none", style="dim")
        flops = f"{variant.flops / 1e6:,.1f} M"
        table.add_row(name, edits, f"{variant.parameters:,}", flops, str(new), str(len(trials) - new))
    title = title_lines(plan.question, plan.space, plan.design)
    return Group(*title, table, Text(), _totals(plan, to_run, seconds), *bullet_list("!", plan.notes))


def _totals(plan: Plan, to_run: int, seconds: float | None) -> Text:
    line = Text(wording.plural(len(plan.trials), "trial"), style="bold")
    line.append(f" over {wording.plural(len(plan.seeds), 'seed')}: ", style="not bold")
    if plan.open:
        line.append("the reference; what a search trains besides is found on the way", style="not bold")
        time = "" if seconds is None else f"; at most about {wording.duration(seconds)}"
        return line.append(time, style="not bold")
    if to_run == 0:
        return line.append("all known already, nothing to run", style="not bold")
    time = "time unknown until one is measured" if seconds is None else f"about {wording.duration(seconds)}"
    return line.append(f"{to_run} to run, {len(plan.trials) - to_run} known already; {time}", style="not bold")


@dataclass(frozen=True)
class ResultScreen:
    """The screen at the end of a run: the question, an answer for each edit, the numbers, and what they mean.

    `definitions` says of a metric, by name, how it is computed. Below `WIDE` columns a variant's mean and its
    difference stand one below the other. Part of another screen, it has no title (`titled`).
    """

    summary: Summary
    definitions: Mapping[str, str] = field(default_factory=dict)
    titled: bool = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        summary, wide = self.summary, options.max_width >= WIDE
        if self.titled:
            yield from title_lines(summary.question, summary.space, summary.design)
        yield from _answers(summary)
        if edits := summary.comparisons("edit"):
            yield heading_line("Edits", "each against the step before it")
            yield _edits(edits, summary, room=24 if wide else 16)
            yield Text()
        yield heading_line("Variants", f"each against {summary.baseline}")
        yield _variants(summary, wide=wide)
        yield Text()
        yield from bullet_list("!", [*footnotes.peculiarities(summary), *summary.notes])
        yield from bullet_list("·", footnotes.definitions(summary, self.definitions), style="dim")


def title_lines(question: str, space: str, design: str) -> Iterable[RenderableType]:
    """The question, and what asks it."""
    yield Text(question.strip() or space, style="bold")
    yield Text(f"{space} · {design}", style="dim")
    yield Text()


def heading_line(title: str, rest: str) -> Text:
    """The heading of a table, and what the table is."""
    return Text.assemble((title, "bold"), f", {rest}")


def new_table() -> Table:
    """A table as all screens have it."""
    return Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")


def _list() -> Table:
    grid = Table.grid(padding=(0, 1))
    grid.add_column()
    grid.add_column(overflow="fold")
    return grid


def bullet_list(mark: str, lines: Sequence[str], style: str = "") -> Iterable[RenderableType]:
    """Lines behind a mark, and an empty one; nothing where there are none."""
    if lines:
        grid = _list()
        for line in lines:
            grid.add_row(mark, Text(line, style=style))
        yield grid
        yield Text()


def _answers(summary: Summary) -> Iterable[RenderableType]:
    """One sentence for each edit, then one for the whole way from the baseline."""
    edits = summary.comparisons("edit")
    said = {(effects[0].before, effects[0].after) for effects in edits}
    whole = [e for e in summary.comparisons("baseline") if (e[0].before, e[0].after) not in said]
    if edits and whole:
        most = max(len(summary.arm(effects[0].after).edits) for effects in whole)
        whole = [effects for effects in whole if len(summary.arm(effects[0].after).edits) == most]
    grid = _list()
    for effects in edits:
        grid.add_row("•", _answer(effects[0].change, effects, summary))
    for effects in whole:
        subject = f"{summary.arm(effects[0].after).name} against {summary.arm(effects[0].before).name}"
        grid.add_row("→" if edits else "•", _answer(subject, effects, summary))
    yield grid if edits or whole else Text("The design compares nothing.")
    yield Text()


def _answer(subject: str, effects: Sequence[Effect], summary: Summary) -> Text:
    before, after = summary.arm(effects[0].before), summary.arm(effects[0].after)
    # What was found comes before what was not.
    found = sorted(effects, key=lambda effect: effect.verdict == "undecided")
    parts = [(wording.phrase(e, summary.metric(e.metric)), STYLES[e.verdict]) for e in found]
    if effects[0].verdict == "diverged":
        parts = [("cannot be judged (diverged)", STYLES["diverged"])]
    parts += [(rest, "") for rest in (wording.fate(before, after), wording.cost(before, after)) if rest]
    sentence = Text.assemble((subject, "bold"), ": ")
    for i, part in enumerate(parts):
        sentence.append("; " if i else "").append(*part)
    return sentence.append(".")


def _edits(comparisons: Sequence[Sequence[Effect]], summary: Summary, *, room: int) -> Table:
    table = new_table()
    for heading in ("edit", "metric", _difference_heading(summary)):
        table.add_column(heading, no_wrap=True)
    table.add_column("n", justify="right", no_wrap=True)
    table.add_column("verdict", overflow="fold")
    for effects in comparisons:
        rows = [(e.metric, wording.difference(e), str(e.n), _styled(e)) for e in effects]
        add_block(table, effects[0].change, _diverged_of(effects[0]), rows, room=room)
    return table


def _variants(summary: Summary, *, wide: bool) -> Table:
    table = new_table()
    headings = ("mean ± sd", _difference_heading(summary))
    for heading in ("variant", "metric", *(headings if wide else ("\n".join(headings),))):
        table.add_column(heading, no_wrap=True)
    table.add_column("n", justify="right", no_wrap=True)
    table.add_column("verdict", overflow="fold")
    against = {(e.after, e.metric): e for effects in summary.comparisons("baseline") for e in effects}
    for arm in summary.arms:
        rows = [_variant_row(arm, m, against.get((arm.variant, m.name)), summary, wide) for m in summary.metrics]
        add_block(table, arm.name, f"diverged {arm.diverged} of {arm.ended}", rows, room=20 if wide else 16)
    return table


def _variant_row(
    arm: Arm, metric: Metric, effect: Effect | None, summary: Summary, wide: bool
) -> tuple[str | Text, ...]:
    level = arm.levels.get(metric.name)
    mean, difference = wording.level(level, metric), wording.difference(effect) if effect else ""
    shown = (mean, difference) if wide else (f"{mean}\n{difference}".strip(),)
    verdict = _styled(effect) if effect else Text("baseline" if arm.name == summary.baseline else "", style="dim")
    n, pairs = level.n if level else 0, effect.n if effect else 0
    return metric.name, *shown, f"{n} ({pairs})" if effect and pairs != n else str(n), verdict


def add_block(table: Table, name: str, counts: str, rows: Sequence[tuple[str | Text, ...]], *, room: int) -> None:
    """Rows that share a name: it runs down the first column beside them, with the counts below it."""
    height = max((str(cell).count("\n") + 1 for row in rows for cell in row), default=1)
    label = [Text(line, style="bold") for line in textwrap.wrap(name, room)] + [Text(counts, style="dim")]
    if table.row_count:
        table.add_row()
    for i in range(max(math.ceil(len(label) / height), len(rows))):
        beside = Text("\n").join(label[i * height : (i + 1) * height])
        table.add_row(beside, *(rows[i] if i < len(rows) else ()))


def _diverged_of(effect: Effect) -> str:
    if not effect.survivors:
        return "none diverged"
    if effect.ended_before == effect.ended_after:
        return f"diverged {effect.diverged_before}→{effect.diverged_after} of {effect.ended_after}"
    before = f"{effect.diverged_before} of {effect.ended_before}"
    return f"diverged {before}→{effect.diverged_after} of {effect.ended_after}"


def _difference_heading(summary: Summary) -> str:
    return f"difference [{100 * summary.confidence:.4g} %]"


def _styled(effect: Effect) -> Text:
    return Text(wording.verdict(effect), style=STYLES[effect.verdict])
