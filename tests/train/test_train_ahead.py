"""Training with blocks that predict tokens further ahead: it is finite, resumes, and sees their parts as any others."""

from __future__ import annotations

import math

import pytest
import torch
from builders import architecture, node
from objectives import next_token
from reading import transformer

from ablate.api import load_block
from ablate.block.sizes import Sizes
from ablate.compiler import compile_model
from ablate.data.batch import Batch
from ablate.execute.work import choose_kernels
from ablate.kernels import Attend
from ablate.space.recipe import Loss
from ablate.train.events import Checkpoint, Outcome, Row
from ablate.train.loop import train
from ablate.train.loss import parameter_type
from ablate.train.microbatches import BatchShares, Passes
from ablate.train.optimizer import parameter_kinds

VOCABULARY, WIDTH, TIME = 13, 8, 6  # of the data
TERMS = Loss(ahead=(0.5, 0.25))
BLOCKS = {
    "plain": "[residual: [rms_norm, attention: {position: rope}], residual: [rms_norm, mlp]]",
    "acting": "[residual: [rms_norm, attention: {entropy: {qk_clip: {tau: 0.01}}}], "
    "residual: [rms_norm, moe: {experts: 4, active: 2, balance: 0.01, bias_rate: 0.001}]]",
    "dropping": "[residual: [rms_norm, attention: {dropout: 0.2}], residual: [rms_norm, mlp]]",
    "reading": "[residual: [attention: {value: {where: {layers: first, use: dense, otherwise: "
    "{blend: {beside: {from: layers.first.attention.value}}}}}}], residual: [rms_norm, mlp]]",
}


def model(block="plain", seed=0, ahead=2, dtype=torch.float32):
    sizes = Sizes(n_layers=2, d_model=WIDTH, n_heads=2, seq_len=TIME, vocab_size=VOCABULARY)
    whole = architecture(
        load_block(BLOCKS[block]), sizes=sizes, init=node("normal", std=0.2), final_norm=node("rms_norm"), ahead=ahead
    )
    return compile_model(whole, transformer().catalogue, seed=seed, dtype=dtype)


def run(model, trial, data, *, resume=None, stop_at=None):
    asked = iter(range(10_000))
    return list(train(model, trial, data, data.evaluation, resume=resume, should_stop=lambda: next(asked) == stop_at))


def rows(events):
    return [event for event in events if isinstance(event, Row)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("block", BLOCKS)
def test_twenty_steps_are_finite(make_trial, data, block, dtype):
    trial = make_trial(measure__probes=(), recipe__steps=20, recipe__dtype=dtype, recipe__loss=TERMS)
    trained = model(block)
    start = {name: parameter.detach().clone() for name, parameter in trained.named_parameters()}
    events = run(trained, trial, data)
    assert events[-1] == Outcome("finished", 20)
    assert all(math.isfinite(row.value) for row in rows(events))
    moved = {name for name, value in trained.named_parameters() if not torch.equal(value, start[name])}
    assert {name for name in start if name.startswith("ahead.")} <= moved
    added = {row.address for row in rows(events) if row.metric == "added_loss"}
    assert {"head.ahead.2", "head.ahead.3"} <= added
    if block == "acting":
        assert {"layers.1.mlp.balance", "ahead.2.mlp.balance", "ahead.3.mlp.balance"} <= added
        acted = {row.address for row in rows(events) if row.metric == "after_step"}
        assert {"ahead.2.mlp.largest_load", "ahead.3.attention.entropy.qk_clip.largest_logit"} <= acted, acted


@pytest.mark.parametrize("block", BLOCKS)
def test_it_resumes_with_the_same_bits(make_trial, data, block):
    trial = make_trial(measure__probes=(), recipe__loss=TERMS)
    undisturbed = model(block)
    whole = run(undisturbed, trial, data)
    before = run(model(block), trial, data, stop_at=4)
    checkpoint = before[-2]
    assert isinstance(checkpoint, Checkpoint)
    other = model(block, seed=1)  # other parameters: all of them must come from the state
    torch.manual_seed(77)
    after = run(other, trial, data, resume=checkpoint.state)
    assert rows(before) + rows(after) == rows(whole)
    assert all(torch.equal(a, b) for a, b in zip(undisturbed.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize("parts", [2, 4])
def test_parts_of_a_batch_give_the_same_update(make_trial, data, parts):
    trial = make_trial(measure__probes=(), recipe__loss=TERMS, recipe__dtype="float64")
    models = [model(dtype=parameter_type("float64")) for _ in range(2)]
    for each, number in zip(models, (1, parts), strict=True):
        events = train(each, trial, data, data.evaluation, should_stop=lambda: False, cut=BatchShares(number))
        assert list(events)[-1] == Outcome("finished", 8)
    for whole, divided in zip(*(each.parameters() for each in models), strict=True):
        torch.testing.assert_close(whole, divided, rtol=1e-8, atol=1e-10)


@pytest.mark.fast
def test_a_loss_by_the_same_logits_is_another(data):
    """The twin: with the weights of a model that has no such blocks, the same trunk minimises something else."""
    added, losses = [], []
    for ahead in (0, 2):
        objective, cut = next_token(TERMS), BatchShares()
        passes = Passes(model(ahead=ahead, dtype=torch.float64), "float64", cut, objective)
        losses.append(passes.backward(cut.of(Batch(*data.at(0)), torch.device("cpu"), objective)))
        added.append(passes.added)
    assert losses[0] == losses[1]
    assert added[0].keys() == added[1].keys()
    assert all(abs(added[0][place] - added[1][place]) > 1e-3 for place in added[0])


@pytest.mark.fast
def test_the_first_evaluation_is_that_of_the_model_without_them(make_trial, data):
    trial = make_trial(recipe__loss=TERMS)
    first = [
        {(row.metric, row.address): row.value for row in rows(run(each, trial, data)) if row.step == 0}
        for each in (model(ahead=0), model(ahead=2))
    ]
    evaluated = {key: value for key, value in first[0].items() if key[0] not in ("added_loss", "gradient_norm")}
    assert ("eval_loss", "") in evaluated and ("attention_entropy", "layers.2.attention") in evaluated
    assert all(first[1][key] == value for key, value in evaluated.items())
    more = {address for metric, address in set(first[1]) - set(first[0]) if metric == "gradient_norm"}
    assert {"ahead.2.attention.query", "ahead.3.mlp.down"} <= more
    assert {metric for metric, _ in set(first[1]) - set(first[0])} == {"gradient_norm"}


@pytest.mark.fast
def test_their_parameters_are_of_the_kinds_that_those_of_layers_are():
    kinds = {address: kind for address, _, kind in parameter_kinds(model("acting"))}
    for address, kind in kinds.items():
        if address.startswith("ahead.2."):
            assert kind == kinds[address.replace("ahead.2.", "layers.2.")]


@pytest.mark.fast
def test_their_attention_is_chosen_as_that_of_layers(make_trial, data):
    trained = model()
    chosen = choose_kernels(trained, make_trial(), data.at(0)[0], BatchShares())
    assert {use.address for use in chosen.uses} == {"layers.*.attention", "ahead.*.attention"}
    kernels = [module.kernel for module in trained.modules() if isinstance(module, Attend)]
    assert len(kernels) == 4 and None not in kernels and len(set(kernels)) == 1


@pytest.mark.fast
def test_divergence_that_begins_in_one_names_it(make_trial, data):
    trained = model()
    with torch.no_grad():
        trained.ahead["3"].mlp.up.weight.fill_(math.inf)
    *_, outcome = run(trained, make_trial(measure__probes=(), recipe__loss=TERMS), data)
    assert (outcome.kind, outcome.detail["address"]) == ("diverged", "ahead.3.mlp.up")
    assert outcome.detail["layer"] is None
