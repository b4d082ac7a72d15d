"""Intervals of forecasts: sampled starts lie within them, and a start of something else does not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from reading import transformer
from test_theory_models import NORM, model

from ablate.block.sizes import Sizes
from ablate.errors import InputError
from ablate.execute.start import sampled_initialisation
from ablate.theory.initial_state import MISSED_GRADIENT, MISSED_MEAN_SQUARE, LayerScatter, spreads
from ablate.theory.models import forecast

CATALOGUE = transformer().catalogue
HALF_WIDTHS = 2
SIZES = Sizes(n_layers=3, d_model=100, n_heads=4, seq_len=4, vocab_size=256)


def beyond(block, width, drawn=None, seeds=(0, 1, 2)):
    """By how many half-widths sampled starts are away from the forecast, [starts, layers, quantities].

    Each start reads one sequence, whose repeated tokens the forecast knows. `drawn` is sampled in place of the block.
    """
    whole, other = (model(name, 4, length=16, width=width) for name in (block, drawn or block))
    away = []
    for seed in seeds:
        tokens = torch.from_numpy(np.random.default_rng(seed).integers(0, 20, (1, 16)))
        same = (tokens[0, :, None] == tokens[0]).double().numpy()
        expected = forecast(whole, CATALOGUE, same)
        start = sampled_initialisation(other, CATALOGUE, tokens, seed=seed)
        away.append([[abs(a) for a in _away(f, s)] for f, s in zip(expected.streams, start.streams, strict=True)])
    return np.array(away) / HALF_WIDTHS


def _away(stream, drawn):
    spread = stream.spread
    yield np.log(drawn.mean_square / stream.mean_square) / spread.mean_square
    yield (drawn.correlation - stream.correlation) / spread.correlation
    yield np.log(drawn.gradient / stream.gradient) / (spread.gradient or np.inf)


@pytest.mark.parametrize("block", ["pre_ln", "post_ln", "dslm_pre_ln", "sas", "skipless"])
def test_nearly_all_layers_of_sampled_starts_lie_within_the_interval(block):
    away = beyond(block, 256)
    assert (away < 1).mean() > 0.9
    assert away.max() < 2.5


def test_a_start_of_another_block_does_not():
    assert (beyond("pre_ln", 256, drawn="post_ln")[:, 1:, 0] > 1).all()


def test_narrow_models_have_wider_intervals_and_norms_end_what_adds_up():
    def sds(block, width, layers=6):
        streams = forecast(model(block, layers, length=16, width=width), CATALOGUE, 0.05).streams
        return np.array([[s.spread.mean_square, s.spread.correlation, s.spread.gradient] for s in streams])

    assert (sds("pre_ln", 64)[1:-1] > sds("pre_ln", 1024)[1:-1]).all()
    assert sds("post_ln", 64)[-1, 0] == pytest.approx(sds("post_ln", 64)[1, 0])


def test_variances_add_up_along_layers_that_follow_and_back_from_the_end():
    layers = {layer: LayerScatter(follows=1.0, variance=0.03, fresh=1.0) for layer in (1, 2, 3)}
    each = spreads(layers, {1: 0.1, 2: 0.2, 3: 0.3}, [0.5] * 4, 0.01, SIZES)
    assert np.diff([s.mean_square**2 for s in each]) == pytest.approx(0.03)
    assert each[0].mean_square ** 2 == pytest.approx(0.01 + MISSED_MEAN_SQUARE**2)
    assert [s.gradient**2 - MISSED_GRADIENT**2 for s in each] == pytest.approx([0.6, 0.5, 0.3, -(MISSED_GRADIENT**2)])


def test_a_gradient_varies_as_sizes_behind_it_do_where_layers_follow_more_or_less_than_in_proportion():
    layers = {1: LayerScatter(2.0, 0.03, 1.0), 2: LayerScatter(0.5, 0.02, 1.0), 3: LayerScatter(3.0, 0.01, 1.0)}
    each = spreads(layers, {1: 0.0, 2: 0.0, 3: 0.0}, [0.5] * 4, 0.1, SIZES)
    expected = [2**2 * 0.1 + 0.5**2 * 0.03 + 2**2 * 0.02, 0.5**2 * 0.43 + 2**2 * 0.02, 2**2 * (0.5**2 * 0.43 + 0.02)]
    assert [s.gradient**2 - MISSED_GRADIENT**2 for s in each[:-1]] == pytest.approx(expected)


def test_few_tokens_have_most_of_a_mean_where_they_differ_much():
    layers = {1: LayerScatter(1.0, 0.0, 1.0)}
    near, far = (spreads(layers, {1: 0.0}, [0.5] * 2, 0.05, SIZES, [apart] * 2)[0] for apart in (0.0, 3.0))
    assert near.mean_square**2 == pytest.approx(0.05 + MISSED_MEAN_SQUARE**2)  # one token, or all alike
    assert far.mean_square**2 == pytest.approx(np.log1p(0.05 * np.expm1(3.05) / 3.05) + MISSED_MEAN_SQUARE**2)


GATED = "[residual: {skip: 1, gain: 0.5, branch: [mlp: {activation: gelu, gate: {dense: {}}}]}]"


def test_what_width_makes_of_streams_that_feed_on_themselves_is_forecast():
    """A gated MLP without a norm squares its stream: large tokens grow, and leave the gradient of others behind."""
    narrow, wide = (
        forecast(model(GATED, 5, length=16, width=width), CATALOGUE, np.eye(16)).streams for width in (128, 2**20)
    )
    drawn = [
        sampled_initialisation(
            model(GATED, 5, length=16, width=128), CATALOGUE, torch.arange(64).reshape(4, 16), seed=k
        )
        for k in range(12)
    ]
    for layer in (3, 4):
        square, gradient = (
            np.mean([np.log(getattr(each.streams[layer], of)) for each in drawn]) for of in ("mean_square", "gradient")
        )
        assert np.log(narrow[layer].mean_square) == pytest.approx(square, abs=0.1)
        assert np.log(narrow[layer].gradient) == pytest.approx(gradient, abs=0.3)
        assert abs(np.log(wide[layer].gradient) - gradient) > 0.6  # in the limit


def test_layers_between_those_computed_have_an_interval_between_theirs():
    deep = forecast(model("pre_ln", 150, length=8, width=64), CATALOGUE, 0.05)
    assert len(deep.computed) < 151
    spreads = np.array([stream.spread.gradient for stream in deep.streams])
    assert (np.diff(spreads) <= 0).all()
    assert spreads[-1] == 0  # the gradient that others are compared with


def test_an_entry_norm_takes_what_drawing_the_embedding_makes():
    whole = model("pre_ln", 1, length=4, width=64)
    plain = forecast(whole, CATALOGUE, 0.0).streams[0].spread.mean_square
    normed = forecast(replace(whole, entry_norm=NORM), CATALOGUE, 0.0).streams[0].spread.mean_square
    assert plain**2 == pytest.approx(
        np.log1p(np.expm1(2 / 64) / 4) + MISSED_MEAN_SQUARE**2
    )  # of 4 tokens, each of U = 2/64
    assert normed == MISSED_MEAN_SQUARE


def test_streams_that_are_remembered_beside_it_leave_the_interval_of_a_stream_as_it_is():
    plain = forecast(model("pre_ln", 4, length=8, width=64), CATALOGUE, 0.05).streams
    beside = forecast(model("u_net", 4, length=8, width=64), CATALOGUE, 0.05).streams
    assert beside[1].spread.mean_square == pytest.approx(plain[1].spread.mean_square, rel=0.3)


def test_a_matrix_of_the_wrong_size_is_refused():
    with pytest.raises(InputError, match="a sequence has 4 tokens"):
        forecast(model("pre_ln", 1, length=4), CATALOGUE, np.eye(5))


def test_a_matrix_of_repetitions_says_which_tokens_are_the_same():
    whole = replace(model("pre_ln", 1, length=4), positions="none")
    first = np.eye(4)
    first[0, 3] = first[3, 0] = 1
    kernel = forecast(whole, CATALOGUE, first).streams[0].kernel
    assert kernel == pytest.approx(first)
    assert forecast(whole, CATALOGUE, first).repetition == pytest.approx(1 / 6)
