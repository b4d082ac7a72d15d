"""A run that is asked to stop has ended within its budget and five seconds, whatever hangs, and goes on to the same
tables: by SIGTERM and Ctrl-C, while it plans and while it trains, with workers that answer and with some held still.
"""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys
import threading
import time
import weakref
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from crashes import Started, damage, log_of, start, tables_of, undisturbed, wait_gone, wait_until
from rich.console import Console
from tiny_spaces import write_world
from typer.testing import CliRunner

import ablate
from ablate.cli.app import app
from ablate.errors import InputError
from ablate.execute.controller import Interrupt
from ablate.execute.executor import ExecutorOptions, Message
from ablate.execute.local import _Driver, _LocalTrial
from ablate.execute.ray import own_cluster
from ablate.session.reporting import report_run
from ablate.store import claim
from ablate.store.files import digest_of
from ablate.store.records import Request, record_request, withdrawn_if_refused
from ablate.store.results import Results
from ablate.store.snapshot import Snapshot
from ablate.train.events import Began

WITHIN, GRACE = 3.0, 5.0
LONG = "{every: 2, windows: 160}"
STOP = f"--stop-within={WITHIN:g}s"


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return undisturbed(tmp_path_factory.mktemp("stop"), steps=200)


def trains(run: Started) -> bool:
    return any(holder.step > 5 for holder in claim.holders(run.results).values())


def holds(run: Started) -> None:
    """Hold every worker still that has a trial."""
    for holder in claim.holders(run.results).values():
        os.kill(holder.pid, signal.SIGSTOP)


def stopped(run: Started, number: signal.Signals, within: float = WITHIN + GRACE) -> float:
    """Ask a run to stop; the seconds until no process of it is left."""
    began = time.monotonic()
    run.process.send_signal(number)
    assert run.process.wait(within) == 130, log_of(run)
    wait_gone(run.mark)
    return time.monotonic() - began


def goes_on(world, run: Started) -> None:
    folder, tables = world
    again = start(folder, run.results, "resume")
    assert again.process.wait(240) == 0, log_of(again)
    assert tables_of(run.results) == tables
    assert damage(run.results) == []


@pytest.mark.full
@pytest.mark.parametrize(
    ("executor", "still"),
    [("local", False), ("local", True), ("inline", False), pytest.param("ray", True, marks=pytest.mark.crash)],
)
def test_a_stop_ends_within_its_budget_and_what_was_trained_is_used(world, executor, still):
    run = start(world[0], world[0] / f"{executor}-{still}", "run", "tiny.yaml", "--executor", executor, STOP)
    wait_until(run, lambda: trains(run))
    if still:
        holds(run)
    stopped(run, signal.SIGTERM)
    if executor != "inline":
        assert ("did not stop within 3 s and was killed" in log_of(run)) == still
    goes_on(world, run)


@pytest.mark.full
def test_a_trial_without_a_step_is_dropped_at_once(world):
    """It is held still as soon as it has begun, with minutes to stop in."""
    run = start(world[0], world[0] / "begun", "run", "tiny.yaml", "--workers", "1", "--stop-within", "10m")
    wait_until(run, lambda: bool(claim.holders(run.results)))
    holds(run)
    (holder,) = claim.holders(run.results).values()
    assert holder.step == 0
    stopped(run, signal.SIGINT, within=60.0)
    assert "stopped: 0 trials ended, 0 left in progress, 4 not started" in log_of(run)
    goes_on(world, run)


@pytest.mark.crash
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("executor", ["local", "ray"])
def test_at_any_moment(world, executor, number, capsys):
    """From when the request is on the disk: while it plans, starts workers, trains, judges."""
    rng, longest = random.Random(f"{executor} {number}"), 0.0
    for moment in range(12):
        run = start(
            world[0], world[0] / f"{executor}-{number}-{moment}", "run", "tiny.yaml", "--executor", executor, STOP
        )
        wait_until(run, lambda run=run: any((run.results / "runs").glob("*.json")))
        if moment % 2:
            wait_until(run, lambda run=run: trains(run))
        time.sleep(rng.uniform(0.0, 3.0))
        if moment % 4 == 3:
            holds(run)
        if run.process.poll() is None:
            longest = max(longest, stopped(run, number))
        goes_on(world, run)
    with capsys.disabled():
        print(f"\n{executor}, {number.name}: 12 stops, the longest took {longest:.1f} s of {WITHIN:g}", flush=True)


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """A space whose trials answer nobody for longer than a stop may take: many layers, evaluated at length."""
    folder = tmp_path_factory.mktemp("slow")
    space = write_world(folder, steps=6, seeds=1)
    text = space.read_text().replace("layers: 2,", "layers: 300,").replace("{every: 8, windows: 8}", LONG)
    space.write_text(text.replace("{path: {from: pre_ln, to: op}}", "{compare: [pre_ln, op]}"))
    run = start(folder, folder / "calm", "run", "tiny.yaml", "--executor", "inline")
    assert run.process.wait(600) == 0, log_of(run)
    return folder, tables_of(folder / "calm")


@pytest.mark.crash
@pytest.mark.parametrize("executor", ["local", "inline", "ray"])
def test_a_slow_evaluation_does_not_outlast_the_budget(slow, executor, capsys):
    rng, longest, killed = random.Random(executor), 0.0, 0
    for moment in range(4):
        run = start(slow[0], slow[0] / f"{executor}-{moment}", "run", "tiny.yaml", "--executor", executor, STOP)
        wait_until(run, lambda run=run: any(holder.step for holder in claim.holders(run.results).values()))
        time.sleep(rng.uniform(0.0, 4.0))
        longest = max(longest, stopped(run, signal.SIGTERM))
        killed += "did not stop within 3 s" in log_of(run)
        goes_on(slow, run)
    assert killed or executor == "inline"
    with capsys.disabled():
        print(f"\n{executor}: 4 stops, {killed} of them in an evaluation; the longest took {longest:.1f} s", flush=True)


# The request comes first


@pytest.mark.full
def test_a_run_that_is_killed_before_it_is_planned_can_be_resumed(world):
    run = start(world[0], world[0] / "early", "run", "tiny.yaml")
    wait_until(run, lambda: any((run.results / "runs").glob("*.json")))
    run.process.kill()
    wait_gone(run.mark)
    assert not any((run.results / "plans").glob("*.json"))
    told = CliRunner().invoke(app, ["status", "--results", str(run.results)], env={"COLUMNS": "400"})
    why = "no trials yet: no plan of its last run is kept"
    assert f"tiny: {why}; to resume: ablate resume tiny --results {run.results}" in told.output
    goes_on(world, run)


@pytest.mark.full
def test_a_run_that_cannot_be_planned_leaves_nothing_to_resume(tmp_path):
    space = write_world(tmp_path)
    space.write_text(space.read_text().replace("texts/**", "nothing/**"))
    run = start(tmp_path, tmp_path / "results", "run", "tiny.yaml")
    assert run.process.wait(60) == 2, log_of(run)
    assert not any((run.results / "runs").glob("*.json"))
    with pytest.raises(InputError, match="no results in"):
        ablate.resumable(run.results)


@pytest.fixture
def known(tmp_path):
    """A space, its results, and the request that they keep."""
    space = ablate.load_space(write_world(tmp_path, steps=4, seeds=1))
    ablate.run(space, results=tmp_path / "results", executor="inline", console=Console(quiet=True), mirror=False)
    return tmp_path / "tiny.yaml", tmp_path / "results", Snapshot(tmp_path / "results").requests["tiny"]


def asked(path: Path, results: Path, request: Request, *, text: str | None = None, **changes: object) -> None:
    """A run that was asked for, of a space as it is now or says here, and was killed before it was planned."""
    source = digest_of((path.read_text() if text is None else text).encode())
    with Results(results):
        record_request(results, replace(request, source=source, at=request.at + 1, **changes))


@pytest.mark.full
def test_what_was_asked_last_is_resumed_though_the_space_has_other_plans(known):
    path, results, request = known
    first = path.read_text()
    path.write_text(first.replace("steps: 4", "steps: 8"))
    ablate.run(ablate.load_space(path), results=results, executor="inline", console=Console(quiet=True), mirror=False)
    path.write_text(first)
    asked(path, results, request)
    ((run,), refused) = ablate.resumable(results)
    assert not refused and run.space.recipe.steps == 4


def test_a_space_that_was_edited_since_is_not_resumed_as_another(known):
    path, results, request = known
    asked(path, results, request, text="as it was")
    runs, (refused,) = ablate.resumable(results)
    assert not runs and "has changed since its run was stopped, before it was planned" in str(refused)


def test_a_page_says_how_its_own_plan_was_run(known):
    path, results, request = known
    asked(path, results, request, profile="smoke")
    again = report_run("tiny", results=results).record.again
    assert again and not any("--profile" in line for line in again)


def test_an_interrupt_that_a_library_renames_withdraws_no_request(known):
    _, results, request = known
    with Results(results):
        name = record_request(results, replace(request, source="another", at=request.at + 1))
        with suppress(RuntimeError), withdrawn_if_refused(results, name):
            raise RuntimeError("Query interrupted")
        assert Snapshot(results).requests["tiny"].source == "another"
        with pytest.raises(InputError), withdrawn_if_refused(results, name):
            raise InputError("cannot be planned")
        assert Snapshot(results).requests["tiny"] == request
    assert Snapshot(results).lost == {}


@pytest.mark.parametrize("within", [0.0, -1.0, float("nan"), float("inf")])
def test_a_budget_is_a_time(within):
    with pytest.raises(InputError, match="--stop-within"):
        ExecutorOptions(stop_within=within)


def test_a_trial_that_started_over_is_asked_to_save_what_it_has_done_since():
    """Its worker found other versions than those of its checkpoint at step 1,000."""
    done = []
    worker = SimpleNamespace(
        stop=lambda: done.append("asked"), process=SimpleNamespace(kill=lambda: done.append("killed"))
    )
    driver = _Driver(None, 1, lambda message: None, None, WITHIN, done.append)
    task = SimpleNamespace(resume=SimpleNamespace(step=1000))
    driver.running["a"] = _LocalTrial(task, worker, 0.0, 1000, 1000)
    for message in (Message("a", (Began(0, {}),), 0), Message("a", (), 500)):
        driver._hear(message)
    driver._stop()
    assert done == ["asked"]


def test_a_log_shows_each_line_when_it_is_written():
    code = "import sys; from ablate.output import escape; escape.prepare_streams(); print(1); sys.stdin.read()"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-c", code]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    with process:
        assert select.select([process.stdout], [], [], 30.0)[0], "it is kept back while the process goes on"
        assert process.stdout.readline() == b"1\n"


# Signals


@pytest.fixture
def interrupt():
    said: list[str] = []
    with Interrupt(said.append, within=60.0) as interrupt:
        interrupt.said = said
        yield interrupt


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_while_trials_run_the_first_signal_asks_and_the_second_ends(interrupt, number):
    with interrupt.trials():
        assert not interrupt()
        signal.raise_signal(number)
        assert interrupt() and "60 s at most (again to stop at once)" in interrupt.said[0]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)


def test_outside_of_trials_the_first_signal_ends(interrupt):
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)
    assert not interrupt.said


def test_a_library_cannot_swallow_it(interrupt):
    with suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), interrupt.trials():
        raise AssertionError("trials begin")


def test_it_is_raised_again_where_python_has_ignored_it(interrupt, capfd):
    """As it does in the callback of a weak reference, and wherever objects are collected."""
    collected = {1}
    reference = weakref.ref(collected, lambda gone: signal.raise_signal(signal.SIGTERM))
    with pytest.raises(KeyboardInterrupt):
        del collected
        assert reference() is None
        time.sleep(60)
    assert "ignored" not in capfd.readouterr().err


def test_what_others_ignore_is_told_as_before(monkeypatch):
    told = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    with Interrupt(print):
        collected = {1}
        reference = weakref.ref(collected, lambda gone: 1 / 0)
        del collected
        assert reference() is None and told[0].exc_type is ZeroDivisionError
    assert sys.unraisablehook == told.append


def test_a_library_cannot_swallow_it_while_it_starts(interrupt):
    with interrupt.trials():
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        assert interrupt() and len(interrupt.said) == 1


def test_a_library_cannot_make_an_error_of_it():
    """As DuckDB does."""
    with pytest.raises(KeyboardInterrupt) as raised, Interrupt(print):
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        raise RuntimeError("Query interrupted")
    assert isinstance(raised.value.__cause__, RuntimeError)


def test_in_the_end_everything_stops(monkeypatch):
    monkeypatch.setattr("ablate.execute.controller.LAST_SECONDS", 0.1)
    with pytest.raises(KeyboardInterrupt), Interrupt(lambda said: None, within=0.1) as interrupt, interrupt.trials():
        assert not interrupt()
        signal.raise_signal(signal.SIGTERM)
        time.sleep(60)


def test_in_another_thread_there_are_no_signals():
    found: list[bool] = []

    def run() -> None:
        with Interrupt(print) as interrupt, interrupt.trials():
            found.append(interrupt())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [False]


# While an executor starts, nothing is to be saved


def test_before_an_executor_asks_a_stop_is_at_once(interrupt):
    with interrupt.trials(), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)
    assert not interrupt.said


@pytest.mark.full
def test_a_sigterm_while_ray_starts_is_a_stop(monkeypatch):
    import ray

    monkeypatch.setattr(ray, "init", lambda *_, **__: sys.exit(signal.SIGTERM))  # as Ray's own handler does meanwhile
    with pytest.raises(KeyboardInterrupt), own_cluster(1, gpus=False):
        raise AssertionError
