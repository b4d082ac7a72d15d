"""The moving average of the training loss: of every step, each loss weighted by how long ago it was."""

import math
from fractions import Fraction

import pytest
from rich.console import Console
from tiny_spaces import write_world

import ablate
from ablate.plan.plan import conditions_of, trial_id
from ablate.store.documents import trial_document
from ablate.store.query import query
from ablate.train.definitions import definitions
from ablate.train.events import Checkpoint, Row
from ablate.train.loop import train

QUIET = {"executor": "inline", "console": Console(quiet=True), "mirror": False}


def run(model, trial, data, *, resume=None, stop_at=None):
    asked = iter(range(10_000))
    return list(train(model, trial, data, data.evaluation, resume=resume, should_stop=lambda: next(asked) == stop_at))


def course(events, metric):
    return {event.step: event.value for event in events if isinstance(event, Row) and event.metric == metric}


@pytest.mark.parametrize("decay", [0.5, 0.99])
def test_it_is_the_weighted_mean_of_all_losses_so_far(build, make_trial, data, decay):
    every = course(run(build(), make_trial(measure__every=1), data), "train_loss")
    found = course(run(build(), make_trial(measure__every=3, measure__train_loss_ema=decay), data), "train_loss_ema")
    assert sorted(found) == [0, 3, 6, 7] and len(every) == 8
    for step, value in found.items():
        weights = [Fraction(decay) ** (step - earlier) for earlier in range(step + 1)]
        wanted = sum(w * Fraction(every[earlier]) for earlier, w in enumerate(weights)) / sum(weights)
        assert value == pytest.approx(float(wanted), rel=1e-12)
    assert found[0] == pytest.approx(every[0], rel=1e-15)


@pytest.mark.parametrize("stop_at", [1, 5])
def test_it_goes_on_where_it_stopped(build, make_trial, data, stop_at):
    trial = make_trial(measure__every=1, measure__train_loss_ema=0.9)
    whole = run(build(), trial, data)
    before = run(build(), trial, data, stop_at=stop_at)
    assert isinstance(before[-2], Checkpoint)
    after = run(build(seed=1), trial, data, resume=before[-2].state)
    assert course(before, "train_loss_ema") | course(after, "train_loss_ema") == course(whole, "train_loss_ema")


def test_where_it_is_not_asked_for_nothing_changes(build, make_trial, data):
    trial = make_trial()
    assert "train_loss_ema" not in {event.metric for event in run(build(), trial, data) if isinstance(event, Row)}
    assert "train_loss_ema" not in trial_document(trial)["measure"]
    states = [event.state for event in run(build(), trial, data, stop_at=2) if isinstance(event, Checkpoint)]
    assert states and all(b"smoothed" not in state for state in states)


def test_it_makes_another_trial(tmp_path):
    path = write_world(tmp_path)
    plain = ablate.plan_space(ablate.load_space(path), results=tmp_path / "r").plan.trials[0]
    smoothed = ablate.load_space(path, settings=["measure.train_loss_ema=0.9"])
    other = ablate.plan_space(smoothed, results=tmp_path / "r").plan.trials[0]
    assert plain.id != other.id and plain.conditions != other.conditions
    known = smoothed.grammar.catalogue
    assert trial_id(other, other.work.identity(known)) == other.id
    assert conditions_of(other, other.work.conditions(known)) == other.conditions


def test_it_is_judged_and_its_decay_is_told(tmp_path):
    path = write_world(tmp_path, steps=6, seeds=2)
    text = path.read_text(encoding="utf-8").replace("  every: 4\n", "  every: 4\n  train_loss_ema: 95%\n")
    path.write_text(text.replace("peak_kurtosis: {scale: log}", "train_loss_ema: {margin: 1%}"), encoding="utf-8")
    done = ablate.run(ablate.load_space(path), results=tmp_path / "results", **QUIET)
    effects = [effect for effect in done.summary.effects if effect.metric == "train_loss_ema"]
    assert len(effects) >= 2 and all(effect.estimate is None or math.isfinite(effect.estimate) for effect in effects)
    ((told,),) = query(tmp_path / "results", "SELECT definition FROM definitions WHERE metric = 'train_loss_ema'").rows
    assert "decay d: 0.95" in told and "decay d: 0.95" in done.report()["page.md"]
    ((last,),) = query(
        tmp_path / "results", "SELECT count(*) FROM summaries WHERE name = 'train_loss_ema' AND step = 5"
    ).rows
    assert last == len(done.plan.trials)


def test_its_definition_says_where_the_decay_is():
    (own,) = (each for each in definitions() if each.metric == "train_loss_ema")
    assert own.definition.endswith("decay d: measure.train_loss_ema")
