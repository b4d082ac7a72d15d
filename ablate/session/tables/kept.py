"""Judged tables in a results folder: kept with their verdicts under a name, and read and judged again from there.

What is kept has an account: the first judgement of a comparison spends 4 % of tables out of 5 %, the next at other runs
0.8 %, and so on (`verdict/account.py`), as for a space whose runs were trained here. A comparison is known by the name
of its table, the column of variants, and the names of the two.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from ablate.block.fingerprint import digest
from ablate.errors import InputError, RefusedError
from ablate.output.words import plural
from ablate.session.accounts import account_of
from ablate.session.asked_before import compared_as
from ablate.session.checks import Check, some, unequal
from ablate.session.judging import document, questions_of
from ablate.session.tables.cells import name_of, number_of
from ablate.session.tables.experiment import NOT_THERE, TableExperiment, read_experiment
from ablate.session.tables.question import TableQuestion
from ablate.session.tables.states import STATES
from ablate.session.tables.steps import STEPS
from ablate.source.problems import quote
from ablate.source.yaml import is_file
from ablate.store import files
from ablate.store.checksummed_lines import compact, number
from ablate.store.files import digest_of
from ablate.store.kept_tables import KeptTable
from ablate.store.mlflow.connection import without_secrets
from ablate.store.results import Results
from ablate.store.run_logs import RUN
from ablate.store.snapshot import Snapshot
from ablate.store.table_files import Table
from ablate.verdict.judge import judge
from ablate.verdict.judged_design import JudgedDesign, JudgedRun
from ablate.verdict.summary import Summary

NAME = re.compile(r"[\w+-][\w.+-]*")
MOST_CELLS = 5_000_000
"""Cells of a table that is kept: one with more is judged, and not kept, which is told."""
SECONDS = "seconds"
"""The key of a cell that is a duration."""
QUESTION = TypeAdapter(TableQuestion)
METHOD = ("unpaired", "ranks", "floor", "sd", "within", "inference", "at", "step", "pair", "diverged")
"""Fields of a question by which the same runs are judged in another way: that is another judgement of them."""


def space_name(given: str) -> str:
    """Return the name that a table is kept under, from that of its file, folder, experiment or study.

    >>> space_name("runs/speedrun v2.csv"), space_name("logs/"), space_name("mlflow:mine")
    ('speedrun_v2', 'logs', 'mine')
    """
    path = Path(given.partition(":")[2] if given.startswith(("mlflow:", "optuna:")) else given)
    stem = path.stem if path.suffix[1:].isalpha() else path.name
    return re.sub(r"[^\w+-]+", "_", stem).strip("_") or "table"


def check_name(space: str, results: Path) -> None:
    """Raise InputError for a name that a table cannot have, or that a space trained in the folder has."""
    if not NAME.fullmatch(space):
        raise InputError(f"{quote(space)} is not a name\n  = --space takes letters, digits, and the signs . + - _")
    if results.is_dir() and space in Snapshot(results).plans.of_space:
        raise InputError(
            f"{space} is a space that was trained in {results}\n"
            "  = --space NAME keeps the table under another name, --no-keep keeps none"
        )


def origin_of(table: object, uri: str | None, sql: str | None) -> dict[str, str]:
    """Return where a table is: its name, its file with the digest of its bytes, its server without secrets, its SQL."""
    if not isinstance(table, str | Path):
        return {"name": f"a {type(table).__name__}"}
    told = {"name": str(table), "uri": uri and without_secrets(uri), "sql": sql}
    if is_file(path := Path(table)):  # SQL may be longer than a name of a file can be
        told |= {"file": str(path.absolute()), "digest": digest_of(path.read_bytes())}
    return {key: value for key, value in told.items() if value is not None}


def judge_and_keep(
    made: TableExperiment,
    table: Table,
    question: TableQuestion,
    space: str,
    origin: Mapping[str, str],
    results: Path,
    say: Callable[[str], None],
) -> Summary:
    """Judge a table by the account that a folder has of its comparisons, and keep both; RefusedError as `Results`."""
    made = _named(made, space)
    design = _design(made, question)
    for line in _shared(made, space, results):
        say(line)
    told = {"space": space, "name": table.name, "origin": origin, "question": asdict(question), **_facts(made)}
    try:
        with Results(results, say=say) as store:
            account = account_of(design, made.finals, rules=made.rules, folder=results)
            summary = judge(made.experiment, made.rules, made.finals, account)
            judged = tuple(questions_of(summary, design, made.rules, account, made.finals))
            cells = _cells(_used(table, question, made))
            store.record_table(told, cells, document(summary, design), judged)  # type: ignore[arg-type]
            store.refresh()
    except RefusedError as error:
        raise RefusedError(f"{error}\n  = or judge it and keep nothing: --no-keep") from error
    return summary


def _shared(made: TableExperiment, space: str, results: Path) -> Iterator[str]:
    """Yield the tables of other names that have half of these runs or more, whose judgements are not counted here."""
    runs = {compact(run) for run in _facts(made)["runs"]}
    tables = Snapshot(results).tables if results.is_dir() else {}
    for other, of_name in tables.items():
        same = runs & {compact(run) for run in of_name[-1].document["runs"]}
        if other != space and 2 * len(same) >= len(runs):
            yield (
                f"{len(same)} of {plural(len(runs), 'run')} are those of the table {other}: how often they were judged "
                f"there is not counted here (--space {other} does)"
            )


def current(folder: Path, space: str) -> KeptTable | None:
    """Return the last table that was judged under a name; None if none was."""
    tables = Snapshot(folder).tables.get(space)
    return tables[-1] if tables else None


def question_of(kept: KeptTable) -> TableQuestion:
    """Return what was asked of a kept table."""
    return QUESTION.validate_python(kept.document["question"])


def judged_again(folder: Path, kept: KeptTable) -> Summary:
    """Judge a kept table by the account of its folder; RefusedError if its cells are lost."""
    made, question = _read(folder, kept)
    account = account_of(_design(made, question), made.finals, rules=made.rules, folder=folder, reading=True)
    return judge(made.experiment, made.rules, made.finals, account)


def checks_of(folder: Path, kept: KeptTable) -> Iterator[Check]:
    """Check a kept table: read anew from its cells and judged, it is as it was kept; and whether its file is."""
    space, then = kept.space, kept.document
    try:
        made, question = _read(folder, kept)
    except RefusedError as error:
        yield Check(space, "files", "wrong", str(error).splitlines()[0])
        return
    kept_as: Mapping[str, Any] = {**then}
    if differ := [key for key, value in _facts(made).items() if _plain(value) != _plain(kept_as[key])]:
        yield Check(space, "trials", "wrong", f"read anew from its cells the table has other {', '.join(differ)}")
        return
    yield Check(
        space, "trials", "right", f"{plural(len(then['runs']), 'run')} of {then['name']} read anew, all as kept"
    )
    judgement = Snapshot(folder).verdicts.get(kept.id)
    if judgement is None:
        yield Check(space, "verdicts", "told", "there are none")
    else:
        summary = judged_again(folder, kept)
        anew = document(summary, _design(made, question))
        if wrong := list(unequal(judgement.content["verdicts"], anew)):
            yield Check(space, "verdicts", "wrong", f"computed anew they are others: {some(wrong)}")
        else:
            effects = sum(effect.judged for effect in summary.effects)
            yield Check(space, "verdicts", "right", f"{plural(effects, 'judged effect')} computed anew, all as kept")
    yield _check_of_file(space, then["origin"])


def _check_of_file(space: str, origin: Mapping[str, str]) -> Check:
    path = Path(origin.get("file", ""))
    if "digest" not in origin:
        return Check(space, "files", "told", f"{origin['name']} is not a file: it was not read again")
    if not path.is_file():
        return Check(space, "files", "told", f"{origin['name']} is not where it was")
    if digest_of(path.read_bytes()) != origin["digest"]:
        return Check(space, "files", "told", f"{origin['name']} has changed since it was judged")
    return Check(space, "files", "right", f"{origin['name']} is as it was when it was judged")


def _read(folder: Path, kept: KeptTable) -> tuple[TableExperiment, TableQuestion]:
    name = f"{files.SOURCES}/{kept.document['rows']}"
    content, fault = files.whole(folder, name)
    if content is None:
        raise RefusedError(
            f"lost: {name} {fault}: it had the cells of {kept.space}\n"
            f"  = `ablate doctor --results {folder}` recovers them if it can; else judge the table again"
        )
    told, question = json.loads(content), question_of(kept)
    table = Table(
        kept.document["name"],
        tuple(told["columns"]),
        tuple(tuple(_cell(cell) for cell in row) for row in told["rows"]),
        nan_or_empty=told["nan_or_empty"],
        delimiter=told["delimiter"],
    )
    made = read_experiment(table, replace(question, name=None, long=None))  # its cells were kept as they were reshaped
    return _named(made, kept.space), question


def _named(made: TableExperiment, space: str) -> TableExperiment:
    return replace(made, experiment=replace(made.experiment, space=space))


def _design(made: TableExperiment, question: TableQuestion) -> JudgedDesign:
    """Return what identifies the questions of a table: the names of its variants stand for how they were trained."""
    experiment = made.experiment
    trained = {each.id: digest(["table", experiment.space, question.by, each.id], 16) for each in experiment.variants}
    return JudgedDesign(
        baseline=experiment.baseline,
        comparisons=experiment.comparisons,
        seeds=experiment.seeds,
        trained=trained,
        compared=compared_as(experiment, trained, {}),
        runs=[
            JudgedRun(variant=variant, seed=seed, id=id)
            for variant, of in experiment.trials.items()
            for seed, id in of.items()
        ],
        evaluation={name: getattr(question, name) for name in METHOD},
    )


def _used(table: Table, question: TableQuestion, made: TableExperiment) -> Table:
    """Return a table with the columns that were read alone, its cells as texts, numbers or None."""
    numbers, named = {*made.rules.metrics, question.step}, {question.by, question.pair, question.within, RUN}
    diverged = question.diverged or ""
    named |= {diverged, diverged.partition("=")[0]}
    places = [
        place
        for place, column in enumerate(table.columns)
        if column in numbers | named or column.lower() in (*STEPS, *STATES)
    ]
    columns = tuple(table.columns[place] for place in places)
    as_cell = [_number if column in numbers or column.lower() in STEPS else _name for column in columns]
    rows = tuple(tuple(read(row[place]) for read, place in zip(as_cell, places, strict=True)) for row in table.rows)
    return replace(table, columns=columns, rows=rows, places=None)


def _cells(table: Table) -> bytes:
    """Return the cells of a table as a source of a folder."""
    told = {"columns": table.columns, "delimiter": table.delimiter, "nan_or_empty": table.nan_or_empty}
    return compact({**told, "rows": table.rows}).encode()


def _cell(cell: Any) -> Any:
    return timedelta(seconds=cell[SECONDS]) if isinstance(cell, dict) else cell


def _number(cell: object) -> object:
    if isinstance(cell, timedelta):
        return {SECONDS: cell.total_seconds()}
    return cell if isinstance(cell, str | int | float) or cell is None else number_of(cell)


def _name(cell: object) -> str | None:
    return cell if isinstance(cell, str) else name_of(cell) or None


def _facts(made: TableExperiment) -> dict[str, Any]:
    """Return what a table was read as, as JSON values."""
    experiment = made.experiment
    return {
        "design": experiment.design,
        "baseline": experiment.baseline,
        "variants": [variant.id for variant in experiment.variants],
        "comparisons": [
            {key: value for key, value in asdict(each).items() if value or key in ("before", "after", "detail")}
            for each in experiment.comparisons
        ],
        "seeds": experiment.seeds,
        "runs": [
            (variant, seed, made.finals[id]["status"], made.finals[id]["metrics"])
            for variant, of in experiment.trials.items()
            for seed, id in of.items()
            if made.finals[id]["status"] != NOT_THERE
        ],
        "notes": experiment.notes,
    }


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: sequences are lists, and numbers that are not finite are read back."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return list(map(_plain, value)) if isinstance(value, list | tuple) else number(value)
