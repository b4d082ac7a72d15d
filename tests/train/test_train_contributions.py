"""Losses that parts add, and what they do after a step: weighed like the cross-entropy, recorded apart, and resumed."""

import copy
import dataclasses
import io
import pickle

import pytest
import torch
from builders import node
from objectives import next_token
from torch import nn

from ablate.block.expression import Sequence, Size
from ablate.compiler import compile_model
from ablate.components.declare import Kept
from ablate.components.registry import declarations
from ablate.data.batch import Batch
from ablate.train.definitions import definitions
from ablate.train.events import Checkpoint, Outcome, Row
from ablate.train.loop import train
from ablate.train.loss import cross_entropy, offering, parameter_type
from ablate.train.microbatches import BatchShares, Passes

WEIGHT = 0.3


class Penalised(nn.Module):
    """Stands between the layers of an MLP: a mean of squares as a loss, or its square, and a count of its steps."""

    def __init__(self, power=1):
        super().__init__()
        self.power, self.kept = power, Kept()
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.sequences = 0

    def forward(self, x):
        if self.training and torch.is_grad_enabled():
            self.kept.keep(x=x)
        return x

    def losses(self):
        kept = self.kept.take()
        if not kept:
            return {}
        self.sequences += len(kept["x"])
        return {"squares": WEIGHT * kept["x"].square().mean() ** self.power}

    def after_step(self, total):
        self.steps += 1
        seen, self.sequences = total(torch.tensor(self.sequences)), 0
        return {"sequences": seen, "half": 0.5}


@pytest.fixture
def penalised(build):
    def penalised(power=1, **how):
        model = build(**how)
        for block in model.layers.values():
            block.mlp.between = Penalised(power).to(next(model.parameters()).dtype)
        return model

    return penalised


def run(model, trial, data, *, resume=None, stop_at=None, parts=1):
    asked = iter(range(10_000))
    stop = lambda: next(asked) == stop_at  # noqa: E731
    cut = BatchShares(parts)
    return list(train(model, trial, data, data.evaluation, resume=resume, should_stop=stop, cut=cut))


def rows(events, *metrics):
    found = {(e.metric, e.address, e.step): e.value for e in events if isinstance(e, Row)}
    return {key: value for key, value in found.items() if not metrics or key[0] in metrics}


def expected(model, tokens, targets, power=1):
    """Cross-entropy and penalties, by hooks on the outputs of the layers before them."""
    seen = {}
    hooks = [
        block.mlp.up.register_forward_hook(lambda m, i, y, name=name: seen.update({name: y}))
        for name, block in model.layers.items()
    ]
    loss = cross_entropy(model(tokens), targets)
    for hook in hooks:
        hook.remove()
    return loss, {f"layers.{n}.mlp.between.squares": WEIGHT * y.square().mean() ** power for n, y in seen.items()}


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_the_gradient_is_that_of_the_sum_and_the_loss_is_the_cross_entropy(penalised, data, parts):
    model, tokens = penalised(dtype=torch.float64), data.at(0)
    loss, others = expected(model, *tokens)
    gradients = torch.autograd.grad(loss + sum(others.values()), list(model.parameters()))
    cut = BatchShares(parts)
    passes = Passes(model, "float64", cut, next_token())
    found = passes.backward(cut.of(Batch(*tokens), torch.device("cpu"), passes.objective))
    assert found == pytest.approx(loss.item(), rel=1e-12)
    assert passes.added == pytest.approx({name: other.item() for name, other in others.items()}, rel=1e-12)
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-9, atol=1e-13)
    apart = torch.autograd.grad(cross_entropy(model(tokens[0]), tokens[1]), model.layers["1"].mlp.up.weight)[0]
    assert (apart - model.layers["1"].mlp.up.weight.grad).abs().max() > 1e-3  # without the penalty it is another


def test_a_loss_that_is_not_linear_in_tokens_is_the_mean_of_those_of_the_parts(penalised, data):
    model, (tokens, targets) = penalised(power=2, dtype=torch.float64), data.at(0)
    cut = BatchShares(2)
    passes = Passes(model, "float64", cut, next_token())
    passes.backward(cut.of(Batch(tokens, targets), torch.device("cpu"), passes.objective))
    of_parts = [expected(model, tokens[half], targets[half], 2)[1] for half in (slice(0, 2), slice(2, 4))]
    whole = expected(model, tokens, targets, 2)[1]
    for name, value in passes.added.items():
        assert value == pytest.approx(sum(part[name].item() for part in of_parts) / 2, rel=1e-12)
        assert value != pytest.approx(whole[name].item(), rel=1e-6)


def test_a_model_without_such_parts_has_the_same_bits_as_ever(build, data):
    model, (tokens, targets) = build(), data.at(0)
    assert offering(model) == ()
    loss = cross_entropy(model(tokens), targets)
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    passes = Passes(model, "float32", BatchShares(), next_token())
    parts = BatchShares().of(Batch(tokens, targets), torch.device("cpu"), passes.objective)
    assert passes.backward(parts) == loss.item()
    assert all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), gradients, strict=True))


def test_rows(penalised, make_trial, data):
    """Added losses and readings in measured steps, at the parts; the losses of training and evaluation stay pure."""
    model, before = penalised(), penalised()
    events = run(model, make_trial(measure__probes=()), data)
    assert events[-1] == Outcome("finished", 8)
    found = rows(events)
    assert {step for metric, _, step in found if metric == "added_loss"} == {0, 3, 6, 7}
    loss, others = expected(before, *data.at(0))
    assert found["train_loss", "", 0] == pytest.approx(loss.item(), rel=1e-6)
    for name, other in others.items():
        assert found["added_loss", name, 0] == pytest.approx(other.item(), rel=1e-6)
    for layer in (1, 2):
        assert found["after_step", f"layers.{layer}.mlp.between.sequences", 3] == 4
        assert found["after_step", f"layers.{layer}.mlp.between.half", 7] == 0.5
        assert model.layers[str(layer)].mlp.between.steps == 8
    with torch.no_grad():
        nats = cross_entropy(model.eval()(data.evaluation.inputs), data.evaluation.targets)
    assert found["eval_loss", "", 8] == pytest.approx(nats.item(), rel=1e-6)
    assert {metric for metric, *_ in found} <= {definition.metric for definition in definitions()}


def test_evaluation_and_probes_leave_nothing_behind_and_a_trained_model_is_copied(penalised, make_trial, data):
    model = penalised()
    run(model, make_trial(), data)
    assert all(part.kept.take() == {} for _, part in offering(model))
    model.train()(data.at(0)[0])  # a pass of which nothing was collected: its graph is in no copy
    assert all(pickle.loads(pickle.dumps(part.kept)).take() == {} for _, part in offering(model))
    assert all(part.kept.take() == {} for _, part in offering(copy.deepcopy(model)))
    assert all(part.kept.take() != {} for _, part in offering(model))
    held = penalised()
    held.layers["1"].mlp.between.found = held(data.at(0)[0])  # a plain tensor instead: this is what would go wrong
    with pytest.raises(RuntimeError, match="deepcopy"):
        copy.deepcopy(held)


@pytest.mark.parametrize("loss", [torch.ones(2), 0.5])
def test_a_loss_is_one_number(penalised, make_trial, data, loss):
    model = penalised()
    model.layers["2"].mlp.between.losses = lambda: {"wrong": loss}
    with pytest.raises(ValueError, match=r"the loss 'wrong' of layers\.2\.mlp\.between is .*: give a tensor"):
        run(model, make_trial(), data)


def test_an_added_loss_that_is_not_finite_is_divergence(penalised, make_trial, data):
    model = penalised()
    model.layers["2"].mlp.between.losses = lambda: {"endless": torch.tensor(float("inf"))}
    outcome = run(model, make_trial(), data)[-1]
    assert outcome.kind == "diverged"
    assert "added_loss layers.2.mlp.between.endless is inf" in outcome.detail["cause"]


@pytest.fixture
def mixture(make_trial):
    """A block with a mixture of experts whose bias is moved after each step, and both of its losses."""
    dense, norm = node("dense", bias=False), node("layer_norm", bias=True)
    weights = dict.fromkeys(("query", "key", "value", "projection"), dense)
    experts = node("moe", experts=4.0, active=2.0, hidden=Size(units=8), bias_rate=0.05)
    attention = node("attention", **weights)
    block = Sequence(tuple(node("residual", branch=Sequence((norm, part))) for part in (attention, experts)))
    init = node("normal", std=0.2)
    architecture = dataclasses.replace(make_trial().work.architecture, block=block, final_norm=norm, init=init)

    def mixture(dtype="float32", seed=0):
        return compile_model(architecture, declarations(), seed=seed, dtype=parameter_type(dtype))

    return mixture


def state(event):
    return torch.load(io.BytesIO(event.state), weights_only=True)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_mixture_resumes_to_the_same_bits(mixture, make_trial, data, dtype):
    trial = make_trial(recipe__dtype=dtype)
    undisturbed = mixture()
    whole = run(undisturbed, trial, data)
    assert whole[-1] == Outcome("finished", 8)
    names = {address for metric, address, _ in rows(whole) if metric in ("added_loss", "after_step")}
    assert names == {
        f"layers.{n}.mlp.{name}" for n in (1, 2) for name in ("balance", "z", "largest_load", "smallest_load")
    }
    before = run(mixture(), trial, data, stop_at=5)
    model = mixture(seed=1)
    after = run(model, trial, data, resume=before[-2].state)
    assert rows(before) | rows(after) == rows(whole)
    for (name, a), b in zip(undisturbed.state_dict().items(), model.state_dict().values(), strict=True):
        assert torch.equal(a, b), name
    assert undisturbed.layers["1"].mlp.bias.abs().max() > 0.04


def test_without_its_bias_it_does_not(mixture, make_trial, data):  # the test above can fail
    whole = run(mixture(), make_trial(), data)
    saved = state(run(mixture(), make_trial(), data, stop_at=5)[-2])
    for name in [name for name in saved["model"] if name.endswith("mlp.bias")]:
        saved["model"][name].zero_()
    buffer = io.BytesIO()
    torch.save(saved, buffer)
    after = rows(run(mixture(), make_trial(), data, resume=buffer.getvalue()))
    assert after != {key: value for key, value in rows(whole).items() if key in after}


@pytest.mark.parametrize("parts", [2, 4])
def test_a_mixture_in_parts_counts_the_load_of_the_whole_batch(mixture, make_trial, data, parts):
    """The bias follows whole numbers, so it is the same to the bit; the rest, but for the balance, up to rounding."""
    trial = make_trial(recipe__dtype="float64", measure__probes=())
    models, found = [], []
    for of in (1, parts):
        models.append(mixture("float64"))
        for layer in models[-1].layers.values():
            layer.mlp.balance = 0.0  # which is not linear in the tokens
        found.append(rows(run(models[-1], trial, data, parts=of)))
    assert found[1] == pytest.approx(found[0], rel=1e-8)
    for a, b in zip(*(model.layers.values() for model in models), strict=True):
        assert torch.equal(a.mlp.bias, b.mlp.bias)
        assert a.mlp.bias.any()


def test_a_checkpoint_has_the_bias(mixture, make_trial, data):
    events = run(mixture(), make_trial(), data)
    saved = [state(event)["model"] for event in events if isinstance(event, Checkpoint)]
    assert any(saved[0]["layers.1.mlp.bias"])


@pytest.fixture
def clipped(make_trial):
    """Attention whose weights of queries and keys are scaled after each step: its logits start far above τ."""
    dense = node("dense", bias=False)
    weights = dict.fromkeys(("query", "key", "value", "projection"), dense)

    def clipped(dtype="float32", seed=0, tau=1.0):
        attention = node("attention", entropy=(node("qk_clip", tau=tau, alpha=0.5),), **weights)
        block = Sequence((node("residual", branch=Sequence((node("layer_norm", bias=True), attention))),))
        init, norm = node("normal", std=0.7), node("layer_norm", bias=True)
        architecture = dataclasses.replace(make_trial().work.architecture, block=block, final_norm=norm, init=init)
        return compile_model(architecture, declarations(), seed=seed, dtype=parameter_type(dtype))

    return clipped


def test_clipping_resumes_to_the_same_bits(clipped, make_trial, data):
    undisturbed = clipped()
    whole = run(undisturbed, make_trial(), data)
    assert whole[-1] == Outcome("finished", 8)
    logits = {
        step: value
        for (_, address, step), value in rows(whole, "after_step").items()
        if address == "layers.1.attention.entropy.qk_clip.largest_logit"
    }
    assert logits[0] > 2 and max(logits[step] for step in logits if step > 0) < 0.7 * logits[0]
    free = rows(run(clipped(tau=1e3), make_trial(), data), "after_step")
    assert min(v for (_, address, _), v in free.items() if address.endswith("largest_logit")) > 1.5
    assert {value for (_, address, _), value in free.items() if address.endswith("clipped_heads")} == {0}
    before = run(clipped(), make_trial(), data, stop_at=5)
    model = clipped(seed=1)
    after = run(model, make_trial(), data, resume=before[-2].state)
    assert rows(before) | rows(after) == rows(whole)
    for (name, a), b in zip(undisturbed.state_dict().items(), model.state_dict().values(), strict=True):
        assert torch.equal(a, b), name


def test_clipping_takes_the_largest_of_the_parts_of_a_batch(clipped, make_trial, data):
    trial = make_trial(recipe__dtype="float64", measure__probes=())
    models = [clipped("float64") for _ in range(2)]
    found = [rows(run(model, trial, data, parts=parts)) for model, parts in zip(models, (1, 4), strict=True)]
    assert found[1] == pytest.approx(found[0], rel=1e-8)
    for a, b in zip(*(model.parameters() for model in models), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-10)
