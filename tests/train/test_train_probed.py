"""Probes that read in steps of training: they change no bit of it, in parts and after a pause too."""

import pytest
import torch

from ablate.data.batch import Examples
from ablate.probes.normality import straightness
from ablate.train.events import Checkpoint, Row
from ablate.train.loop import train
from ablate.train.microbatches import BatchShares

pytestmark = pytest.mark.fast

OF_STEPS = (
    "gradient_normality",
    "stream_gradient",
    "moment_update",
    "one_step_sensitivity",
    "token_cosine_in_training",
)


class Batches:
    def __init__(self, tokens):
        self.tokens, self.evaluation = tokens, Examples(*tokens.windows(4, 999), bytes=None)

    def at(self, step):
        return self.tokens.windows(6, step)


@pytest.fixture
def run(build, make_trial, data):
    def run(probes, parts=1, seed=0, resume=None, dropout=0.2, until=None):
        model, batches = build(seed=seed, dropout=dropout), Batches(data)
        trial = make_trial(recipe__batch=6, measure__every=2, measure__checkpoint_every=3, measure__probes=probes)
        cut = BatchShares(parts)
        events = train(
            model, trial, batches, batches.evaluation, resume=resume, should_stop=lambda: False, cut=cut, until=until
        )
        return list(events), model

    return run


def rows(events, of=None):
    return {(e.metric, e.address, e.step): e.value for e in events if isinstance(e, Row) and of in (None, e.metric)}


@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize("probe", OF_STEPS)
def test_training_is_the_same_bits_with_and_without_them(run, probe, parts):
    events, model = run((probe,), parts)
    plain_events, plain = run((), parts)
    assert len(rows(events)) > len(rows(plain_events))
    assert {key: rows(events)[key] for key in rows(plain_events)} == rows(plain_events)
    for (name, a), b in zip(model.state_dict().items(), plain.state_dict().values(), strict=True):
        assert torch.equal(a, b), name


@pytest.mark.parametrize("probe", OF_STEPS)
def test_they_go_on_with_the_same_bits(run, probe):
    events, _ = run((probe,), 4)
    kept = next(e for e in events if isinstance(e, Checkpoint))
    after, _ = run((probe,), 4, seed=1, resume=kept.state)
    assert rows(after) == {key: value for key, value in rows(events).items() if key[2] >= kept.step}


@pytest.mark.parametrize("parts", [1, 4])
def test_each_place_has_one_number_a_measured_step(run, parts):
    found = rows(run(("gradient_normality",), parts)[0], "gradient_normality")
    places = {"layers.1", "layers.2", "head"}
    assert set(found) == {("gradient_normality", place, step) for place in places for step in (0, 2, 4, 6, 7)}


def test_of_parts_it_is_the_mean_by_sequences(run, data, build):
    """Four parts of six sequences are of 2, 2, 1 and 1; written out at the first step, without dropout."""
    events, _ = run(("gradient_normality",), 4, dropout=0.0)
    model, (tokens, targets), means = build(), data.windows(6, 0), {}
    for first, last in ((0, 2), (2, 4), (4, 5), (5, 6)):
        kept = []
        hook = model.head.register_forward_pre_hook(lambda _, given, kept=kept: kept.append(given[0]))
        logits = model(tokens[first:last])
        hook.remove()
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets[first:last].flatten())
        (gradient,) = torch.autograd.grad(loss, kept)
        means[first] = straightness(gradient.double().flatten(0, 1)).item() * (last - first) / 6
    found = rows(events)["gradient_normality", "head", 0]
    assert found == pytest.approx(sum(means.values()), rel=1e-6)
    assert found != pytest.approx(3 * means[0], rel=1e-3), "else this could not fail"


def alike(x):
    """The mean cosine of two tokens of a sequence, pair by pair."""
    directions = x / x.norm(dim=-1, keepdim=True)
    cosines = torch.einsum("btd,bsd->bts", directions, directions)
    return cosines[:, *torch.triu_indices(x.shape[1], x.shape[1], 1)].mean().item()


def test_a_stream_in_training_is_that_of_the_batch_and_one_at_evaluations_is_not(run, data, build):
    probes = ("token_cosine", "token_cosine_in_training")
    events, _ = run(probes, 4, dropout=0.0)
    model, kept = build(), []
    hook = model.layers["2"].register_forward_pre_hook(lambda _, given: kept.append(given[0].detach().double()))
    for tokens in (data.windows(6, 0)[0], data.windows(4, 999)[0]):
        model(tokens)
    hook.remove()
    training, evaluation = (rows(events)[name, "layers.2", 0] for name in reversed(probes))
    assert training == pytest.approx(alike(kept[0]), rel=1e-6)
    assert evaluation == pytest.approx(alike(kept[1]), rel=1e-6)
    assert training != pytest.approx(evaluation, rel=1e-3)


def test_a_stream_in_training_has_what_dropout_leaves(run):
    """The stream in front of the second layer is behind a dropped MLP."""
    probes = ("token_cosine", "token_cosine_in_training")
    plain, dropped = (rows(run(probes, dropout=dropout)[0]) for dropout in (0.0, 0.9))
    first, second = ((name, f"layers.{layer}", 0) for layer, name in ((1, probes[1]), (2, probes[1])))
    assert plain[first] == dropped[first]
    assert plain[second] != pytest.approx(dropped[second], rel=1e-3)
    at_evaluation = (probes[0], "layers.2", 0)
    assert plain[at_evaluation] == dropped[at_evaluation]


@torch.no_grad()
def entering_head(model, tokens):
    kept = []
    hook = model.head.register_forward_pre_hook(lambda _, given: kept.append(given[0].double().flatten(0, 1).numpy()))
    model.eval()(tokens)
    hook.remove()
    return kept[0]


def test_an_update_is_that_of_the_step_on_its_own_tokens_without_dropout(run, data, build):
    events, model = run(("moment_update",), until=0)
    found = {name: value for (name, place, step), value in rows(events).items() if (place, step) == ("head", 0)}
    for tokens, same in ((data.windows(6, 0)[0], True), (data.windows(6, 1)[0], False)):
        x, after = entering_head(build(dropout=0.2), tokens), entering_head(model, tokens)
        before, then = (x**2).mean(0), (after**2).mean(0)
        for p, change in ((2, (then - before).mean()), (4, (then**2 - before**2).mean())):
            orders = sum(found[f"moment_update_{p}_{order}"] for order in range(1, p + 1))
            assert bool(orders == pytest.approx(change, rel=1e-4)) is same, "of other tokens it is another"
        quadratic = ((after - x) ** 2).mean()
        assert bool(found["moment_update_2_2"] == pytest.approx(quadratic, rel=1e-4)) is same
