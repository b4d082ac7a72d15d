"""Sensitivity: against models that are drawn and changed, and against what the paper says of depth."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from builders import architecture, node
from reading import transformer

from ablate.api import load_block
from ablate.block.sizes import Sizes
from ablate.compiler import compile_block, compile_model
from ablate.theory.diagnostics import model_sensitivity, stream_sensitivities
from ablate.theory.models import forecast

CATALOGUE = transformer().catalogue
LENGTH, WIDTH = 12, 192
NORM = node("layer_norm", bias=True, scale=True)
BLOCKS = ["pre_ln", "post_ln", "[residual: {skip: 0.8, gain: 0.6, branch: [rms_norm, attention]}, rms_norm, mlp]"]


def whole(name, layers, width=WIDTH):
    sizes = Sizes(n_layers=layers, d_model=width, n_heads=4, seq_len=LENGTH, vocab_size=64, causal=True)
    named = transformer().blocks.get(name)
    around = {"embedding_std": 1.0, "embedding_scale": 1.0, "init": node("normal", std="1/sqrt(width)")}
    return architecture(named.block if named else load_block(name), sizes=sizes, **around)


def drawn_layer(model, layer, seed):
    return compile_block(
        model.block, model.sizes, CATALOGUE, layer=layer, init=model.init, seed=seed, dtype=torch.float64
    )


@pytest.mark.parametrize("name", BLOCKS)
def test_a_change_of_the_stream_changes_the_output_by_as_much(name):
    model, change = whole(name, 4), 1e-3
    expected = stream_sensitivities(forecast(model, CATALOGUE, repetition=1 / 64))
    tokens = torch.from_numpy(np.random.default_rng(0).integers(0, 64, (24, LENGTH)))
    torch.manual_seed(0)
    drawn = compile_model(model, CATALOGUE, dtype=torch.float64)
    streams, shifted = [], {}

    def behind(layer):
        def hook(_, given):
            x = given[0]
            if shifted.get("at") == layer:
                x = x + change * x.square().mean().sqrt() * torch.randn_like(x)
            elif "at" not in shifted and layer == 0:
                streams.clear()
            return (x, *given[1:])

        return hook

    ends = []
    layers = list(drawn.layers.values())
    for place, part in enumerate(layers):
        part.register_forward_pre_hook(behind(place))
    layers[-1].register_forward_hook(lambda *given: ends.append(given[-1]))
    with torch.no_grad():
        drawn(tokens)
        for at in range(4):
            shifted["at"] = at
            drawn(tokens)
    found = [float((end - ends[0]).square().sum() / ends[0].square().sum()) / change**2 for end in ends[1:]]
    assert list(expected[:4]) == pytest.approx(found, rel=0.2)
    assert expected[4] == 1


@pytest.mark.parametrize("name", BLOCKS)
def test_weights_that_are_drawn_anew_change_the_stream_by_twice_the_share_that_they_write(name):
    model = whole(name, 3)
    known = forecast(model, CATALOGUE, repetition=0.1)
    for layer, share in enumerate(known.fresh, 1):
        kernel, found = known.streams[layer - 1].kernel, []
        x = torch.from_numpy(np.linalg.cholesky(kernel) @ np.random.default_rng(0).normal(size=(4, LENGTH, WIDTH)))
        with torch.no_grad():
            for seed in (0, 2):
                a, b = (drawn_layer(model, layer, seed + n)(x) for n in (0, 1))
                found.append(float((a - b).square().mean() / (a.square().mean() + b.square().mean())))
        assert share == pytest.approx(np.mean(found), abs=0.06)


def of_depth(name, layers):
    return model_sensitivity(forecast(whole(name, layers, width=64), CATALOGUE, repetition=0.05).fresh)


def test_how_sensitivity_goes_with_depth():
    """Kedia et al. 2024, Sec. 4.6: the median is O(1) for DeepScaleLM and Pre-LN, whose mean grows; DeepNet's falls."""
    shallow, deep = ({name: of_depth(name, n) for name in ("pre_ln", "dslm_post_ln", "ds_init")} for n in (12, 48))
    assert deep["dslm_post_ln"][0] == pytest.approx(shallow["dslm_post_ln"][0], rel=0.15)
    assert deep["pre_ln"][0] == pytest.approx(shallow["pre_ln"][0], rel=0.3)
    assert deep["pre_ln"][1] > 1.4 * shallow["pre_ln"][1]
    assert deep["ds_init"][0] < 0.6 * shallow["ds_init"][0]
