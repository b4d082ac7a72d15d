"""Trials that take too long, are preempted, or come to a worker with other versions."""

import dataclasses
import os
import signal
import threading
import time
from io import StringIO

import pytest
from rich.console import Console
from tiny_spaces import rows_of, write_world

import ablate
from ablate.errors import FailedError
from ablate.execute import worker
from ablate.execute.executor import REFUSED, Task
from ablate.execute.local import Local
from ablate.store import machines
from ablate.store.results import Results
from ablate.train.events import Began, Outcome, Row

QUIET = {"console": Console(quiet=True), "mirror": False}


@pytest.fixture(scope="module")
def space(tmp_path_factory):
    return ablate.load_space(write_world(tmp_path_factory.mktemp("world"), steps=60, seeds=1))


def tasks_of(space, results, **changes):
    plan = ablate.plan_space(space, results=results).plan
    return [Task(trial=trial, folder=results, **changes) for trial in plan.trials]


@pytest.mark.full
def test_a_trial_over_its_limit_ends_at_its_next_step(space, tmp_path):
    """Its rows are kept; it is not tried again with the same limit, and is trained with a longer one."""
    with pytest.raises(FailedError) as failed:
        ablate.run(space, results=tmp_path, executor="inline", limit=1e-6, **QUIET)
    done = failed.value.run
    assert done.ended.kinds == {"timeout": 4}
    ((_, outcome), *_) = done.failed
    assert outcome.detail == {"error": "not done after 1e-06 s", "limit": 1e-06}
    with pytest.raises(FailedError) as failed:
        ablate.run(space, results=tmp_path, executor="inline", limit=1e-6, **QUIET)
    assert failed.value.run.ended.kinds == {}
    assert ablate.run(space, results=tmp_path, executor="inline", limit=600, **QUIET).ended.kinds == {"finished": 4}
    ablate.run(space, results=tmp_path / "calm", executor="inline", **QUIET)
    assert rows_of(tmp_path) == rows_of(tmp_path / "calm")


@pytest.mark.full
def test_a_trial_that_hangs_within_a_step_is_ended_with_its_trace(space, tmp_path):
    """Asleep in one call, it never asks whether to stop: the worker is killed, the row says where it hung."""
    (task, *_) = tasks_of(space, tmp_path)
    messages = []
    waiting = [dataclasses.replace(task, limit=6.0, plugins=(sleeper(tmp_path),))]
    started = time.monotonic()
    Local(workers=1).run(lambda: waiting.pop() if waiting else None, messages.append, lambda: False)
    assert time.monotonic() - started < 40
    outcome = messages[-1].events[-1]
    assert outcome.kind == "timeout" and outcome.detail["limit"] == 6.0
    assert "hung" in outcome.detail["error"] and "sleeper.py" in outcome.detail["trace"]
    assert not list((tmp_path / "running").glob("*.trace"))


@pytest.mark.full
def test_a_trace_that_cannot_be_written_is_refused_in_words(space, tmp_path):
    (tmp_path / "running").write_text("in the way")
    (task, *_) = tasks_of(space, tmp_path)
    messages, waiting = [], [dataclasses.replace(task, limit=600.0)]
    Local(workers=1).run(lambda: waiting.pop() if waiting else None, messages.append, lambda: False)
    ((outcome,),) = [message.events for message in messages]
    assert outcome.kind == "interrupted" and outcome.detail[REFUSED].startswith(f"cannot write {tmp_path}/running/")


def sleeper(folder):
    """A file of components that takes forever to be read."""
    path = folder / "sleeper.py"
    path.write_text("import time\n\ntime.sleep(600)\n")
    return path


@pytest.mark.full
def test_a_preempted_worker_saves_its_trial_and_another_goes_on(tmp_path):
    space = ablate.load_space(write_world(tmp_path, steps=400, seeds=1))
    calm, rough = tmp_path / "calm", tmp_path / "rough"
    ablate.run(space, results=calm, executor="inline", **QUIET)
    screen = Console(record=True, width=200, file=StringIO())
    sent = []

    def preempt():
        from ablate.store import claim

        until = time.monotonic() + 60
        while time.monotonic() < until and not sent:
            for holder in claim.holders(rough).values():
                if holder.alive and holder.step > 50:
                    os.kill(holder.pid, signal.SIGTERM)
                    sent.append(holder)
                    break
            time.sleep(0.05)

    thread = threading.Thread(target=preempt, daemon=True)
    thread.start()
    done = ablate.run(space, results=rough, executor="local", workers=2, console=screen, mirror=False)
    thread.join()
    assert sent, "no worker came far enough to be preempted"
    assert done.ended.kinds == {"finished": 4}
    assert "its worker was asked to stop; it resumes from its checkpoint" in screen.export_text()
    assert rows_of(rough) == rows_of(calm)


def test_a_worker_with_other_versions_starts_over(space, tmp_path, monkeypatch):
    """What a state was made with decides its bits, so a worker that differs does not go on from it."""
    (trial, *_) = ablate.plan_space(space, results=tmp_path).plan.trials
    notices = []
    with Results(tmp_path, say=notices.append) as results:
        start = results.begin(trial)
        asked = iter([False] * 30 + [True] * 9)
        for message in worker.messages(
            Task(trial=trial, folder=tmp_path, versions=start.versions), lambda: next(asked)
        ):
            results.append(trial.id, message.events)
        start = results.begin(trial)
        assert start.resume is not None and start.resume.step == 30 and start.versions["device"] == "cpu"
        monkeypatch.setattr(machines, "installed", lambda: {**start.versions, "torch": "9.9"})
        task = Task(trial=trial, folder=tmp_path, resume=start.resume, versions=start.versions)
        events = [event for message in worker.messages(task, lambda: False) for event in message.events]
        results.append(trial.id, events)
    assert isinstance(events[0], Began) and events[0].step == 0
    assert next(event.step for event in events if isinstance(event, Row)) == 0
    assert isinstance(events[-1], Outcome) and events[-1].kind == "finished"
    assert notices == [f"trial {trial.id} was started with other versions (torch); it starts over"]
