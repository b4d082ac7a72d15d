"""What a recipe adds to the cross-entropy: label smoothing and the z-loss, against float64, recorded apart."""

import numpy as np
import pytest
import torch
from objectives import next_token

from ablate.data.batch import Batch
from ablate.space.recipe import Loss
from ablate.train.events import Outcome, Row
from ablate.train.loop import train
from ablate.train.loss import added_by_recipe, cross_entropy, further_ahead
from ablate.train.microbatches import BatchShares, Passes

pytestmark = pytest.mark.fast

TERMS = Loss(label_smoothing=0.2, z=0.05)


def by_numpy(logits, targets):
    """Cross-entropy, that against smoothed targets, and the mean square of the normaliser, token by token."""
    logits, targets = logits.reshape(-1, logits.shape[-1]), targets.reshape(-1)
    plain, smooth, squares = [], [], []
    for scores, target in zip(logits, targets, strict=True):
        normaliser = np.log(np.exp(scores).sum())
        wanted = np.full(len(scores), 0.2 / len(scores))
        wanted[target] += 0.8
        plain.append(normaliser - scores[target])
        smooth.append(-(wanted * (scores - normaliser)).sum())
        squares.append(normaliser**2)
    return np.mean(plain), np.mean(smooth), np.mean(squares)


def test_the_terms():
    random = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(2, 5, 13, generator=random, dtype=torch.float64)
    targets = torch.randint(13, (2, 5), generator=random)
    plain, smooth, squares = by_numpy(logits.numpy(), targets.numpy())
    loss = cross_entropy(logits, targets)
    found = {name: term.item() for name, term in added_by_recipe(logits, loss, TERMS)}
    assert loss.item() == pytest.approx(plain, rel=1e-12)
    assert found == pytest.approx({"head.label_smoothing": smooth - plain, "head.z": 0.05 * squares}, rel=1e-12)
    half = dict(added_by_recipe(logits.bfloat16(), loss, TERMS))
    assert {term.dtype for term in half.values()} == {torch.float64, torch.float32}  # never in bfloat16
    assert list(added_by_recipe(logits, loss, Loss())) == []


def test_tokens_further_ahead():
    """By the definition, one token at a time; the last ones have nothing so far ahead."""
    random = torch.Generator().manual_seed(2)
    logits = 3 * torch.randn(2, 5, 13, generator=random, dtype=torch.float64)
    targets = torch.randint(13, (2, 5), generator=random)
    found = {name: term.item() for name, term in further_ahead(logits, targets, Loss(ahead=(0.5, 0, 0.25)))}
    wanted = {}
    for further, weight in ((1, 0.5), (3, 0.25)):
        nats = [
            np.log(np.exp(logits[b, t].numpy()).sum()) - logits[b, t, targets[b, t + further]].item()
            for b in range(2)
            for t in range(5 - further)
        ]
        wanted[f"head.ahead.{further + 1}"] = weight * np.mean(nats)
    assert found == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("parts", [2, 4])
def test_tokens_further_ahead_weigh_alike_in_parts(build, data, parts):
    objective = next_token(Loss(ahead=(0.5, 0.25)))
    gradients = []
    for number in (1, parts):
        model, cut = build(dtype=torch.float64), BatchShares(number)
        Passes(model, "float64", cut, objective).backward(cut.of(Batch(*data.at(0)), torch.device("cpu"), objective))
        gradients.append([parameter.grad for parameter in model.parameters()])
    for whole, divided in zip(*gradients, strict=True):
        torch.testing.assert_close(whole, divided, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_the_gradient_is_that_of_smoothed_targets_and_z(build, data, parts):
    model, (tokens, targets) = build(dtype=torch.float64), data.at(0)
    logits = model(tokens)
    smooth = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), label_smoothing=0.2)
    whole = smooth + 0.05 * logits.exp().sum(-1).log().square().mean()
    gradients = torch.autograd.grad(whole, list(model.parameters()))
    cut = BatchShares(parts)
    passes = Passes(model, "float64", cut, next_token(TERMS))
    found = passes.backward(cut.of(Batch(tokens, targets), torch.device("cpu"), passes.objective))
    assert found == pytest.approx(cross_entropy(model(tokens), targets).item(), rel=1e-12)
    assert found + sum(passes.added.values()) == pytest.approx(whole.item(), rel=1e-12)
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-9, atol=1e-13)


def run(model, trial, data):
    events = list(train(model, trial, data, data.evaluation, should_stop=lambda: False))
    assert events[-1] == Outcome("finished", 8)
    return {(e.metric, e.address, e.step): e.value for e in events if isinstance(e, Row)}


def test_rows(build, make_trial, data):
    plain = run(build(), make_trial(measure__probes=()), data)
    model = build()
    found = run(model, make_trial(measure__probes=(), recipe__loss=TERMS), data)
    added = {(address, step) for metric, address, step in found if metric == "added_loss"}
    assert added == {(f"head.{name}", step) for name in ("label_smoothing", "z") for step in (0, 3, 6, 7)}
    assert found["train_loss", "", 0] == plain["train_loss", "", 0]  # the cross-entropy, whatever is minimised
    assert found["eval_loss", "", 0] == plain["eval_loss", "", 0]
    assert found["eval_loss", "", 8] != plain["eval_loss", "", 8]  # which is something else
    with torch.no_grad():
        nats = cross_entropy(model.eval()(data.evaluation.inputs), data.evaluation.targets)
    assert found["eval_loss", "", 8] == pytest.approx(nats.item(), rel=1e-6)
    assert not any(metric == "added_loss" for metric, *_ in plain)
