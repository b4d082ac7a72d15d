"""What is said of a run that was stopped, and of a folder where nobody is at work."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console

from ablate.report.screens import status
from ablate.store.snapshot import TrialStatus

pytestmark = pytest.mark.fast


@dataclass
class Counts:
    kinds: Mapping[str, int]
    waiting: int


def test_a_run_that_was_stopped_says_what_is_left() -> None:
    counts = Counts({"finished": 3, "bug": 1, "interrupted": 2}, 5)
    assert status.stopped(counts, again="ablate run a.yaml") == (
        "stopped: 4 trials ended, 2 left in progress, 5 not started. To resume:\n  ablate run a.yaml"
    )


def test_a_search_that_was_stopped_counts_no_trials_that_are_not_known() -> None:
    counts = Counts({"finished": 1, "paused": 3, "interrupted": 2}, 1)
    assert status.stopped(counts, again="ablate run a.yaml", searching=True) == (
        "stopped: 1 trial ended, 2 left in progress, 3 waiting at a rung; the search resumes from there. "
        "To resume:\n  ablate run a.yaml"
    )


def test_of_a_plan_that_grows_more_may_follow() -> None:
    counts = Counts({"finished": 3, "interrupted": 1}, 2)
    assert status.stopped(counts, again="ablate run a.yaml", grows=True) == (
        "stopped: 3 trials ended, 1 left in progress, 2 not started, more may follow. To resume:\n  ablate run a.yaml"
    )


def shown(*states: str, holder: str | None = None, open: Mapping[str, str] | None = None) -> str:
    console = Console(file=io.StringIO(), width=200)
    found = [TrialStatus("small", f"t{i}", "pre_ln", i, state, 3, 9) for i, state in enumerate(states)]
    console.print(status.screen(found, Path("results"), holder, open))
    return console.file.getvalue()


SEARCHES = {"small": "a search that is not over"}
ADVICE = "a search that is not over; to resume: ablate resume small --results results"


@pytest.mark.parametrize("states", [("finished", "diverged"), ("finished", "waiting"), ("paused",)])
def test_a_search_that_is_not_over_is_to_be_resumed(states: tuple[str, ...]) -> None:
    assert ADVICE in shown(*states, open=SEARCHES)
    assert ADVICE not in shown(*states) and ADVICE not in shown(*states, open={"other": "it grows"})


def test_what_failed_is_told_with_the_way_to_try_it_again() -> None:
    said = "small: 2 failed with bug, 1 with timeout; to retry them: ablate retry small --results results"
    assert said in shown("finished", "bug", "timeout", "bug") and said in shown("bug", "timeout", "bug", "running")
    assert "ablate retry" not in shown("finished", "diverged", "pruned", "waiting")


def test_no_advice_where_somebody_is_at_it() -> None:
    assert "to go on" not in shown("finished", "running", open=SEARCHES)
    assert "to go on" not in shown("finished", holder="pid 7", open=SEARCHES)
    assert "to go on" not in shown("finished")
    assert "no worker is running; to resume: ablate resume small" in shown("finished", "waiting")
