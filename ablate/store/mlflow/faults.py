"""What is wrong with an experiment, in words: missing, duplicated, stale or half-sent runs."""

from __future__ import annotations

from collections.abc import Iterable

from ablate.store.mlflow.sync import compare
from ablate.store.mlflow.values import MlflowRunState, Page

BY_HAND = "deleted by hand"


def faults(page: Page, there: Iterable[MlflowRunState], mine: str) -> list[tuple[str, bool]]:
    """Return each kind of fault of an experiment, with its number of runs, and whether a person did it."""
    todo = compare(page, there, mine)
    wanted = {run.trial for run in page.runs}
    wrong = {run.trial for run in todo.remove} & {run.trial for run in todo.send}
    half = [run for run in todo.remove if run.running]
    whole = [run for run in todo.remove if not run.running]
    stale = [run for run in whole if run.trial in wrong]
    doubled = [run for run in whole if run.trial in wanted and run not in stale]
    kinds = (
        (len(todo.send) + len(todo.restore) - len(wrong), "missing"),
        (len(half), "half-sent"),
        (len(stale), "stale: the trial or its space has changed since"),
        (len(doubled), "there twice"),
        (sum(run.trial not in wanted for run in whole), "no longer requested"),
        (len(todo.answer), "without the current verdicts"),
        (len(todo.by_hand), BY_HAND),
    )
    return [(f"{runs(count)} {kind}", kind == BY_HAND) for count, kind in kinds if count]


def runs(count: int) -> str:
    """Return `1 run`, `2 runs`."""
    return f"{count} run" if count == 1 else f"{count} runs"
