"""Whole models before a step: against models that are drawn, and against what the papers say of depth."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from builders import architecture, node
from reading import transformer
from scipy.stats import linregress

from ablate.api import load_block
from ablate.block.sizes import Sizes
from ablate.compiler import compile_model
from ablate.errors import InputError
from ablate.theory.initial_state import mean_cosine
from ablate.theory.models import forecast, pairs_of_segments
from ablate.theory.through_layers import FEWEST

CATALOGUE = transformer().catalogue
NORM = node("layer_norm", bias=True, scale=True)
WIDE = {"embedding_std": 1.0, "embedding_scale": 1.0, "init": node("normal", std="1/sqrt(width)"), "final_norm": NORM}


def model(block, layers, *, length=16, width=256, causal=True, **changes):
    sizes = Sizes(
        n_layers=layers, d_model=width, n_heads=4, seq_len=length, vocab_size=256, causal=causal, repetition=0.02
    )
    named = transformer().blocks.get(block)
    return architecture(named.block if named else load_block(block), sizes=sizes, **{**WIDE, **changes})


@pytest.mark.parametrize(
    "around",
    [
        {},
        {"positions": "learned", "position_std": 0.5},
        {"positions": "sinusoidal"},
        {"tied": True, "logit_scale": 0.1},
    ],
    ids=["plain", "learned positions", "sinusoidal positions", "a tied head"],
)
def test_a_drawn_decoder(around):
    around = {**around, "entry_norm": NORM, "embedding_dropout": 0.1}
    whole = model("pre_ln", 3, **around)
    tokens = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (24, 16)))
    torch.manual_seed(0)
    drawn = compile_model(whole, CATALOGUE, dtype=torch.float64).train()
    streams = []
    for layer in drawn.layers.values():
        layer.register_forward_pre_hook(lambda _, x: streams.append(x[0]))
    logits = drawn(tokens)
    gradients = torch.autograd.grad(logits, streams, torch.randn_like(logits))
    logits, streams = logits.detach(), [x.detach() for x in streams]
    found = forecast(whole, CATALOGUE, repetition=1 / 256)
    reference = gradients[-1].square().mean() / found.streams[2].gradient
    for stream, x, g in zip(found.streams, streams, gradients, strict=False):
        kernel = torch.einsum("btd,bsd->ts", x, x).detach().numpy()
        assert stream.mean_square == pytest.approx(float(x.square().mean()), rel=0.05)
        assert stream.correlation == pytest.approx(mean_cosine(kernel), abs=0.02)
        assert stream.gradient == pytest.approx(float(g.square().mean() / reference), rel=0.15)
    assert found.logits == pytest.approx(float(logits.square().mean()), rel=0.1)


def apart(block):
    """1 minus the mean cosine of two tokens behind 48 layers: how far the tokens still are apart."""
    return 1 - forecast(model(block, 48, length=24), CATALOGUE, repetition=0.05).streams[-1].correlation


def test_rank_collapses_without_skips_and_behind_post_ln_and_what_keeps_it():
    """He et al. 2023, arXiv:2302.10322, Fig. 1 and 7: vanilla and Post-LN collapse, SPA and Pre-LN do not."""
    assert apart("skipless") < 1e-6
    assert apart("post_ln") < 1e-3
    assert apart("pre_ln") > 0.3
    assert apart("u_spa") > 0.3
    assert apart("e_spa") > 0.1


DROPPED = """[residual: [attention: {dropout: 0.1}, dropout: 0.1], layer_norm,
    residual: [mlp: {activation: relu}, dropout: 0.1], layer_norm]"""
XAVIER = node("xavier", gain="1", distribution="normal", per_head=True)


PAPERS = pytest.param(192, marks=pytest.mark.full)
"""The layers of the models in Fig. 1 to 4 of arXiv:2403.09635."""


@pytest.mark.parametrize("layers", [32, PAPERS])
def test_pre_ln_grows_linearly_and_its_gradient_falls_as_a_hyperbola(layers):
    """Kedia et al. 2024, arXiv:2403.09635, Fig. 1 and 2, and Table 3: variances grow as l, gradients fall as 1/l."""
    streams = forecast(model("pre_ln", layers), CATALOGUE, repetition=0.05).streams
    depths = np.arange(layers + 1)
    assert linregress(depths, [stream.mean_square for stream in streams]).rvalue ** 2 > 0.99
    law = linregress(np.log(depths[2:] + 1), np.log([stream.gradient for stream in streams[2:]]))
    assert -1.3 < law.slope < -0.7
    assert law.rvalue**2 > 0.97


@pytest.mark.parametrize("layers", [48, PAPERS])
def test_the_gradient_of_post_ln_with_dropout_vanishes_exponentially(layers):
    """Fig. 3 there, of a bidirectional model: tokens come to a fixed correlation below 1, from where on every layer
    takes the same share of the gradient."""
    streams = forecast(model(DROPPED, layers, length=32, causal=False, init=XAVIER), CATALOGUE, repetition=0.05).streams
    logs = np.log([stream.gradient for stream in streams])
    shares = np.diff(logs)[8 : layers - 8]
    assert shares == pytest.approx(np.diff(logs)[24], rel=0.02 if layers < FEWEST else 0.05)  # strides are rougher
    assert linregress(np.arange(8, layers - 8), logs[8 : layers - 8]).rvalue ** 2 > 0.9999
    assert np.diff(logs)[24] > 0.05
    assert 0.7 < streams[24].correlation < 0.95
    assert streams[24].correlation == pytest.approx(streams[40].correlation, abs=1e-3)


@pytest.mark.parametrize("layers", [32, PAPERS])
def test_deep_scale_keeps_both_flat(layers):
    """Fig. 4 there: DeepScaleLM keeps variances and gradients of its own scale, which Pre-LN does not."""
    flat, pre = (forecast(model(name, layers), CATALOGUE, repetition=0.05) for name in ("dslm_pre_ln", "pre_ln"))
    assert 0.5 < flat.growth < 2
    assert 0.3 < flat.gradient_ratio < 3
    assert pre.growth > 10
    assert pre.gradient_ratio > 5


def test_a_kind_that_is_not_forecast_is_refused():
    with pytest.raises(InputError, match="is not forecast"):
        forecast(model("pre_ln", 2, kind="retriever"), CATALOGUE)


def test_segments_of_pairs_are_those_of_sequences_that_are_split_anywhere():
    """The exact mean over splits, and Kedia et al.'s 2/3 (arXiv:2403.09635, App. A.1) for long sequences."""
    length = 12
    splits = [np.arange(length) >= split for split in range(length)]
    assert pairs_of_segments(length) == pytest.approx(np.mean([a[:, None] == a for a in splits], axis=0))
    assert mean_cosine(pairs_of_segments(900)) == pytest.approx(2 / 3, abs=1e-3)
    around = {"kind": "encoder", "causal": False, "segments": 2}
    pairs, plain = (forecast(model("pre_ln", 1, **around, classes=n), CATALOGUE, repetition=0.0) for n in (2, 0))
    assert pairs.streams[0].correlation == pytest.approx(mean_cosine(pairs_of_segments(16)) / 2)
    assert plain.streams[0].correlation == pytest.approx(1 / 2)


@pytest.mark.parametrize(("init", "named"), [("zero", ()), ("{normal: 1}", ("t5",))])
def test_a_component_is_named_as_sampled_where_its_numbers_are_drawn_alone(init, named):
    block = f"[residual: [layer_norm, attention: {{bias: {{t5: {{init: {init}}}}}}}]]"
    assert forecast(model(block, 1, length=4), CATALOGUE, 0.1).sampled == named
