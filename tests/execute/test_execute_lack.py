"""Trials that run out of memory: tried again alone, then in parts; the outcome and the screen say what was tried."""

from io import StringIO

import pytest
from device_fixtures import notes_of, write_metered
from listed import Listed
from rich.console import Console
from tiny_spaces import rows_of

import ablate
from ablate.errors import FailedError
from ablate.execute.controller import Controller, Work
from ablate.execute.executor import SHARE, Attempt, ExecutorOptions, Message, after_lack
from ablate.store.results import Results
from ablate.store.snapshot import Snapshot
from ablate.train.events import Began, Outcome

BATCH = 4


def run(folder, paths, results="results", **more):
    """What came of the metered block's trial, of all, and what was said."""
    path, plugin = paths
    screen = Console(record=True, width=200, file=StringIO())
    space = ablate.load_space(path, plugins=[plugin])
    more = {"executor": "inline", "plugins": [plugin], "console": screen, "mirror": False} | more
    try:
        done = ablate.run(space, results=folder / results, **more)
    except FailedError as failed:  # a run that had nothing but this trial to train
        done = failed.run
    (metered,) = (trial for trial in done.plan.trials if done.plan.variant(trial.variant).name == "metered")
    return Snapshot(folder / results).outcomes().get(metered.id), done, screen.export_text()


@pytest.mark.parametrize("executor", ["inline", pytest.param("local", marks=pytest.mark.full)])
@pytest.mark.parametrize(("most", "parts", "lacked"), [pytest.param(2, 2, [1], marks=pytest.mark.full), (1, 4, [1, 2])])
def test_a_trial_recovers_in_parts(tmp_path, executor, most, parts, lacked):
    paths = write_metered(tmp_path, most=most, seeds=1)
    outcome, done, text = run(tmp_path, paths, executor=executor, workers=1)
    assert outcome.kind == "finished" and outcome.step == 12
    assert outcome.detail["out_of_memory"] == lacked and outcome.detail["parts"] == parts
    assert done.ended.kinds == {"finished": 2} and not done.failed
    for tried in (2, 4)[: len(lacked)]:
        assert f"metered · seed 0: out of memory; it starts over with each batch in {tried} parts" in text
    batches = {batch for notes in notes_of(tmp_path).values() for _, batch, _, _ in notes}
    assert batches == {BATCH // tried for tried in (1, 2, 4) if tried <= parts}
    versions = "SELECT version FROM trials JOIN versions USING (versions_id) WHERE name = 'parts'"
    assert list(ablate.query(versions, results=tmp_path / "results").version) == [str(parts)]


@pytest.mark.full
def test_the_batch_stays_as_it_is(tmp_path):
    """The losses are those of the whole batch, but for the rounding of their sums; the twin: half a batch's are not."""
    losses = {}
    for name, most, settings in (("whole", 64, []), ("parts", 1, []), ("half", 64, ["recipe.batch=2"])):
        (tmp_path / name).mkdir()
        path, plugin = write_metered(tmp_path / name, most=most, seeds=1)
        space = ablate.load_space(path, plugins=[plugin], settings=settings)
        results = tmp_path / name / "results"
        quiet = {"console": Console(quiet=True), "mirror": False, "executor": "inline"}
        plan = ablate.run(space, results=results, plugins=[plugin], **quiet).plan
        (trial,) = (trial.id for trial in plan.trials if plan.variant(trial.variant).name == "metered")
        losses[name] = [row[4] for row in rows_of(results) if row[0] == trial and row[2] == "train_loss"]
    assert losses["parts"] == pytest.approx(losses["whole"], rel=1e-5)
    assert losses["half"] != pytest.approx(losses["whole"], rel=1e-3)


@pytest.mark.full
def test_what_never_fits_is_told_and_tried_again_by_the_next_run(tmp_path):
    paths = write_metered(tmp_path, most=0, seeds=1)
    for _ in range(2):
        outcome, done, text = run(tmp_path, paths)
        assert outcome.kind == "out_of_memory" and outcome.detail["out_of_memory"] == [1, 2, 4]
        assert outcome.detail["parts"] == BATCH
        assert [trial_outcome.kind for _, trial_outcome in done.failed] == ["out_of_memory"]
        assert "in 4 parts" in text and "in 8 parts" not in text
    assert done.ended.kinds == {"out_of_memory": 1}, "the other one has its result"


@pytest.mark.full
def test_an_interrupted_trial_in_parts_goes_on_in_parts(tmp_path, monkeypatch):
    """Stopped at once and again after it has come to parts: it tries nothing twice, and ends in the same rows."""
    from ablate.execute import worker
    from ablate.execute.controller import Interrupt

    paths = write_metered(tmp_path, most=2, seeds=1)
    calm, _, _ = run(tmp_path, paths, results="calm")
    monkeypatch.setattr(worker, "SPEAK_EVERY", 0.0)
    tried, halves = len(notes_of(tmp_path)), []

    def stop(self):
        halves[:] = [n for n in notes_of(tmp_path).values() if {batch for _, batch, *_ in n} == {2} and len(n) > 12]
        return len(halves) > 2  # both layers of the calm run, and one of this

    with monkeypatch.context() as patched:
        patched.setattr(Interrupt, "__call__", stop)
        _, done, _ = run(tmp_path, paths, results="rough")
    assert done.ended.kinds["interrupted"] == 1
    assert len(notes_of(tmp_path)) == tried + 3, "one layer of the whole batch, two of the parts"
    outcome, _, said = run(tmp_path, paths, results="rough")
    assert len(notes_of(tmp_path)) == tried + 5 and "out of memory" not in said
    assert outcome.detail["out_of_memory"] == calm.detail["out_of_memory"] == [1]
    assert rows_of(tmp_path / "rough") == rows_of(tmp_path / "calm")


@pytest.mark.fast
def test_what_is_tried_next():
    assert after_lack(Attempt(), most=6, share=1.0) == Attempt(2, True, (1,))
    assert after_lack(Attempt(2, True, (1,)), most=6, share=1.0) == Attempt(4, True, (1, 2))
    assert after_lack(Attempt(4, True, (1, 2)), most=6, share=1.0) == Attempt(6, True, (1, 2, 4))
    assert after_lack(Attempt(6, True, (1, 2, 4)), most=6, share=1.0) is None
    assert after_lack(Attempt(), most=1, share=1.0) is None
    alone = after_lack(Attempt(), most=6, share=0.5)
    assert alone == Attempt(1, True, (1,)), "no other bits because of a wrong prediction"
    assert after_lack(alone, most=6, share=0.5) == Attempt(2, True, (1, 1))
    assert Attempt.going_on(1) == Attempt() and Attempt.going_on(6) == Attempt(6, True, (1, 2, 4))


class Scripted:
    """An executor whose trials end as they are told to."""

    workers = 1

    def __init__(self, *endings):
        self.endings, self.tasks = list(endings), []

    def run(self, next_task, handle, should_stop):
        while (task := next_task()) is not None:
            self.tasks.append(task)
            events = (Began(0, {**task.versions, "parts": str(task.parts)}), self.endings.pop(0))
            handle(Message(task.trial.id, events, 0))


class Silent:
    def started(self, trial_id, label, steps): ...
    def step(self, trial_id, step, loss): ...
    def ended(self, trial_id, outcome_kind, step): ...


def test_the_first_retry_of_a_trial_that_shared_its_gpu_is_alone(tmp_path):
    path, plugin = write_metered(tmp_path, seeds=1)
    (trial, _) = ablate.plan_space(ablate.load_space(path, plugins=[plugin]), results=tmp_path / "results").plan.trials
    shared = Outcome("out_of_memory", 3, {"cause": "no more", SHARE: 0.5})
    whole = Outcome("out_of_memory", 3, {"cause": "no more", SHARE: 1.0})
    scripted, notices = Scripted(shared, whole, Outcome("finished", 12)), []
    with Results(tmp_path / "results") as results:
        source = Listed([Work(trial=trial, label="one")])
        controller = Controller(
            source, results, ExecutorOptions(), watcher=Silent(), should_stop=lambda: False, say=notices.append
        )
        ended = controller.run(scripted)
        assert ended.kinds == {"finished": 1}
        assert results.outcomes()[trial.id].detail["out_of_memory"] == [1, 1]
    assert [(task.parts, task.memory) for task in scripted.tasks] == [(1, None), (1, 1.0), (2, 1.0)]
    assert notices == [
        "one: out of memory while sharing its GPU; it resumes with a GPU of its own",
        "one: out of memory; it starts over with each batch in 2 parts",
    ]
