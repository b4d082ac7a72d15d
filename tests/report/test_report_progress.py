"""The time left against runs whose end is known, and what is shown with and without a terminal."""

from __future__ import annotations

import io
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from ablate.output.words import duration
from ablate.report.progress import Progress, TimeLeft

pytestmark = pytest.mark.fast


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_nothing_is_estimated_without_evidence():
    left = TimeLeft(4, 2)
    assert left.remaining(0.0) is None
    left.started("a", 100, 0.0)
    assert left.remaining(30.0) is None  # start-up shows no pace
    left.step("a", 10, 31.0)
    assert left.remaining(31.0) is None  # one report is a point, not a slope
    left.step("a", 20, 32.0)
    assert left.remaining(32.0) is None  # one second of training is too little
    left.step("a", 40, 34.0)
    assert left.remaining(34.0) is not None


def test_an_empty_run_is_done_and_nonsense_is_refused():
    assert TimeLeft(0, 1).remaining(0.0) == 0.0
    with pytest.raises(ValueError, match="-1 trials on 2 workers"):
        TimeLeft(-1, 2)


def play(durations, workers, steps=100, startup=0.0, look_at=None):
    """Run trials of known durations on workers by hand; returns the time left at `look_at`, and the true one."""
    left = TimeLeft(len(durations), workers)
    free = [0.0] * workers
    spans = []
    for seconds in durations:  # first come, first served
        worker = free.index(min(free))
        spans.append((free[worker], free[worker] + seconds))
        free[worker] += seconds
    events = []
    for i, (begin, end) in enumerate(spans):
        pace = (end - begin - startup) / steps
        events.append((begin, 1, i, None))
        events += [(min(end, begin + startup + pace * step), 2, i, step) for step in range(10, steps + 1, 10)]
        events.append((end, 0, i, None))
    for now, kind, i, step in sorted(events, key=lambda e: (e[0], e[1] if e[1] else 3)):
        if now > look_at:
            break
        if kind == 1:
            left.started(str(i), steps, now)
        elif kind == 2:
            left.step(str(i), step, now)
        else:
            left.ended(str(i), now, finished=True)
    return left.remaining(look_at), max(free) - look_at


@given(
    count=st.integers(1, 12),
    workers=st.integers(1, 5),
    seconds=st.floats(60.0, 500.0),
    startup=st.floats(0.0, 10.0),
    share=st.floats(0.5, 0.99),
)
def test_trials_of_one_length_are_foretold(count, workers, seconds, startup, share):
    """Once one trial has shown its pace, the end of a run of equal trials is known to a few seconds' worth of steps."""
    rounds = -(-count // workers)
    look_at = seconds * (rounds - 1 + share) if rounds == 1 else seconds * rounds * share
    estimate, truth = play([seconds] * count, workers, startup=startup, look_at=look_at)
    assert estimate == pytest.approx(truth, abs=1e-6 * seconds)


def test_the_last_round_is_as_long_as_one_trial():
    """Five trials on four workers take two rounds: dividing the work by the workers would say 1.25."""
    estimate, truth = play([100.0] * 5, 4, look_at=50.0)
    assert truth == pytest.approx(150.0)
    assert estimate == pytest.approx(150.0)


def test_time_passes_between_reports():
    left = TimeLeft(1, 1)
    left.started("a", 100, 0.0)
    left.step("a", 10, 10.0)
    left.step("a", 20, 20.0)
    assert left.remaining(20.0) == pytest.approx(80.0)
    assert left.remaining(27.0) == pytest.approx(73.0)
    assert left.remaining(500.0) == 0.0


def test_a_resumed_trial_does_not_make_the_others_look_short():
    """A trial that goes on at step 90 ends after 10 s; a whole one takes 100."""
    left = TimeLeft(2, 1)
    left.started("resumed", 100, 0.0)
    for step in range(91, 101):
        left.step("resumed", step, float(step - 90))
    left.ended("resumed", 10.0, finished=True)
    assert left.remaining(10.0) == pytest.approx(100.0, rel=0.01)


def test_a_trial_that_diverged_early_does_not_either():
    left = TimeLeft(2, 1)
    left.started("short", 100, 0.0)
    left.step("short", 5, 5.0)
    left.step("short", 15, 15.0)
    left.ended("short", 15.0, finished=False)
    assert left.remaining(15.0) == pytest.approx(100.0)


def test_an_interrupted_trial_has_to_run_again():
    left = TimeLeft(2, 1)
    for name, done in (("a", True), ("b", False)):
        left.started(name, 10, 0.0)
        left.ended(name, 10.0, finished=done, done=done)
    assert left.remaining(10.0) == pytest.approx(10.0)
    left.started("b", 10, 10.0)
    left.ended("b", 20.0, finished=True)
    assert left.remaining(20.0) == 0.0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1, "5 s"), (42, "40 s"), (57, "55 s"), (58, "1 min"), (400, "7 min"), (3590, "1 h 0 min"), (5000, "1 h 23 min"),
     (300_000, "3 d 11 h")],
)  # fmt: skip
def test_durations_are_as_exact_as_estimates(seconds, text):
    assert duration(seconds) == text


def run_two(console: Console, clock: Clock) -> Progress:
    with Progress(3, 2, console, clock) as progress:
        progress.started("a", "pre_ln, seed 1", 100)
        progress.started("b", "op, seed 1", 100)
        for step in (10, 20, 30, 40):
            clock.now += 3.0
            progress.step("a", step, 3.0)
            progress.step("b", step, float("nan"))
        progress.ended("b", "diverged", 0)
        progress.ended("a", "interrupted", 0)
    return progress


def test_without_a_terminal_there_are_plain_lines():
    console, clock = Console(file=io.StringIO(), width=80), Clock()
    run_two(console, clock)
    assert console.file.getvalue().splitlines() == [
        "0 of 3 trials, 2 running, about 50 s left",  # 60 steps at 0.3 s, then a whole trial of 30 s
        "[1/3] op, seed 1: diverged, 12 s, step 40/100, train loss nan",
        "[1/3] pre_ln, seed 1: interrupted, 12 s, step 40/100, train loss 3",
    ]


def test_overall_lines_keep_their_distance():
    console, clock = Console(file=io.StringIO(), width=80), Clock()
    with Progress(1, 1, console, clock) as progress:
        progress.started("a", "op, seed 1", 1000)
        for step in range(1, 101):
            clock.now += 1.0
            progress.step("a", step, 2.0)
    assert len(console.file.getvalue().splitlines()) == 10


def test_on_a_terminal_each_running_trial_has_a_line():
    console, clock = Console(file=io.StringIO(), width=100, force_terminal=True, color_system=None), Clock()
    with Progress(2, 2, console, clock) as progress:
        progress.started("a", "pre_ln, seed 1", 100)
        progress.started("b", "op, seed 1", 100)
        for step in (10, 20):
            clock.now += 3.0
            progress.step("a", step, 2.5)
        progress.ended("b", "bug", 0)
    shown = console.file.getvalue()
    assert "1 of 2 trials, 1 bug, 1 running, about 25 s left" in shown
    assert "pre_ln, seed 1  step 20/100  train loss 2.5000  0.3 s/step" in shown
    assert "[1/2] op, seed 1: bug" in shown


def test_more_trials_than_lines_are_counted():
    console = Console(file=io.StringIO(), width=80, height=10, force_terminal=True, color_system=None)
    with Progress(40, 40, console, Clock()) as progress:
        for i in range(40):
            progress.started(str(i), f"op, seed {i}", 10)
    assert "and 34 more" in console.file.getvalue()


def test_a_retried_trial_is_counted_once():
    progress = Progress(2, 1, Console(file=io.StringIO()), Clock())
    for outcome in ("out_of_memory", "finished"):
        progress.started("a", "op, seed 1", 10)
        progress.ended("a", outcome, 0)
    assert progress.overall().startswith("1 of 2 trials, ")
    assert "memory" not in progress.overall()


def test_a_trial_that_never_started_can_end():
    console = Console(file=io.StringIO(), width=80)
    Progress(1, 1, console, Clock()).ended("c0ffee", "bug", 0)
    assert console.file.getvalue().startswith("[1/1] c0ffee: bug")


def test_what_has_finished_has_done_all_its_steps():
    """The last loss that is heard of is of the step before the last update."""
    console = Console(file=io.StringIO(), width=80)
    with Progress(1, 1, console, Clock()) as progress:
        progress.started("a", "op, seed 1", 200)
        progress.step("a", 199, 2.0)
        progress.ended("a", "finished", 200)
    assert "op, seed 1: finished, 0 s, step 200/200, train loss 2" in console.file.getvalue()


def test_calls_and_redraws_do_not_disturb_each_other():
    console = Console(file=io.StringIO(), width=80, force_terminal=True)
    with Progress(300, 4, console) as progress:
        stop = threading.Event()
        redraw = threading.Thread(target=lambda: [progress.overall() for _ in iter(stop.is_set, True)])
        redraw.start()
        for i in range(300):
            progress.started(str(i), f"op, seed {i}", 10)
            progress.step(str(i), 10, 1.0)
            progress.ended(str(i), "finished", 0)
        stop.set()
        redraw.join()
    assert progress.overall() == "300 of 300 trials, done"
