"""Table columns: what is asked of a table of runs, and its columns as names, seeds, numbers, states and steps."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from numbers import Real
from typing import Literal

from pydantic import ValidationError

from ablate.output.words import listed, plural
from ablate.source.problems import Problems, quote
from ablate.space.judge import Judged
from ablate.store.foreign_tables import RUN, Table
from ablate.verdict.experiment import Seed

MARGIN = "margin="
SETTINGS = {"log": "scale", "linear": "scale", "lower": "better", "higher": "better", "none": "better"}
"""The field of `Judged` of each setting of a metric, margins aside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableQuestion:
    """A question to a table; its fields are as the arguments of `ablate.judge`."""

    metrics: tuple[str, ...]
    by: str = "variant"
    pair: str = "seed"
    margin: str = "none"
    baseline: str | None = None
    confidence: float = 0.95
    family: Literal["metric", "page"] = "metric"
    path: bool = False
    groups: bool = False
    unpaired: bool = False
    ranks: bool = False
    diverged: str | None = None
    at: str | None = None
    step: str | None = None
    within: str | None = None
    inference: str | None = None
    name: str | None = None
    long: str | None = None
    floor: str | None = None
    sd: float | None = None

    @property
    def in_pairs(self) -> bool:
        return not self.unpaired and not self.ranks and self.floor is None and self.sd is None


def is_once(table: Table, column: str, option: str, problems: Problems, *ways: str) -> bool:
    if column not in table.columns:
        message = f"{table.name} has no column {quote(column)}"
        problems.add_unknown(message, None, column, table.columns, f"{option} is one of its columns", notes=ways)
    elif table.columns.count(column) > 1:
        problems.add(f"{table.name} has two columns {quote(column)}", notes=("name them differently",))
    return table.columns.count(column) == 1


def read_metrics(table: Table, question: TableQuestion, problems: Problems) -> dict[str, Judged]:
    """The judged columns; a column's own name may have colons."""
    if not question.metrics:
        ways = (f"--metric is one of its columns: {', '.join(table.columns)}",)
        problems.add(f"which column of {table.name} is to be judged?", notes=ways)
    metrics: dict[str, Judged] = {}
    for text in question.metrics:
        known = [column for column in table.columns if f"{text}:".startswith(f"{column}:")]
        name = max(known, key=len) if known else text.partition(":")[0]
        is_once(table, name, "--metric", problems)
        if name in metrics:
            problems.add(f"--metric {quote(name)} is given twice", notes=("give it once, with all its settings",))
        settings = text[len(name) + 1 :].split(":") if text != name else []
        metrics[name] = _judged(name, settings, question.margin, problems)
    return {name: judged for name, judged in metrics.items() if name in table.columns}


def _judged(name: str, settings: Sequence[str], margin: str, problems: Problems) -> Judged:
    chosen = {"scale": "linear", "better": "lower"}
    for setting in settings:
        if setting in SETTINGS:
            chosen[SETTINGS[setting]] = setting
        elif setting.startswith(MARGIN):
            margin = setting.removeprefix(MARGIN)
        else:
            message = f"--metric {name}:{setting}: {quote(setting)} is not a setting of a metric"
            problems.add_unknown(message, None, setting, (*SETTINGS, MARGIN), "the settings are")
    plain = margin.replace(" ", "")
    try:
        number = plain if plain == "none" or plain.endswith("%") else float(plain)
        return Judged.model_validate({"margin": number, **chosen})
    except (ValueError, ValidationError):
        ways = ("give a share of the baseline's mean such as 1%, a number above zero, or none",)
        problems.add(f"{quote(margin)} is not a margin of {name}", notes=ways)
        return Judged.model_validate({"margin": "none", **chosen})


# Cells as names, seeds and numbers, and those that hold nothing, as spreadsheets and loggers say it.

NOTHING = frozenset(("", "na", "n/a", "#n/a", "<na>", "none", "null", "nil", "-", "–", "—", "."))
"""The spellings of an empty cell, in lower case."""
WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})")  # a seed that is a number; one with more digits is a name
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE)
COMMA = re.compile(r"[+-]?\d+,\d+(e[+-]?\d+)?", re.IGNORECASE)
"""A number with a decimal comma, or with one between thousands."""
DIVERGED = "diverged"  # the word that stands for nan in a cell


def is_nothing(cell: object) -> bool:
    """True of a cell that is empty, or says that it is.

    >>> is_nothing("N/A"), is_nothing(None), is_nothing("nan"), is_nothing(0)
    (True, True, False, False)
    """
    return cell is None or (isinstance(cell, str) and cell.strip().lower() in NOTHING)


def name_of(cell: object) -> str:
    """A cell as a name: 3.0 is 3, since data frames with missing cells have whole numbers as floats."""
    if is_nothing(cell) or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def seeds_of(cells: Sequence[object]) -> tuple[Seed | None, ...]:
    """Read seeds as whole numbers if all of them are, else as names; None for an empty cell."""
    names = [name_of(cell) for cell in cells]
    whole = all(WHOLE.fullmatch(name) for name in names if name)
    return tuple(None if not name else int(name) if whole else name for name in names)


def has_decimal_commas(cells: Sequence[object]) -> bool:
    """True if some cells are numbers with a comma, and no cell has a point in one."""
    texts = [cell.strip() for cell in cells if isinstance(cell, str)]
    return any(map(COMMA.fullmatch, texts)) and not any("." in text for text in texts if NUMBER.fullmatch(text))


def number_of(cell: object, *, comma: bool = False) -> float | str | None:
    """Return a cell as a number: None if it is empty, and a text that is not a number unchanged.

    A duration is its seconds. `comma`: numbers have decimal commas.

    >>> number_of("2.5e-1"), number_of("inf"), number_of("NA"), number_of("1,5"), number_of("1,5", comma=True)
    (0.25, inf, None, '1,5', 1.5)
    """
    if is_nothing(cell):
        return None
    if isinstance(cell, timedelta):
        return cell.total_seconds()
    if isinstance(cell, Real | Decimal) and not isinstance(cell, bool):
        try:
            return float(cell)
        except OverflowError:  # a whole number beyond all floats
            return str(cell)[:40]
    text = str(cell).strip()
    if text.lower() == DIVERGED:
        return math.nan
    if comma and COMMA.fullmatch(text):
        text = text.replace(",", ".")
    if isinstance(cell, bool) or not NUMBER.fullmatch(text):
        return text
    return float(text) if math.isfinite(float(text)) or not text.lstrip("+-")[0].isdigit() else text


# States: how runs ended, where a column says so: diverged, or not finished yet.
#
# `--diverged COLUMN` is a column of yes and no, `--diverged COLUMN=VALUE,VALUE` one of words. A column named state or
# status, as trackers export it, says which runs have finished: others have no final numbers, whatever their row says.

YES, NO = ("true", "yes", "1"), ("false", "no", "0", "")
STATES = ("state", "status")
FINISHED = ("finished", "complete", "completed", "done", "success", "succeeded", "ok", "terminated")
UNFINISHED = (
    *("running", "pending", "queued", "scheduled", "waiting", "preempting", "preempted", "pruned"),
    *("crashed", "failed", "fail", "killed", "interrupted", "cancelled", "canceled", "stopped", "error"),
    *("timeout", "out_of_memory", "node_fail", "boot_fail", "deadline", "suspended", "requeued"),
)
"""The words of Weights & Biases, MLflow, Optuna, Ray and Slurm."""


@dataclass(frozen=True, slots=True)
class RunStates:
    """The rows that diverged, and those that have not finished, each with the reason; one that is both diverged."""

    diverged: Mapping[int, str]
    unfinished: Mapping[int, str]


def read_states(table: Table, question: TableQuestion, problems: Problems) -> RunStates:
    diverged = _diverged(table, question.diverged, problems) if question.diverged else {}
    column = next((column for column in table.columns if column.lower() in STATES), None)
    if column is None or table.columns.count(column) > 1:
        return RunStates(diverged, {})
    words = [name_of(cell) for cell in table.cells(column)]
    known = [word.lower() in (*FINISHED, *UNFINISHED, "") for word in words]
    if not any(word and is_known for word, is_known in zip(words, known, strict=True)):  # it says something else
        return RunStates(diverged, {})
    for word in dict.fromkeys(word for row, word in enumerate(words) if not known[row] and row not in diverged):
        ways = (f"finished is one of {', '.join(FINISHED)}", f"--diverged {quote(f'{column}={word}')} counts it so")
        _add_word(table, column, words, word, problems, ": has that run finished?", ways)
    unfinished = {row: f"{column} is {word}" for row, word in enumerate(words) if word.lower() in UNFINISHED}
    return RunStates(diverged, unfinished)


def _diverged(table: Table, option: str, problems: Problems) -> dict[int, str]:
    column, equals, values = (option, "", "") if option in table.columns else option.partition("=")
    if not is_once(table, column, "--diverged", problems):
        return {}
    words = [name_of(cell) for cell in table.cells(column)]
    if equals:
        wanted = {value.strip().lower() for value in values.split(",")} - {""}
        known = list(dict.fromkeys(word for word in words if word))
        if wanted.isdisjoint(word.lower() for word in known):
            message = f"no {column} is {quote(values)} in {table.name}"
            problems.add_unknown(message, None, values, known, f"{column} is one of")
        return {row: f"{column} is {word}" for row, word in enumerate(words) if word.lower() in wanted}
    others = list(dict.fromkeys(word for word in words if word.lower() not in (*YES, *NO)))
    if others:
        ways = ("it must be true or false", f"or name those that are: --diverged {quote(f'{column}={others[0]}')}")
        why = f", or {plural(len(others) - 1, 'other word')}" if len(others) > 1 else ""
        _add_word(table, column, words, others[0], problems, why, ways)
    return {row: f"{column} says so" for row, word in enumerate(words) if word.lower() in YES}


def _add_word(
    table: Table, column: str, words: Sequence[str], word: str, problems: Problems, why: str, ways: tuple[str, ...]
) -> None:
    first, more = words.index(word), words.count(word) - 1
    place = table.place(first, column)
    at = "" if place is not None else f"row {first + 1}: "
    rows = f", in {plural(more, 'row')} more" if more else ""
    problems.add(f"{at}{column} is {quote(word)}{why}{rows}", place, notes=ways)


# Steps: which column counts them, and which of them is judged.
#
# Which step is judged is never chosen in silence: a log without `--at` is a mistake, and so is a missing step.

STEPS = (
    *("step", "steps", "_step", "global_step", "train_step", "trainer/global_step", "iteration", "iterations", "iter"),
    *("epoch", "epochs", "tokens"),
)
AT = re.compile(r"last|best|mean:([1-9]\d{0,8})")
FEW = 3  # rows of a variant with so many different steps look like one run


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRun:
    """`rows` are in the order of steps where there are several."""

    variant: str
    seed: Seed
    rows: tuple[int, ...]


def run_column(table: Table, question: TableQuestion) -> str | None:
    """The column of seeds, else of names of runs; None where each row is a run."""
    return next((column for column in (question.pair, RUN) if column in table.columns), None)


def read_steps(
    table: Table,
    question: TableQuestion,
    metrics: Mapping[str, Judged],
    rows: Mapping[tuple[str, Seed], list[int]],
    problems: Problems,
) -> tuple[str | None, list[TableRun]]:
    columns = _step_columns(table, question, problems)
    repeated = {run: of for run, of in rows.items() if len(of) > 1}
    varying = [column for column in columns if any(_differ(table, column, of) for of in repeated.values())]
    steps = varying[0] if varying else None
    if question.at is not None and not AT.fullmatch(question.at):
        way = "--at is last, best, or mean:k, such as mean:5"
        problems.add(f"{quote(question.at)} is no step of a run", notes=(way,))
    elif run_column(table, question) is None and (problem := _as_one_run(table, question, columns)):
        ways = ("--pair names the column that tells runs apart", "or leave out the column of steps, by --sql")
        problems.add(problem, notes=ways)
    elif question.at is not None and steps is None:
        why = "no run has several rows" if not repeated else "no column counts the steps of a run"
        known = f": {', '.join(columns)}" if repeated and columns else ""
        way = "--step names the column that does, with a number for each row" if repeated else "leave out --at"
        problems.add(f"--at {question.at}: {why}{known}", notes=(way,))
    elif steps is not None and (bad := list(_bad_steps(table, steps, repeated))):
        for message, row in bad[:1]:
            ways = (f"each row of a run has a {steps} of its own", "keep one of them, for example by --sql")
            problems.add(message, table.place(row, steps), notes=ways)
    elif question.at is None and steps is not None:
        _add_log(table, question, metrics, list(repeated.values()), steps, problems)
    elif question.at == "best":
        for name in (name for name, judged in metrics.items() if judged.better == "none"):
            ways = (f"--metric {name}:lower or {name}:higher says which side is", "or judge --at last")
            problems.add(f"--at best: neither side of {name} is better", notes=ways)
    order = _step_order(table, steps) if steps is not None else {}
    runs = (
        TableRun(variant=variant, seed=seed, rows=tuple(sorted(of, key=lambda row: order.get(row, 0.0))))
        for (variant, seed), of in rows.items()
    )
    return steps, list(runs)


def step_notes(table: Table, steps: str, runs: Sequence[TableRun], question: TableQuestion) -> Iterator[str]:
    which, _, last = (question.at or "last").partition(":")
    yield f"judged at the {f'mean of the last {last}' if last else which} of each run by {steps}"
    order, ends = _step_order(table, steps), dict[str, list[float]]()
    for run in runs:
        ends.setdefault(run.variant, []).append(order.get(run.rows[-1], 0.0))
    if len({step for of in ends.values() for step in of}) > 1:
        ranges = (
            f"{name} {min(of):g}" + (f" to {max(of):g}" if min(of) < max(of) else "") for name, of in ends.items()
        )
        yield f"runs end at other steps: {', '.join(ranges)}"
    short = [f"{run.variant} {run.seed} ({len(run.rows)})" for run in runs if last and len(run.rows) < int(last)]
    if short:
        yield f"the mean is of all rows where there are fewer than {last}: {listed(short)}"


def _step_columns(table: Table, question: TableQuestion, problems: Problems) -> list[str]:
    if question.step is None:
        return [column for column in table.columns if column.lower() in STEPS]
    return [question.step] if is_once(table, question.step, "--step", problems) else []


def _differ(table: Table, column: str, rows: Sequence[int]) -> bool:
    cells = table.cells(column)
    return len({name_of(cells[row]) for row in rows}) > 1


def _as_one_run(table: Table, question: TableQuestion, columns: Sequence[str]) -> str:
    if question.at is not None or question.step is not None:
        return f"no column tells the runs of a {question.by} apart, whose steps are asked for"
    names = [name_of(cell) for cell in table.cells(question.by)]
    for column in columns:
        cells = table.cells(column)
        for name in dict.fromkeys(names):
            values = [name_of(cells[row]) for row, other in enumerate(names) if other == name]
            if len(set(values)) >= FEW and len(set(values)) == len(values):
                return f"rows of {name} look like steps of a run, by {column}, and no column tells its runs apart"
    return ""


def _bad_steps(
    table: Table, steps: str, repeated: Mapping[tuple[str, Seed], Sequence[int]]
) -> Iterator[tuple[str, int]]:
    cells = table.cells(steps)
    for (variant, seed), rows in repeated.items():
        seen: set[float] = set()
        for row in rows:
            number = number_of(cells[row])
            if not isinstance(number, float) or not math.isfinite(number):
                yield f"row {row + 1}, of {variant} at {seed}: {steps} is {quote(name_of(cells[row]) or 'empty')}", row
            elif number in seen:
                yield f"row {row + 1}: {steps} {number:g} stands twice in {variant} at {seed}", row
            else:
                seen.add(number)


def _step_order(table: Table, steps: str) -> dict[int, float]:
    numbers = ((row, number_of(cell)) for row, cell in enumerate(table.cells(steps)))
    return {row: number for row, number in numbers if isinstance(number, float)}


def _add_log(
    table: Table,
    question: TableQuestion,
    metrics: Mapping[str, Judged],
    repeated: Sequence[Sequence[int]],
    steps: str,
    problems: Problems,
) -> None:
    more, lengths = sum(len(rows) - 1 for rows in repeated), sorted({len(rows) for rows in repeated})
    long = f"{lengths[0]:,}" if len(lengths) == 1 else f"{lengths[0]:,} to {lengths[-1]:,}"
    message = (
        f"{more:,} of {len(table.rows):,} rows repeat a run: {plural(len(repeated), 'run')} of {long} rows, which "
        f"{steps} tells apart"
    )
    ways = [f"--at last judges each run at its last {steps}; --at best and --at mean:5 are others"]
    place = table.place(repeated[0][1], steps)
    if place is not None:  # a file that SQL can read as it is
        here = (question.by, *([column] if (column := run_column(table, question)) is not None else []))
        last = ", ".join(f"arg_max({_quoted(name)}, {_quoted(steps)}) AS {_quoted(name)}" for name in metrics)
        sql = f"SELECT {', '.join(map(_quoted, here))}, {last} FROM rows GROUP BY ALL"
        ways.append(f"or --sql {shlex.quote(sql)}")
    problems.add(message, place, label="again here" if place is not None else "", notes=ways)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
