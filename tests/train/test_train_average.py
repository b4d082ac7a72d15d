"""The average of the weights: against NumPy over the weights after every step, and what an evaluation gives on it."""

import io

import numpy as np
import pytest
import torch
from rich.console import Console
from tiny_spaces import write_world

import ablate
from ablate.errors import RefusedError
from ablate.space.recipe import AverageOfLast, MovingAverage
from ablate.store.documents import trial_document
from ablate.store.query import query
from ablate.train.events import Checkpoint, Outcome, Row, Step
from ablate.train.loop import train
from ablate.train.optimizer import WeightAverage

QUIET = {"executor": "inline", "console": Console(quiet=True), "mirror": False}
RULES = {
    "two": AverageOfLast(last=2, every=3),
    "each": AverageOfLast(last=8, every=1),
    "three": AverageOfLast(last=3, every=2),
    "ema": MovingAverage(ema=0.7),
    "slow": MovingAverage(ema=0.999),
}


def weights_of(steps, rule):
    """The share of the weights after each of so many steps, by the definition."""
    after = np.arange(1, steps + 1)
    if isinstance(rule, MovingAverage):
        shares = np.float64(rule.ema) ** (steps - after)
    else:
        shares = np.isin(after, [steps - place * rule.every for place in range(rule.last)]).astype(np.float64)
    return shares / shares.sum()


def run(model, trial, data, *, resume=None, stop_at=None):
    asked = iter(range(10_000))
    return list(train(model, trial, data, data.evaluation, resume=resume, should_stop=lambda: next(asked) == stop_at))


def rows(events, metric):
    return {event.step: event.value for event in events if isinstance(event, Row) and event.metric == metric}


def course(model, trial, data):
    """The trained parameters after each step, in float64, by address."""
    taken = []
    for event in train(model, trial, data, data.evaluation, should_stop=lambda: False):
        if isinstance(event, Step):
            taken.append({name: p.detach().double().numpy().copy() for name, p in model.named_parameters()})
    return taken


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rule", RULES)
def test_it_is_the_weighted_mean_of_the_weights_after_each_step(build, make_trial, data, rule, dtype):
    kind = getattr(torch, dtype)
    trial = make_trial(recipe__average=RULES[rule], recipe__dtype=dtype)
    taken = course(build(dtype=kind), make_trial(recipe__dtype=dtype), data)
    shares = weights_of(8, RULES[rule])
    assert len(taken) == 8 and np.isclose(shares.sum(), 1)
    wanted = {name: sum(s * each[name] for s, each in zip(shares, taken, strict=True)) for name in taken[0]}

    model = build(dtype=kind)
    events = run(model, trial, data)
    averaged = build(dtype=kind)
    averaged.load_state_dict({name: torch.as_tensor(np.asarray(value)) for name, value in wanted.items()})
    tokens, targets, _ = data.evaluation
    with torch.no_grad():
        logits = averaged(tokens).double().numpy()
    shifted = logits - logits.max(-1, keepdims=True)
    log_softmax = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    loss = -np.mean(np.take_along_axis(log_softmax, targets.numpy()[..., None], -1))
    exact = 1e-12 if dtype == "float64" else 2e-6
    assert rows(events, "eval_loss_averaged_weights") == {8: pytest.approx(loss, rel=exact)}
    assert rows(events, "eval_loss")[8] != pytest.approx(loss, rel=1e-4)
    for name, parameter in model.named_parameters():
        assert np.array_equal(parameter.detach().double().numpy(), taken[-1][name]), "the model keeps its own weights"


@pytest.mark.parametrize("rule", RULES)
def test_what_is_held_is_that_mean(build, rule):
    """Each parameter by itself, and none of what is frozen."""
    model, rng = build(dtype=torch.float64), np.random.default_rng(0)
    model.positions.weight.requires_grad_(False)
    average = WeightAverage(model, RULES[rule], steps=8)
    taken = []
    for step in range(1, 9):
        for parameter in model.parameters():
            parameter.data.copy_(torch.from_numpy(rng.normal(size=tuple(parameter.shape))))
        taken.append({name: p.detach().numpy().copy() for name, p in model.named_parameters()})
        average.after(step)
    shares = weights_of(8, RULES[rule])
    assert average.held.keys() == {name for name, _ in model.named_parameters()} - {"positions.weight"}
    for name, held in average.held.items():
        wanted = sum(share * each[name] for share, each in zip(shares, taken, strict=True))
        assert np.allclose(held.numpy(), wanted, rtol=1e-12, atol=1e-13)
    with average.in_place():
        assert np.allclose(model.head.weight.detach().numpy(), sum(s * t["head.weight"] for s, t in zip(shares, taken)))
    assert np.array_equal(model.head.weight.detach().numpy(), taken[-1]["head.weight"])


@pytest.mark.parametrize("rule", ["two", "ema"])
@pytest.mark.parametrize("stop_at", [1, 5, 7])
def test_a_resumed_trial_has_the_same_average(build, make_trial, data, rule, stop_at):
    trial = make_trial(recipe__average=RULES[rule])
    whole = run(build(dropout=0.2), trial, data)
    before = run(build(dropout=0.2), trial, data, stop_at=stop_at)
    assert isinstance(before[-2], Checkpoint)
    after = run(build(seed=1, dropout=0.2), trial, data, resume=before[-2].state)
    found = [event for event in [*before, *after] if isinstance(event, Row)]
    assert found == [event for event in whole if isinstance(event, Row)]
    assert whole[-1] == after[-1] == Outcome("finished", 8)


def test_no_other_number_changes(build, make_trial, data):
    plain = [e for e in run(build(dropout=0.2), make_trial(), data) if isinstance(e, Row)]
    events = run(build(dropout=0.2), make_trial(recipe__average=RULES["two"]), data)
    found = [e for e in events if isinstance(e, Row)]
    assert [row for row in found if not row.metric.endswith("_averaged_weights")] == plain
    assert [row.metric for row in found if row not in plain] == ["eval_loss_averaged_weights"]


def test_a_state_without_the_average_is_refused(build, make_trial, data):
    before = run(build(), make_trial(), data, stop_at=2)
    with pytest.raises(RefusedError, match="does not fit its model"):
        run(build(), make_trial(recipe__average=RULES["ema"]), data, resume=before[-2].state)
    state = torch.load(io.BytesIO(before[-2].state), weights_only=True)
    assert "average" not in state


@pytest.mark.full
def test_it_is_judged_by_a_name_that_says_so(tmp_path):
    path = write_world(tmp_path, steps=6, seeds=2)
    text = path.read_text(encoding="utf-8").replace("batch: 4,", "batch: 4, average: {last: 3, every: 1},")
    judged = "eval_loss_averaged_weights: {margin: 1%}, eval_bits_per_byte_averaged_weights: {margin: 1%}"
    path.write_text(text.replace("peak_kurtosis: {scale: log}", judged), encoding="utf-8")
    done = ablate.run(ablate.load_space(path), results=tmp_path / "results", **QUIET)
    assert {effect.metric for effect in done.summary.effects} > {"eval_loss_averaged_weights"}
    names = "SELECT DISTINCT metric FROM metrics WHERE metric LIKE '%averaged%' ORDER BY ALL"
    assert list(query(tmp_path / "results", names).rows) == [
        ("eval_bits_per_byte_averaged_weights",),
        ("eval_loss_averaged_weights",),
    ]
    assert trial_document(done.plan.trials[0])["recipe"]["average"] == {"last": 3, "every": 1}
    assert "averaged as recipe.average says" in done.report()["page.md"]
