"""A trial pauses once its rung is measured; let on, it ends with the rows of one that never paused, bit for bit."""

from __future__ import annotations

import pytest
from rich.console import Console
from tiny_spaces import rows_of, write_world

import ablate
from ablate.execute import worker
from ablate.execute.controller import Controller, Work
from ablate.execute.executor import ExecutorOptions, Task
from ablate.execute.local import Inline, Local
from ablate.store import journal
from ablate.store.results import Results
from ablate.train.events import Began, Outcome, Row, Saved

RUNGS = (0, 8, 16, None)


@pytest.fixture(scope="module")
def space(tmp_path_factory):
    return ablate.load_space(write_world(tmp_path_factory.mktemp("world"), steps=24, seeds=1))


@pytest.fixture(scope="module")
def undisturbed(space, tmp_path_factory):
    results = tmp_path_factory.mktemp("undisturbed")
    ablate.run(space, results=results, executor="inline", console=Console(quiet=True), mirror=False)
    return rows_of(results)


class Rungs:
    """Hands out every trial to its next rung as soon as it has come to one."""

    def __init__(self, trials):
        self.to_do = [(trial, 0) for trial in trials]
        self.came = []

    @property
    def waiting(self):
        return len(self.to_do)

    @property
    def open(self):
        return False

    def next(self):
        if not self.to_do:
            return None
        trial, self.rung = self.to_do.pop(0)
        return Work(trial=trial, label="a trial", until=RUNGS[self.rung])

    def ended(self, trial, outcome):
        self.came.append((trial.id, outcome.kind, outcome.step))
        rung = sum(trial.id == came for came, _, _ in self.came)
        if outcome.kind == "paused":
            self.to_do.append((trial, rung))


class Silent:
    def started(self, trial_id, label, steps): ...
    def step(self, trial_id, step, loss): ...
    def ended(self, trial_id, outcome_kind, step): ...


@pytest.mark.full
@pytest.mark.parametrize("executor", [Inline(), Local(workers=2)], ids=["inline", "local"])
def test_from_rung_to_rung_gives_the_same_bits(space, undisturbed, tmp_path, executor):
    trials = ablate.plan_space(space, results=tmp_path).plan.trials
    rungs = Rungs(trials)
    with Results(tmp_path) as results:
        ended = Controller(
            rungs, results, ExecutorOptions(), watcher=Silent(), should_stop=lambda: False, say=print
        ).run(executor)
        assert set(results.outcomes()) == {trial.id for trial in trials}
        results.refresh()
    assert ended.kinds == {"paused": 3 * len(trials), "finished": len(trials)}
    for trial in trials:
        steps = [(kind, step) for came, kind, step in rungs.came if came == trial.id]
        assert steps == [("paused", 1), ("paused", 9), ("paused", 17), ("finished", 24)]
    assert rows_of(tmp_path) == undisturbed


def carried_out(task):
    return [event for message in worker.messages(task, lambda: False) for event in message.events]


def test_what_is_measured_at_a_rung_is_there_when_it_pauses(space, tmp_path):
    trial = ablate.plan_space(space, results=tmp_path).plan.trials[0]
    events = carried_out(Task(trial=trial, folder=tmp_path, until=8))
    measured = {(event.metric, event.step) for event in events if isinstance(event, Row)}
    assert {("eval_loss", 8), ("train_loss", 8)} <= measured
    assert max(step for _, step in measured) == 8
    assert isinstance(events[-2], Saved) and events[-2].step == 9
    assert events[-1] == Outcome("paused", 9)


@pytest.mark.parametrize("until", [8, 3])
def test_a_rung_that_is_behind_is_not_trained_for(space, tmp_path, until):
    """And its state stays as it is: what the journal says of it still holds."""
    trial = ablate.plan_space(space, results=tmp_path).plan.trials[0]
    before = carried_out(Task(trial=trial, folder=tmp_path, until=8))
    saved = next(event for event in before if isinstance(event, Saved) and event.step == 9)
    task = Task(trial=trial, folder=tmp_path, resume=saved, versions=before[0].versions, until=until)
    assert carried_out(task) == [Began(9, before[0].versions), Outcome("paused", 9)]
    assert journal.read_checkpoint(tmp_path, trial.id, saved) is not None


@pytest.mark.full
def test_a_rung_at_the_end_is_the_end(space, tmp_path):
    trial = ablate.plan_space(space, results=tmp_path).plan.trials[0]
    for until in (23, 24, 1000):
        assert carried_out(Task(trial=trial, folder=tmp_path, until=until))[-1] == Outcome("finished", 24)


@pytest.mark.full
def test_a_trial_in_parts_pauses_and_goes_on_in_parts(space, tmp_path):
    """What was begun in parts is not gone on with as a whole: the bits would be others, so it starts over."""
    trial = ablate.plan_space(space, results=tmp_path).plan.trials[0]
    whole = carried_out(Task(trial=trial, folder=tmp_path, parts=2))
    before = carried_out(Task(trial=trial, folder=tmp_path, parts=2, until=8))
    saved = [event for event in before if isinstance(event, Saved)][-1]
    versions = before[0].versions
    assert versions["parts"] == "2" and before[-1].detail["parts"] == 2
    after = carried_out(Task(trial=trial, folder=tmp_path, parts=2, resume=saved, versions=versions))
    assert [e for e in before + after if isinstance(e, Row)] == [e for e in whole if isinstance(e, Row)]
    before = carried_out(Task(trial=trial, folder=tmp_path, parts=2, until=8))
    other = carried_out(Task(trial=trial, folder=tmp_path, resume=saved, versions=versions))
    assert other[0].step == 0 and "parts" not in other[0].versions
