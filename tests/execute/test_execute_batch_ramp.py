"""Trials whose batch grows: the sequences of each step, on how many tokens they are trained, and that they resume."""

import pytest
import torch
from altered_trials import altered
from rich.console import Console
from tiny_spaces import rows_of, write_world

import ablate
from ablate.errors import InputError, RefusedError
from ablate.execute import work
from ablate.execute.executor import ExecutorOptions
from ablate.store.query import query
from ablate.train.data_parallel import Ranks
from ablate.train.events import Checkpoint, Outcome, Row
from ablate.train.loop import train
from ablate.train.microbatches import BatchShares

QUIET = {"executor": "inline", "console": Console(quiet=True), "mirror": False}
SIZES = [2, 2, 3, 4, 5, 5, 6, 7, 8, 8, 8, 8]
"""2 + ⌊6 s / 8⌋ for s < 8, then 8."""


@pytest.fixture
def world(tmp_path):
    path = write_world(tmp_path, seeds=1)
    text = path.read_text(encoding="utf-8").replace("batch: 4,", "batch: 8, batch_ramp: {from: 2, until: 8},")
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def trial(world, tmp_path):
    return ablate.plan_space(ablate.load_space(world), results=tmp_path / "r").plan.trials[0]


def computed(trial, cache, *, resume=None, stop_at=None, cut=None):
    asked = iter(range(1000))
    how = {} if cut is None else {"cut": cut}
    return list(
        work.compute(trial, cache=cache, plugins=(), resume=resume, should_stop=lambda: next(asked) == stop_at, **how)
    )


def numbers(events):
    return [event for event in events if isinstance(event, Row)]


def test_each_step_has_the_first_of_the_sequences_that_a_whole_batch_would_have(trial, tmp_path, monkeypatch):
    given = []

    def watched(model, trial, batches, evaluation, **how):
        given.append([batches.at(step) for step in range(trial.work.recipe.steps)])
        yield Outcome("interrupted", 0)

    monkeypatch.setattr(work, "train", watched)
    computed(trial, tmp_path / "cache")
    computed(altered(trial, recipe=trial.work.recipe.model_copy(update={"batch_ramp": None})), tmp_path / "cache")
    grown, whole = given
    assert [len(batch.inputs) for batch in grown] == SIZES and {len(batch.inputs) for batch in whole} == {8}
    for size, ours, all_of_it in zip(SIZES, grown, whole, strict=True):
        assert torch.equal(ours.inputs, all_of_it.inputs[:size]) and torch.equal(ours.targets, all_of_it.targets[:size])


@pytest.mark.parametrize("stop_at", [1, 6, 9])
def test_a_resumed_trial_has_the_same_bits(trial, tmp_path, stop_at):
    whole = computed(trial, tmp_path / "cache")
    before = computed(trial, tmp_path / "cache", stop_at=stop_at)
    assert before[-1] == Outcome("interrupted", stop_at) and isinstance(before[-2], Checkpoint)
    after = computed(trial, tmp_path / "cache", resume=before[-2].state)
    assert after[-1] == whole[-1] == Outcome("finished", 12)
    assert [*numbers(before), *numbers(after)] == numbers(whole)


def test_microbatches_make_the_same_update(trial, tmp_path):
    """Though the first batches have fewer sequences than there are parts."""
    recipe = trial.work.recipe.model_copy(update={"dtype": "float64"})
    exact = altered(trial, recipe=recipe, measure=trial.work.measure.model_copy(update={"probes": (), "every": 1}))
    whole, parted = (
        {(row.step, row.metric): row.value for row in numbers(computed(exact, tmp_path / "cache", cut=cut))}
        for cut in (BatchShares(), BatchShares(parts=3))
    )
    assert whole.keys() == parted.keys()
    assert parted == pytest.approx(whole, rel=1e-9)


def test_tokens_are_those_of_all_batches(world, tmp_path):
    done = ablate.run(ablate.load_space(world), results=tmp_path / "results", **QUIET)
    assert set(done.ended.kinds) == {"finished"}
    found = query(tmp_path / "results", "SELECT DISTINCT tokens FROM final").rows
    assert list(found) == [(sum(SIZES) * 16,)]
    assert rows_of(tmp_path / "results")
    assert any(f"training reads {sum(SIZES) * 16:,} tokens" in line for line in ablate_read(world, tmp_path))


def ablate_read(world, tmp_path):
    return ablate.plan_space(ablate.load_space(world), results=tmp_path / "r").read


@pytest.mark.parametrize(
    "until", ["0.55", *(pytest.param(each, marks=pytest.mark.full) for each in ("5", "12", "100%"))]
)
def test_sql_counts_as_the_recipe_does(world, tmp_path, until):
    """Also for a share of the steps that is rounded."""
    text = world.read_text(encoding="utf-8").replace("until: 8", f"until: {until}")
    world.write_text(text.replace("seeds: 1", "seeds: 1\nthreads: 1"), encoding="utf-8")
    done = ablate.run(ablate.load_space(world), results=tmp_path / "results", **QUIET)
    (recipe,) = {trial.work.recipe for trial in done.plan.trials}
    growing = {"0.55": 7, "5": 5, "12": 12, "100%": 12}[until]
    wanted = sum(2 + 6 * step // growing for step in range(growing)) + (12 - growing) * 8
    assert list(query(tmp_path / "results", "SELECT DISTINCT sequences FROM trained").rows) == [(wanted,)]
    assert recipe.batch_ramp.from_ == 2


def test_more_ranks_than_the_first_batch_has_sequences_are_refused(trial):
    cut = BatchShares(ranks=Ranks(rank=0, size=3))
    with pytest.raises(RefusedError, match=r"a batch of 2 sequences cannot be divided among 3 ranks"):
        next(iter(train(None, trial, None, None, should_stop=lambda: False, cut=cut)))
    with pytest.raises(InputError, match="the first batch has 2 sequences, fewer than the 4 processes"):
        ExecutorOptions(executor="local", ranks=4).check_batch(8, 2)
