"""Which outcomes stand, and which are tried again."""

import pytest
from rich.console import Console
from tiny_spaces import write_world

import ablate
from ablate.errors import FailedError
from ablate.execute.executor import is_settled
from ablate.store.results import Results
from ablate.train.events import Outcome


@pytest.mark.fast
@pytest.mark.parametrize(
    ("outcome", "settled"),
    [
        (Outcome("finished", 10), True),
        (Outcome("diverged", 3, {"cause": "train_loss is nan"}), True),
        (Outcome("bug", 0, {"error": "KeyError", "trace": "…"}), True),
        (Outcome("lost", 5, {"error": "its worker was lost", "workers": 3}), False),
        (Outcome("out_of_memory", 1), False),
        (Outcome("timeout", 1), False),
        (Outcome("interrupted", 4), False),
    ],
)
def test_what_would_happen_again_stands(outcome, settled):
    assert is_settled(outcome) is settled


@pytest.mark.full
def test_a_failed_trial_is_told_every_time_and_lack_of_memory_is_tried_again(tmp_path, monkeypatch):
    from ablate.execute import work

    space = ablate.load_space(write_world(tmp_path), settings=["seeds=1"])
    whole = work.train

    def short_of_memory(model, trial, *rest, **more):
        if trial.variant == victim:
            yield Outcome("out_of_memory", 2, {"cause": "no more"})
        else:
            yield from whole(model, trial, *rest, **more)

    victim = ablate.check(space).variants[-1].id
    again = {"results": tmp_path / "results", "executor": "inline", "console": Console(quiet=True), "mirror": False}
    monkeypatch.setattr(work, "train", short_of_memory)
    first = ablate.run(space, **again)
    with pytest.raises(FailedError) as failed:  # the second run trains nothing else
        ablate.run(space, **again)
    done = failed.value.run
    for one in (first, done):
        assert [(trial.variant, outcome.kind) for trial, outcome in one.failed] == [(victim, "out_of_memory")]
    assert done.ended.kinds == {"out_of_memory": 1}, "only what failed is tried again"
    monkeypatch.setattr(work, "train", whole)
    done = ablate.run(space, **again)
    assert done.failed == () and done.ended.kinds == {"finished": 1}


@pytest.mark.full
def test_fresh_trains_all_again_also_after_an_interruption(tmp_path):
    space = ablate.load_space(write_world(tmp_path), settings=["seeds=1"])
    again = {"results": tmp_path / "results", "executor": "inline", "console": Console(quiet=True), "mirror": False}
    assert ablate.run(space, **again).ended.kinds == {"finished": 4}
    assert ablate.run(space, **again).ended.kinds == {}
    assert ablate.run(space, fresh=True, **again).ended.kinds == {"finished": 4}

    with Results(tmp_path / "results") as results:  # a fresh run that was killed before its first trial
        results.begin_anew(ablate.plan_space(space, results=tmp_path / "results").plan.trials)
    assert ablate.run(space, **again).ended.kinds == {"finished": 4}
