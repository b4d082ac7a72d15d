"""What a trial yields, when, and that the numbers are those of their definitions."""

import numpy as np
import pytest
import torch
from torch import nn

from ablate.errors import InputError
from ablate.probes.registry import probe_names
from ablate.space.metrics import OF_AVERAGE
from ablate.train.definitions import LOSS_SCALE, SKIPPED, definitions
from ablate.train.events import Checkpoint, Outcome, Row, Timing
from ablate.train.loop import train


def run(model, trial, data, *, should_stop=lambda: False, resume=None):
    return list(train(model, trial, data, data.evaluation, resume=resume, should_stop=should_stop))


def rows(events, metric, address=""):
    return {e.step: e.value for e in events if isinstance(e, Row) and (e.metric, e.address) == (metric, address)}


def nats(model, tokens, targets):
    """Mean token cross-entropy in NumPy float64 from the model's logits."""
    with torch.no_grad():
        logits = model(tokens).double().numpy()
    shifted = logits - logits.max(-1, keepdims=True)
    log_softmax = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return -np.mean(np.take_along_axis(log_softmax, targets.numpy()[..., None], -1))


def test_rows_come_at_their_steps(build, make_trial, data):
    events = run(build(), make_trial(), data)
    assert list(rows(events, "train_loss")) == [0, 3, 6, 7]  # every third, and the last
    assert list(rows(events, "gradient_norm")) == [0, 3, 6, 7]
    assert list(rows(events, "learning_rate")) == [0, 3, 6, 7]
    assert list(rows(events, "gain", "layers.1.attention_gain")) == [0, 3, 6, 7]
    assert list(rows(events, "gradient_norm", "layers.1.mlp.up")) == [0, 3, 6, 7]  # a probe that needs gradients
    assert list(rows(events, "eval_loss")) == [0, 4, 8]  # every fourth, and after the last
    assert list(rows(events, "kurtosis", "layers.2")) == [0, 4, 8]  # and the probes of activations with it
    assert list(rows(events, "attention_entropy", "layers.2.attention")) == [0, 4, 8]
    assert [e.step for e in events if isinstance(e, Checkpoint)] == [3, 6]
    whole = run(build(), make_trial(measure__checkpoint_every=4), data)
    assert [e.step for e in whole if isinstance(e, Checkpoint)] == [4]  # none at the end, where the outcome stands
    assert events[-1] == Outcome("finished", 8)
    assert sum(isinstance(e, Outcome) for e in events) == 1


def test_no_two_rows_share_a_key_and_every_metric_is_defined(build, make_trial, data):
    found = [e for e in run(build(), make_trial(measure__probes=probe_names()), data) if isinstance(e, Row)]
    assert len({(row.step, row.metric, row.address) for row in found}) == len(found)
    of_heads = {"gain_of_head", "gain_ratio"}  # this model has no gain a head, and no skip beside a gain
    of_text = {"eval_bits_per_byte"}  # and its tokens stand for no text
    of_parts = {"added_loss", "after_step"}  # and none of its parts adds to its training
    of_others = {"eval_accuracy"}  # and other objectives than the next token measure it
    asked_for = {"train_loss_ema", *OF_AVERAGE, LOSS_SCALE, SKIPPED}  # and fields of its space do not ask for more
    known = {definition.metric for definition in definitions()}
    assert {row.metric for row in found} == known - of_heads - of_text - of_parts - of_others - asked_for
    assert len({definition.metric for definition in definitions()}) == len(definitions())


def test_losses_are_mean_token_cross_entropies(build, make_trial, data):
    model = build()
    before = nats(model, *data.at(0)), nats(model, *data.evaluation[:2])
    events = run(model, make_trial(), data)
    assert rows(events, "train_loss")[0] == pytest.approx(before[0], rel=1e-6)
    assert rows(events, "eval_loss")[0] == pytest.approx(before[1], rel=1e-6)
    assert rows(events, "eval_loss")[8] == pytest.approx(nats(model, *data.evaluation[:2]), rel=1e-6)
    assert before[0] != pytest.approx(before[1], rel=1e-3)


def test_evaluation_does_not_depend_on_how_it_is_cut(build, make_trial, data):
    cut = rows(run(build(dtype=torch.float64), make_trial(recipe__dtype="float64"), data), "eval_loss")
    whole = make_trial(recipe__dtype="float64", recipe__batch=100)
    assert rows(run(build(dtype=torch.float64), whole, data), "eval_loss") == pytest.approx(cut, rel=1e-13)


def test_training_learns(build, make_trial, data):
    loss = rows(run(build(), make_trial(recipe__steps=150, measure__probes=()), data), "eval_loss")
    assert loss[150] < 0.5 * loss[0]


@pytest.mark.full
def test_training_learns_in_bfloat16_too(build, make_trial, data):
    model = build()
    trial = make_trial(recipe__steps=150, recipe__dtype="bfloat16", measure__probes=("kurtosis",))
    loss = rows(run(model, trial, data), "eval_loss")
    assert loss[150] < 0.5 * loss[0]
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert loss != rows(run(build(), make_trial(recipe__steps=150, measure__probes=()), data), "eval_loss")


def test_rates_are_those_of_the_schedule(build, make_trial, data):
    trial = make_trial(measure__every=1, recipe__optimizer__adamw__embedding_lr=1e-3)
    events = run(build(), trial, data)
    share = [1 / 2, 1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6, 0]  # two steps of warm-up, then down to 0 at the last
    assert list(rows(events, "learning_rate").values()) == pytest.approx([1e-2 * s for s in share])
    assert list(rows(events, "learning_rate", "embedding").values()) == pytest.approx([1e-3 * s for s in share])


def test_the_gradient_norm_is_of_before_clipping_and_clipping_has_an_effect(build, make_trial, data):
    free, clipped = build(), build()
    free_rows = rows(run(free, make_trial(recipe__clip=None), data), "gradient_norm")
    clipped_events = run(clipped, make_trial(recipe__clip=1e-9), data)
    assert rows(clipped_events, "gradient_norm")[0] == free_rows[0] > 1e-3
    parts = [e.value for e in clipped_events if isinstance(e, Row) and (e.metric, e.step) == ("gradient_norm", 0)]
    assert np.sqrt(np.sum(np.square(parts))) == pytest.approx(np.sqrt(2) * free_rows[0], rel=1e-6)  # parts and total
    assert not torch.equal(free.head.weight, clipped.head.weight)


def test_the_same_trial_gives_the_same_bits_whatever_was_drawn_before(build, make_trial, data):
    first, second = build(dropout=0.3), build(dropout=0.3)
    torch.manual_seed(5)
    once = run(first, make_trial(), data)
    torch.manual_seed(6)
    twice = run(second, make_trial(), data)
    assert [e for e in once if isinstance(e, Row)] == [e for e in twice if isinstance(e, Row)]
    other = run(build(dropout=0.3), make_trial(seed=1), data)  # the stream of dropout is the seed's
    assert rows(other, "train_loss") != rows(once, "train_loss")


def test_probes_change_no_bit(build, make_trial, data):
    watched, plain = build(dropout=0.3), build(dropout=0.3)
    with_probes = run(watched, make_trial(measure__every=1, measure__probes=probe_names()), data)
    without = run(plain, make_trial(measure__every=8, measure__probes=()), data)
    for (name, a), b in zip(watched.named_parameters(), plain.parameters(), strict=True):
        assert torch.equal(a, b), name
    assert rows(with_probes, "eval_loss") == rows(without, "eval_loss")
    assert len(with_probes) > len(without)


class CountsHooks(nn.Module):
    """Stands before a block and notes how many hooks the block has when it is called."""

    def __init__(self, block):
        super().__init__()
        self.block, self.seen = block, []

    def forward(self, x):
        self.seen.append((self.training, len(self._forward_pre_hooks)))
        return self.block(x)


def test_hooks_hang_only_while_evaluating(build, make_trial, data):
    model = build()
    model.layers["2"] = CountsHooks(model.layers["2"])
    run(model, make_trial(), data)
    three_batches, four_steps = [(False, 1)] * 3, [(True, 0)] * 4
    assert model.layers["2"].seen == [*three_batches, *four_steps] * 2 + three_batches
    assert sum(len(m._forward_pre_hooks) + len(m._forward_hooks) for m in model.modules()) == 0


def test_timings_are_of_the_clock_and_never_rows(build, make_trial, data):
    timings = [e for e in run(build(), make_trial(), data) if isinstance(e, Timing)]
    assert {t.name for t in timings} == {"step_seconds", "tokens_per_second", "evaluation_seconds"}
    assert all(t.seconds > 0 for t in timings)


def test_an_unknown_probe_is_refused(build, make_trial, data):
    with pytest.raises(InputError, match="unknown probe 'kurt'"):
        run(build(), make_trial(measure__probes=("kurt",)), data)
