"""Verdicts on runs that were trained elsewhere: a table, read as an experiment and judged as a space is.

Every mistake in the table is reported at once, each at its line.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import ValidationError

from ablate.errors import InputError
from ablate.output.words import listed, plural
from ablate.plan.plan import Comparison
from ablate.report import json_form, table_page
from ablate.session import dataframes
from ablate.source.problems import Problems, quote
from ablate.space.documents import Judge, Judged
from ablate.statistics.alpha_spending import KEPT
from ablate.store.query import query
from ablate.store.table_files import Table, read_table, select, table_of
from ablate.verdict.account import NextJudgement
from ablate.verdict.experiment import Experiment, Treatment
from ablate.verdict.finals import Final, Finals
from ablate.verdict.judge import judge
from ablate.verdict.seeds import Seed, by_reason, named
from ablate.verdict.summary import Summary, verdicts_of

if TYPE_CHECKING:
    import pandas

SQL = re.compile(r"\s*(SELECT|WITH|FROM|VALUES|PIVOT)\s", re.IGNORECASE)
"""How SQL begins, unlike the name of any file."""
PAGES = (".html", ".md")
NOT_THERE, NO_VALUE = "not_in_the_table", "without_a_value"
"""The status of a run that is not in the table, or has no value there."""
WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})")
"""A seed that is a number; one with more digits is a name."""
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE)
MARGIN = "margin="
SETTINGS = {"log": "scale", "linear": "scale", "lower": "better", "higher": "better", "none": "better"}
"""The field of `Judged` of each setting of a metric, margins aside."""
NAN_OF_PANDAS = (
    "a pandas data frame has NaN for both",
    "name a column that says which runs diverged (diverged=…): NaN in other rows is then an empty cell",
    "or write inf where a run diverged, and leave out the rows without a value",
)
"""The ways to say what NaN in a data frame means."""
YES, NO = ("true", "yes", "1"), ("false", "no", "0", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableQuestion:
    """A question to a table: which columns name variants, pair their runs, are judged, and say which runs diverged.

    `metrics` are names of columns, followed by settings after colons: `loss`, `kurtosis:log:margin=5%`; `margin` is for
    those without one. The default `baseline` is the first variant in the table. On a `path` each variant is also judged
    against the one before it.
    """

    metrics: tuple[str, ...]
    by: str = "variant"
    pair: str = "seed"
    margin: str = "none"
    baseline: str | None = None
    confidence: float = 0.95
    family: Literal["metric", "page"] = "metric"
    path: bool = False
    diverged: str | None = None


@dataclass(frozen=True, slots=True)
class JudgedTable:
    """The verdicts on a table's runs: `summary` has every number, `verdicts` is a table (pandas) of them."""

    summary: Summary

    def __repr__(self) -> str:
        return f"<Judged {self.summary.space}: {len(self.summary.arms)} variants, {verdicts_of(self.summary)}>"

    @property
    def verdicts(self) -> pandas.DataFrame:
        """A row for each comparison and each metric, with the columns of `Run.verdicts`."""
        return dataframes.verdicts(self.summary)

    @property
    def html(self) -> str:
        """The page for a browser."""
        return table_page.to_html(self.summary)

    @property
    def markdown(self) -> str:
        """The tables as Markdown."""
        return table_page.to_markdown(self.summary)

    @property
    def json(self) -> str:
        """Every number, arm, effect and definition as JSON."""
        return json_form.to_json(self.summary)

    def write(self, page: Path) -> None:
        """Write the page, `.html` or `.md`; InputError if that cannot be done."""
        check_page(page)
        try:
            page.write_text(self.html if page.suffix == ".html" else self.markdown, encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot write {page}: {error.strerror}\n  = choose another file for the page") from None


def check_page(page: Path) -> None:
    if page.suffix not in PAGES:
        raise InputError(f"the page {page} is of no known kind\n  = give a name that ends in {' or '.join(PAGES)}")


def judge_table(
    table: object, question: TableQuestion, *, sql: str | None = None, results: Path, judgement: int = 1
) -> JudgedTable:
    """Judge the runs of a table: a file, SQL over a results folder, or a value of Python.

    `sql` is over the table of the file, called `rows`. `judgement` says which judgement of these variants it is: the
    level of each is a fifth of the level of the one before, as for a space.
    """
    if judgement < 1:
        raise InputError(f"there is no judgement {judgement}\n  = the first is 1")
    experiment, rules, finals = _read_experiment(_read(table, sql, results), question)
    held = NextJudgement(number=judgement, left=KEPT ** (judgement - 1))
    return JudgedTable(judge(experiment, rules, finals, dict.fromkeys(rules.metrics, held)))


def _read(table: object, sql: str | None, results: Path) -> Table:
    statement = table if isinstance(table, str) and SQL.match(table) else None
    if sql is not None and (statement is not None or not isinstance(table, str | Path)):
        raise InputError("--sql queries the table of a file, and none is given\n  = give a file, or leave out --sql")
    if statement is not None:
        answer = query(results, statement)
        return Table(f"SQL over {results}", answer.columns, answer.rows)
    if not isinstance(table, str | Path):
        return table_of(table)
    return read_table(Path(table)) if sql is None else select(Path(table), sql)


# From a table to an experiment


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """A row: the run of a variant at a seed."""

    row: int
    variant: str
    seed: Seed


def _read_experiment(table: Table, question: TableQuestion) -> tuple[Experiment, Judge, Finals]:
    """Read a table as an experiment, its rules and its final metrics; InputError with every mistake in it."""
    reading = _Reading(table, question)
    problems = reading.problems
    if not table.rows:
        problems.add(f"{table.name} has no rows", notes=("a row is a run: its variant, its seed, its metrics",))
        problems.raise_if_any()
    columns_there = reading.has_columns()
    reading.metrics.update(reading.read_metrics())
    if not 0.5 < question.confidence < 1:
        notes = ("give one between 0.5 and 1, such as 0.95",)
        problems.add(f"the confidence cannot be {question.confidence:g}", notes=notes)
    if not columns_there:
        problems.raise_if_any()
    runs = reading.runs()
    variants = tuple(dict.fromkeys(run.variant for run in runs))
    reading.check_variants(variants)
    ends = {run: reading.final(run) for run in runs}
    problems.raise_if_any()
    return _experiment(reading, ends, variants)


@dataclass(frozen=True, slots=True)
class _Reading:
    """A table as it is read under a question: its metrics, and its problems."""

    table: Table
    question: TableQuestion
    metrics: dict[str, Judged] = field(default_factory=dict)
    problems: Problems = field(default_factory=Problems)

    def add(self, message: str, row: int, column: str, *notes: str) -> None:
        """Note a mistake in a cell, with its row unless its place shows it."""
        place = self.table.place(row, column)
        self.problems.add(message if place is not None else f"row {row + 1}: {message}", place, notes=notes)

    def cell(self, run: _Run, column: str) -> object:
        cell: object = self.table.rows[run.row][self.table.columns.index(column)]
        return cell

    def is_once(self, column: str, option: str) -> bool:
        table = self.table
        if column not in table.columns:
            message = f"{table.name} has no column {quote(column)}"
            self.problems.add_unknown(message, None, column, table.columns, f"{option} is one of its columns")
        elif table.columns.count(column) > 1:
            self.problems.add(f"{table.name} has two columns {quote(column)}", notes=("name them differently",))
        return table.columns.count(column) == 1

    def has_columns(self) -> bool:
        by, pair = self.question.by, self.question.pair
        wanted = {"--by": by, "--pair": pair, "--diverged": self.question.diverged}
        there = [self.is_once(column, option) for option, column in wanted.items() if column]
        if by == pair:
            self.problems.add(f"--by and --pair are both {quote(by)}", notes=("a variant has several seeds",))
        return all(there) and by != pair

    def read_metrics(self) -> dict[str, Judged]:
        """Read the columns that are judged, and how; a column's own name may have colons."""
        table, problems = self.table, self.problems
        if not self.question.metrics:
            ways = (f"--metric is one of its columns: {', '.join(table.columns)}",)
            problems.add(f"which column of {table.name} is to be judged?", notes=ways)
        metrics: dict[str, Judged] = {}
        for text in self.question.metrics:
            known = [column for column in table.columns if f"{text}:".startswith(f"{column}:")]
            name = max(known, key=len) if known else text.partition(":")[0]
            self.is_once(name, "--metric")
            if name in metrics:
                problems.add(f"--metric {quote(name)} is given twice", notes=("give it once, with all its settings",))
            metrics[name] = self.judged(name, text[len(name) + 1 :].split(":") if text != name else [])
        return {name: judged for name, judged in metrics.items() if name in table.columns}

    def judged(self, name: str, settings: Sequence[str]) -> Judged:
        """Return how a column is judged; wrong settings are noted, and left out."""
        chosen = {"scale": "linear", "better": "lower"}
        text = self.question.margin
        for setting in settings:
            if setting in SETTINGS:
                chosen[SETTINGS[setting]] = setting
            elif setting.startswith(MARGIN):
                text = setting.removeprefix(MARGIN)
            else:
                message = f"--metric {name}:{setting}: {quote(setting)} is not a setting of a metric"
                self.problems.add_unknown(message, None, setting, (*SETTINGS, MARGIN), "the settings are")
        plain = text.replace(" ", "")
        try:
            margin = plain if plain == "none" or plain.endswith("%") else float(plain)
            return Judged.model_validate({"margin": margin, **chosen})
        except (ValueError, ValidationError):
            ways = ("give a share of the baseline's mean such as 1%, a number above zero, or none",)
            self.problems.add(f"{quote(text)} is not a margin of {name}", notes=ways)
            return Judged.model_validate({"margin": "none", **chosen})

    def runs(self) -> tuple[_Run, ...]:
        by, pair = self.question.by, self.question.pair
        first: dict[tuple[str, Seed], _Run] = {}
        variants, seeds = map(_name, self.table.cells(by)), _seeds(self.table.cells(pair))
        for row, (variant, seed) in enumerate(zip(variants, seeds, strict=True)):
            for column in [*([] if variant else [by]), *([] if seed is not None else [pair])]:
                self.add(f"no {column}", row, column, "every row must say which run it is")
            if not variant or seed is None:
                continue
            run = _Run(row=row, variant=variant, seed=seed)
            before = first.setdefault((run.variant, run.seed), run)
            if before is run:
                continue
            here, there = self.table.place(row, by), self.table.place(before.row, by)
            at = f": rows {before.row + 1} and {row + 1}" if here is None or there is None else ""
            way = (
                "a row is a run at its end: of its steps keep the last, for example by --sql "
                f'"SELECT {by}, {pair}, arg_max(loss, step) AS loss FROM rows GROUP BY ALL"'
            )
            also = () if there is None else ((there, "here first"),)
            message = f"{by} {variant} has {pair} {seed} twice{at}"
            self.problems.add(message, here, label="again here", notes=(way,), also=also)
        return tuple(first.values())

    def check_variants(self, variants: Sequence[str]) -> None:
        table, by, baseline = self.table, self.question.by, self.question.baseline
        if len(variants) == 1:
            ways = ("a verdict compares two or more", f"--by names another column of {', '.join(table.columns)}")
            self.problems.add(f"{table.name} has only one {by}: {quote(variants[0])}", notes=ways)
        if baseline is not None and variants and baseline not in variants:
            message = f"no {by} {quote(baseline)} in {table.name}"
            self.problems.add_unknown(message, None, baseline, variants, "--baseline is one of")

    def final(self, run: _Run) -> tuple[Final, str]:
        """Return how a run ended, and the reason if it diverged or lacks a value."""
        question = self.question
        if question.diverged:
            word = _name(self.cell(run, question.diverged)).lower()
            if word in YES:
                return Final(status="diverged", step=0, metrics={}), f"{question.diverged} says so"
            if word not in NO:
                self.add(
                    f"{question.diverged} is {quote(word)}", run.row, question.diverged, "it must be true or false"
                )
        values: dict[str, float] = {}
        for name, judged in self.metrics.items():
            value = number_of(self.cell(run, name))
            about = f"{name} of {question.by} {run.variant} at {question.pair} {run.seed} is"
            if self.table.nan_or_empty and isinstance(value, float) and math.isnan(value):
                if question.diverged is None:  # else that column says which runs diverged, and NaN is an empty cell
                    self.add(f"{about} NaN: a run that diverged, or an empty cell?", run.row, name, *NAN_OF_PANDAS)
            elif isinstance(value, str):
                way = "leave the cell empty where there is no value, write nan where the run diverged"
                self.add(f"{about} not a number: {quote(value)}", run.row, name, way)
            elif value is not None and math.isfinite(value) and value <= 0 and judged.scale == "log":
                way = f"without :log, differences of {name} are judged, not ratios"
                self.add(f"{about} {value:g}, and ratios need numbers above zero", run.row, name, way)
            elif value is not None:
                values[name] = value
        wild = [f"{name} is {value:g}" for name, value in values.items() if not math.isfinite(value)]
        if wild:
            return Final(status="diverged", step=0, metrics={}), ", ".join(wild)
        lacking = [name for name in self.metrics if name not in values]
        status = NO_VALUE if len(lacking) == len(self.metrics) else "finished"
        return Final(status=status, step=0, metrics=values), f"no {' and no '.join(lacking)}" if lacking else ""


def _seeds(cells: Sequence[object]) -> tuple[Seed | None, ...]:
    """Read seeds as whole numbers if all of them are, else as names; None for an empty cell."""
    names = [_name(cell) for cell in cells]
    whole = all(WHOLE.fullmatch(name) for name in names if name)
    return tuple(None if not name else int(name) if whole else name for name in names)


def _name(cell: object) -> str:
    """Return a cell as a name: 3.0 is 3, since data frames with missing cells have whole numbers as floats."""
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def number_of(cell: object) -> float | str | None:
    """Return a cell as a number: None if it is empty, and a text that is not a number unchanged.

    >>> number_of("2.5e-1"), number_of("inf"), number_of(""), number_of("1,5")
    (0.25, inf, None, '1,5')
    """
    if cell is None or cell == "":
        return None
    if isinstance(cell, Real | Decimal) and not isinstance(cell, bool):
        try:
            return float(cell)
        except OverflowError:  # a whole number beyond all floats
            return str(cell)[:40]
    text = str(cell).strip()
    if isinstance(cell, bool) or not NUMBER.fullmatch(text):
        return text or None
    return float(text) if math.isfinite(float(text)) or not text.lstrip("+-")[0].isdigit() else text


def _experiment(
    reading: _Reading, ends: Mapping[_Run, tuple[Final, str]], variants: tuple[str, ...]
) -> tuple[Experiment, Judge, Finals]:
    table, question = reading.table, reading.question
    seeds = tuple(sorted({run.seed for run in ends}))
    trials = {variant: {seed: json.dumps([variant, seed]) for seed in seeds} for variant in variants}
    absent = Final(status=NOT_THERE, step=0, metrics={})
    finals = {id: absent for of in trials.values() for id in of.values()}
    finals |= {trials[run.variant][run.seed]: final for run, (final, _) in ends.items()}
    baseline = question.baseline if question.baseline is not None else variants[0]
    order = (baseline, *(variant for variant in variants if variant != baseline)) if question.path else variants
    experiment = Experiment(
        space=table.name,
        question="",
        design=f"{'path' if question.path else 'compare'}, variants by {question.by}, paired by {question.pair}",
        baseline=baseline,
        variants=tuple(
            Treatment(id=variant, name=variant, edits=order[1 : order.index(variant) + 1] if question.path else ())
            for variant in order
        ),
        comparisons=tuple(_comparisons(order, baseline, path=question.path)),
        seeds=seeds,
        trials=trials,
        notes=tuple(_notes(table, question, ends, baseline)),
        elsewhere=True,
    )
    rules = Judge(metrics=reading.metrics, against=baseline, confidence=question.confidence, family=question.family)
    return experiment, rules, finals


def _comparisons(order: Sequence[str], baseline: str, *, path: bool) -> Iterator[Comparison]:
    for before, after in pairwise(order) if path else ():
        yield Comparison(kind="edit", change=f"{before} → {after}", detail="", before=before, after=after)
    for variant in order:
        if variant != baseline:
            yield Comparison(kind="baseline", change=variant, detail="", before=baseline, after=variant)


def _notes(
    table: Table, question: TableQuestion, ends: Mapping[_Run, tuple[Final, str]], baseline: str
) -> Iterator[str]:
    seeds = "" if question.pair == "seed" else f"; its column {question.pair} is called seed here"
    yield f"{plural(len(table.rows), 'run')} of {table.name}{seeds}"
    if question.baseline is None:
        yield f"the baseline is {baseline}, the first in the table; --baseline names another"
    diverged = [(run, why) for run, (final, why) in ends.items() if final["status"] == "diverged"]
    lacking = [(run, why) for run, (final, why) in ends.items() if final["status"] != "diverged" and why]
    if diverged:
        yield f"counted as diverged: {_told(diverged)}"
    if lacking:
        yield f"counted as missing, because the cell is empty: {_told(lacking)}"
    yield (
        "no record is kept of how often a table is judged: to judge it again with more seeds as advised, add "
        "--judgement 2"
    )


def _told(runs: Sequence[tuple[_Run, str]]) -> str:
    """List runs by variant and reason: `a at seeds 1, 2 (loss is nan), b at seed 3 (loss is nan)`."""
    of: dict[str, list[tuple[Seed, str]]] = {}
    for run, why in runs:
        of.setdefault(run.variant, []).append((run.seed, why))
    return listed(
        [f"{name} at {named(seeds)} ({why})" for name, whys in of.items() for why, seeds in by_reason(whys).items()]
    )
