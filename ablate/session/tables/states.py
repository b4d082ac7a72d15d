"""How the runs of a table ended, where a column says so: diverged, or not finished yet.

`--diverged COLUMN` is a column of yes and no, `--diverged COLUMN=VALUE,VALUE` one of words. Beside it a column that is
named state or status, as trackers export it, says which runs have finished: one that is running or has crashed has no
final numbers, whatever stands in its row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ablate.output.words import plural
from ablate.session.tables.cells import name_of
from ablate.session.tables.question import TableQuestion, is_once
from ablate.source.problems import Problems, quote
from ablate.store.table_files import Table

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
    """Read which rows are of runs that diverged or have not finished; what cannot be read is noted."""
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
    """Note a word that says nothing known of a run, once, at its first row."""
    first, more = words.index(word), words.count(word) - 1
    place = table.place(first, column)
    at = "" if place is not None else f"row {first + 1}: "
    rows = f", in {plural(more, 'row')} more" if more else ""
    problems.add(f"{at}{column} is {quote(word)}{why}{rows}", place, notes=ways)
