"""Divergence and lack of memory are outcomes that name where and when; anything else is raised."""

import gc
import json
import sys
import weakref

import pytest
import torch
from torch import nn

from ablate.train.events import Outcome, Row
from ablate.train.loop import train


def run(model, trial, data):
    return list(train(model, trial, data, data.evaluation, should_stop=lambda: False))


class From(nn.Module):
    """The identity, until a training step: from then on, what it is given to do."""

    def __init__(self, step, act):
        super().__init__()
        self.step, self.act, self.calls = step, act, 0

    def forward(self, x):
        if self.training and torch.is_grad_enabled():
            self.calls += 1
        return self.act(x) if self.calls > self.step else x


class BadGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * float("nan")


@pytest.mark.fast
@pytest.mark.parametrize("layer", [1, 2])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_divergence_names_the_part_where_it_begins(build, make_trial, data, layer, value):
    model = build()
    model.layers[str(layer)].mlp.between = From(4, lambda x: x.index_fill(-1, torch.tensor([2]), value))
    healthy = [e for e in run(build(), make_trial(), data) if isinstance(e, Row) and e.step < 4]
    events = run(model, make_trial(), data)
    outcome = events[-1]
    assert isinstance(outcome, Outcome)
    assert (outcome.kind, outcome.step) == ("diverged", 4)
    assert outcome.detail["seen"] == "output"
    assert outcome.detail["address"] == f"layers.{layer}.mlp.between"
    assert outcome.detail["layer"] == layer
    assert "train_loss is nan" in outcome.detail["cause"]
    # Rows up to then stay: those of the healthy steps and the evaluation before the step.
    assert [e for e in events if isinstance(e, Row) and e.step < 4] == healthy
    assert {e.metric for e in events if isinstance(e, Row) and e.step == 4} == {
        "eval_loss",
        "attention_entropy",
        "feature_correlation_rms",
        "kurtosis",
        "token_correlation_mean",
        "token_correlation_rms",
        "token_norm_kurtosis",
    }
    assert sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()) == 0


@pytest.mark.fast
def test_the_last_statistics_are_those_of_the_last_healthy_steps(build, make_trial, data):
    every_step = [e for e in run(build(), make_trial(measure__every=1), data) if isinstance(e, Row)]
    values = {(e.step, e.metric, e.address): e.value for e in every_step}
    model = build()
    model.layers["1"].mlp.between = From(5, lambda x: x * float("inf"))
    detail = run(model, make_trial(), data)[-1].detail
    last = detail["last"]
    assert (last["step"], last["measured_at"]) == (4, 3)
    assert last["train_loss"] == values[4, "train_loss", ""]
    assert last["gradient_norm"] == values[4, "gradient_norm", ""]
    assert last["measured"]["gain"]["layers.2.attention_gain"] == values[3, "gain", "layers.2.attention_gain"]
    assert last["evaluated_at"] == 4
    assert last["evaluated"]["kurtosis"]["layers.2"] == values[4, "kurtosis", "layers.2"]
    assert last["evaluated"]["eval_loss"][""] == values[4, "eval_loss", ""]
    assert json.loads(json.dumps(detail, allow_nan=False)) == detail


@pytest.mark.fast
def test_a_gradient_that_is_not_finite_diverges_too(build, make_trial, data):
    model = build()
    model.layers["2"].mlp.between = From(2, BadGradient.apply)
    outcome = run(model, make_trial(), data)[-1]
    assert (outcome.kind, outcome.step) == ("diverged", 2)
    assert outcome.detail["cause"] == "gradient_norm is nan"
    assert (outcome.detail["seen"], outcome.detail["address"]) == ("gradient", "layers.2.mlp.up")


@pytest.mark.fast
def test_a_model_that_blows_up_by_itself(build, make_trial, data):
    """A rate that no model survives; what the outcome names is what a forward pass of the test finds first."""
    model = build()
    trial = make_trial(recipe__optimizer__adamw__lr=1e25, recipe__schedule__warmup=0.0, recipe__clip=None)
    outcome = run(model, trial, data)[-1]
    assert outcome.kind == "diverged"
    assert outcome.step >= 1
    first = []

    def note(name):
        return lambda module, inputs, output: first.append(name) if not output.isfinite().all() else None

    for name, module in model.named_modules():
        module.register_forward_hook(note(name))
    model(data.at(outcome.step)[0])
    assert outcome.detail["address"] == first[0]


@pytest.mark.fast
def test_a_loss_that_is_only_large_is_a_result(build, make_trial, data):  # the tests above can fail
    model = build()
    with torch.no_grad():
        model.head.weight.mul_(1e8)
    events = run(model, make_trial(recipe__steps=3), data)
    assert events[-1].kind == "finished"
    assert next(e.value for e in events if isinstance(e, Row) and e.metric == "train_loss") > 1e4


@pytest.mark.fast
def test_an_evaluation_that_is_not_finite_is_no_result(build, make_trial, data):
    model = build()

    class OnlyInEvaluation(nn.Module):
        def forward(self, x):
            return x if self.training else x * float("nan")

    model.layers["1"].mlp.between = OnlyInEvaluation()
    outcome = run(model, make_trial(), data)[-1]
    assert (outcome.kind, outcome.step) == ("diverged", 0)
    assert outcome.detail["cause"] == "eval_loss is nan"
    assert outcome.detail["address"] == "layers.1.mlp.between"


def raising(error):
    def act(x):
        raise error

    return act


@pytest.mark.fast
@pytest.mark.parametrize(
    "act",
    [
        raising(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nmore")),
        raising(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")),
        raising(MemoryError()),
        lambda x: torch.empty(1 << 60, dtype=torch.uint8),
    ],
    ids=["cuda", "cublas", "python", "cpu"],
)
def test_lack_of_memory_is_an_outcome(build, make_trial, data, act):
    model = build()
    model.layers["2"].mlp.between = From(3, act)
    events = run(model, make_trial(), data)
    outcome = events[-1]
    assert (outcome.kind, outcome.step) == ("out_of_memory", 3)
    assert outcome.detail["last"]["step"] == 2
    assert any(isinstance(e, Row) and e.metric == "train_loss" and e.step == 0 for e in events)


@pytest.mark.fast
@pytest.mark.parametrize("error", [RuntimeError("shapes differ"), KeyboardInterrupt(), ValueError("no")], ids=repr)
def test_anything_else_is_raised(build, make_trial, data, error):
    model = build()
    model.layers["2"].mlp.between = From(3, raising(error))
    with pytest.raises(type(error)):
        run(model, make_trial(), data)


@pytest.mark.full
def test_nothing_of_the_step_is_held_when_lack_of_memory_is_told(build, make_trial, data):
    """Who is told gives the memory to others: not while a trace still holds the activations."""
    held = []

    def act(x):
        activation = torch.ones_like(x)
        held.append(weakref.ref(activation))
        raise torch.OutOfMemoryError(f"CUDA out of memory beside {activation.shape}")

    model = build()
    model.layers["2"].mlp.between = From(3, act)
    for event in train(model, make_trial(), data, data.evaluation, should_stop=lambda: False):
        if isinstance(event, Outcome):
            gc.collect()
            assert event.kind == "out_of_memory" and sys.exception() is None
            assert held and held[0]() is None


@pytest.mark.full
def test_a_handler_that_tells_holds_it():  # the test above can fail
    def step():
        activation = torch.ones(3)
        held.append(weakref.ref(activation))
        raise torch.OutOfMemoryError(f"CUDA out of memory beside {activation.shape}")

    def telling():
        try:
            step()
        except torch.OutOfMemoryError:
            yield "out_of_memory"

    held = []
    for _ in telling():
        gc.collect()
        assert held[0]() is not None
