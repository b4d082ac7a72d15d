"""The executors give the same rows, whatever happens to them on the way."""

from __future__ import annotations

import subprocess
import sys

import pytest
from altered_trials import altered
from listed import Listed
from rich.console import Console
from tiny_spaces import rows_of, write_world

import ablate
from ablate.execute.executor import Message, Task
from ablate.execute.local import Inline, Local
from ablate.store import claim
from ablate.train.events import Began, Outcome, Row, Saved


@pytest.fixture(scope="module")
def space(tmp_path_factory):
    return ablate.load_space(write_world(tmp_path_factory.mktemp("world")))


@pytest.fixture(scope="module")
def undisturbed(space, tmp_path_factory):
    results = tmp_path_factory.mktemp("undisturbed")
    ablate.run(space, results=results, executor="inline", console=Console(quiet=True), mirror=False)
    return rows_of(results)


def tasks_of(space, results):
    plan = ablate.plan_space(space, results=results).plan
    return [Task(trial=trial, folder=results) for trial in plan.trials]


@pytest.mark.full
def test_inline_has_every_trial(space, undisturbed):
    assert len({row[0] for row in undisturbed}) == 4 * 2
    assert {row[2] for row in undisturbed} >= {"train_loss", "eval_loss", "kurtosis", "token_correlation_rms"}


def test_local_gives_the_same_bits_as_inline(space, undisturbed, tmp_path):
    done = ablate.run(space, results=tmp_path, executor="local", workers=2, console=Console(quiet=True), mirror=False)
    assert done.ended.kinds == {"finished": 8}
    assert rows_of(tmp_path) == undisturbed


@pytest.mark.full
def test_stopped_and_gone_on_gives_the_same_bits(space, undisturbed, tmp_path, monkeypatch):
    """Stop after a few messages, again and again, until nothing is left: the rows are those of an undisturbed run."""
    from ablate.execute import controller, worker

    monkeypatch.setattr(worker, "SPEAK_EVERY", 0.0)

    def stop_soon(self):
        self.calls = getattr(self, "calls", 0) + 1
        self.requested = self.calls > 8
        return self.requested

    monkeypatch.setattr(controller.Interrupt, "__call__", stop_soon)
    interruptions = 0
    for _ in range(40):
        done = ablate.run(space, results=tmp_path, executor="inline", console=Console(quiet=True), mirror=False)
        interruptions += done.ended.kinds["interrupted"]
        if not done.ended.kinds["interrupted"] and not done.ended.waiting:
            break
    assert interruptions >= 3
    assert rows_of(tmp_path) == undisturbed


def test_a_bug_is_an_outcome_with_its_trace(space, tmp_path):
    """A trial that cannot be built fails alone, with its whole trace; the next one runs."""
    import dataclasses

    good, other = tasks_of(space, tmp_path)[:2]
    broken = dataclasses.replace(other, trial=dataclasses.replace(other.trial, seed="seven"))
    messages: list[Message] = []
    waiting = [good, broken]
    Inline().run(lambda: waiting.pop() if waiting else None, messages.append, lambda: False)
    outcomes = {m.trial_id: e for m in messages for e in m.events if isinstance(e, Outcome)}
    assert outcomes[good.trial.id].kind == "finished"
    assert outcomes[other.trial.id].kind == "bug"
    assert "Traceback" in outcomes[other.trial.id].detail["trace"]


def test_what_no_trial_can_help_stops_the_run(space, tmp_path):
    """The texts change under a run: no trial is to blame, none has an outcome, and the run says what is wrong."""

    from ablate.errors import RefusedError
    from ablate.execute.controller import Controller, Work
    from ablate.execute.executor import ExecutorOptions
    from ablate.store.results import Results

    trials = [altered(task.trial, corpus="0" * 64) for task in tasks_of(space, tmp_path)]
    with Results(tmp_path) as results:
        source = Listed(Work(trial=trial, label="a trial") for trial in trials)
        controller = Controller(
            source, results, ExecutorOptions(), watcher=Silent(), should_stop=lambda: False, say=print
        )
        with pytest.raises(RefusedError, match="the corpus changed since the trial was planned"):
            controller.run(Inline())
        assert results.outcomes() == {}


class Silent:
    """A watcher that shows nothing."""

    def started(self, trial_id, label, steps): ...
    def step(self, trial_id, step, loss): ...
    def ended(self, trial_id, outcome_kind, step): ...


class KilledLate:
    """An executor whose worker is killed only after its trial has ended, as Ray kills: without waiting for it."""

    def run(self, next_task, handle, should_stop):
        task = next_task()
        hold = "import sys; from pathlib import Path; from ablate.store.claim import Claim\n"
        hold += "with Claim(Path(sys.argv[1]), sys.argv[2]): print('held', flush=True); sys.stdin.read()"
        command = [sys.executable, "-c", hold, str(task.folder), task.trial.id]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
            assert worker.stdout.readline() == "held\n"
            handle(Message(task.trial.id, (Outcome("interrupted", 0, {"error": "it was asked to stop"}),), 0))
            assert claim.holders(task.folder)[task.trial.id].alive
            worker.kill()


def test_a_worker_that_dies_after_its_trial_has_ended_leaves_no_claim(space, tmp_path):
    from ablate.execute.controller import Controller, Work
    from ablate.execute.executor import ExecutorOptions
    from ablate.store.results import Results

    (task, *_) = tasks_of(space, tmp_path)
    with Results(tmp_path) as results:
        source = Listed([Work(trial=task.trial, label="a trial")])
        controller = Controller(
            source, results, ExecutorOptions(), watcher=Silent(), should_stop=lambda: True, say=print
        )
        assert controller.run(KilledLate()).waiting == 1
    assert claim.holders(tmp_path) == {}


@pytest.mark.full
def test_messages_keep_their_order_and_end_with_the_outcome(space, tmp_path):
    (task, *_) = tasks_of(space, tmp_path)
    messages: list[Message] = []
    waiting = [task]
    Local(workers=1).run(lambda: waiting.pop() if waiting else None, messages.append, lambda: False)
    events = [event for message in messages for event in message.events]
    steps = [event.step for event in events if isinstance(event, Row)]
    assert steps == sorted(steps)
    assert isinstance(events[-1], Outcome)
    assert [e.step for e in events if isinstance(e, Saved)] == [5, 10]
    assert isinstance(events[0], Began) and events[0].step == 0
