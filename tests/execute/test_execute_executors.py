"""The executors give the same rows, whatever happens to them on the way."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest
from rich.console import Console
from worlds import rows_of, write_world

import ablate
from ablate.execute.inline import Inline
from ablate.execute.local import Local
from ablate.execute.task import Message, Task
from ablate.train.events import Checkpoint, Outcome, Row


@pytest.fixture(scope="module")
def space(tmp_path_factory):
    return ablate.load_space(write_world(tmp_path_factory.mktemp("world")))


@pytest.fixture(scope="module")
def undisturbed(space, tmp_path_factory):
    results = tmp_path_factory.mktemp("undisturbed")
    ablate.run(space, results=results, executor="inline", console=Console(quiet=True), mirror=False)
    return rows_of(results)


def tasks_of(space, results, resume=None):
    from ablate.data.streams import prepare

    cache = results / "corpus"
    prepare(space.data, space.folder, cache)
    plan = ablate.plan_space(space, results=results).plan
    return [Task(trial, resume, cache) for trial in plan.trials]


def test_inline_has_every_trial(space, undisturbed):
    assert len({row[0] for row in undisturbed}) == 4 * 2
    assert {row[2] for row in undisturbed} >= {"train_loss", "eval_loss", "kurtosis", "token_correlation_rms"}


def test_local_gives_the_same_bits_as_inline(space, undisturbed, tmp_path):
    done = ablate.run(space, results=tmp_path, executor="local", workers=2, console=Console(quiet=True), mirror=False)
    assert done.ended.kinds == {"finished": 8}
    assert rows_of(tmp_path) == undisturbed


def test_stopped_and_gone_on_gives_the_same_bits(space, undisturbed, tmp_path, monkeypatch):
    """Stop after a few messages, again and again, until nothing is left: the rows are those of an undisturbed run."""
    from ablate.execute import interrupt, work

    monkeypatch.setattr(work, "SPEAK_EVERY", 0.0)

    def stop_soon(self):
        self.calls = getattr(self, "calls", 0) + 1
        self.asked = self.calls > 8
        return self.asked

    monkeypatch.setattr(interrupt.Interrupt, "__call__", stop_soon)
    interruptions = 0
    for _ in range(40):
        done = ablate.run(space, results=tmp_path, executor="inline", console=Console(quiet=True), mirror=False)
        interruptions += done.ended.kinds["interrupted"]
        if not done.ended.kinds["interrupted"] and not done.ended.waiting:
            break
    assert interruptions >= 3
    assert rows_of(tmp_path) == undisturbed


def test_a_killed_worker_costs_nothing_but_time(tmp_path):
    """kill -9 of the worker that trains: its trial goes on from its checkpoint, the others never notice."""
    space = ablate.load_space(write_world(tmp_path, steps=400, seeds=1))
    calm, rough = tmp_path / "calm", tmp_path / "rough"
    ablate.run(space, results=calm, executor="inline", console=Console(quiet=True), mirror=False)
    killed = []

    def kill_one():
        workers = [pid for pid in children_of(os.getpid()) if "spawn_main" in command_of(pid)]
        if workers:
            os.kill(workers[0], signal.SIGKILL)
            killed.append(workers[0])

    timer = threading.Timer(6.0, kill_one)
    timer.start()
    done = ablate.run(space, results=rough, executor="local", workers=2, console=Console(quiet=True), mirror=False)
    timer.cancel()
    assert killed, "the run was over before the worker was killed"
    assert done.ended.kinds == {"finished": 4}
    assert rows_of(rough) == rows_of(calm)


def test_a_bug_is_an_outcome_with_its_trace(space, tmp_path):
    """A trial that cannot be built fails alone, with its whole trace; the next one runs."""
    import dataclasses

    good, other = tasks_of(space, tmp_path)[:2]
    broken = Task(dataclasses.replace(other.trial, corpus="not this corpus"), None, other.cache)
    messages: list[Message] = []
    waiting = [good, broken]
    Inline().run(lambda: waiting.pop() if waiting else None, messages.append, lambda: False)
    outcomes = {m.trial_id: e for m in messages for e in m.events if isinstance(e, Outcome)}
    assert outcomes[good.trial.id].kind == "finished"
    assert outcomes[other.trial.id].kind == "bug"
    assert "RefusedError" in outcomes[other.trial.id].detail["trace"]


def test_messages_keep_their_order_and_end_with_the_outcome(space, tmp_path):
    (task, *_) = tasks_of(space, tmp_path)
    messages: list[Message] = []
    waiting = [task]
    Local(workers=1).run(lambda: waiting.pop() if waiting else None, messages.append, lambda: False)
    events = [event for message in messages for event in message.events]
    steps = [event.step for event in events if isinstance(event, Row)]
    assert steps == sorted(steps)
    assert isinstance(events[-1], Outcome)
    assert [e.step for e in events if isinstance(e, Checkpoint)] == [5, 10]


def children_of(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for task in text.parent.parent.iterdir() for word in (task / "children").read_text().split()]


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
