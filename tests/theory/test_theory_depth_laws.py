"""Laws of depth: fits of known curves, and the growth laws of initialisations."""

from __future__ import annotations

import numpy as np
import pytest
from builders import architecture, node
from reading import transformer

from ablate.block.sizes import Sizes
from ablate.theory.diagnostics import FLAT, depth_law
from ablate.theory.models import forecast

LAYERS = np.arange(49)


@pytest.mark.fast
@pytest.mark.parametrize("shift", [0.1, 1.0, 7.0])
@pytest.mark.parametrize("exponent", [1.0, -1.0, 2.5, 0.5])
def test_powers_are_found_with_their_exponent(exponent, shift):
    law = depth_law(LAYERS, 3.0 * (LAYERS + shift) ** exponent)
    assert law.kind == "power"
    assert law.exponent == pytest.approx(exponent, rel=0.01) and law.shift == pytest.approx(shift, rel=0.05)
    assert law.r2 > 0.9999


@pytest.mark.fast
@pytest.mark.parametrize("rate", [0.02, -0.077, 0.3])
def test_exponentials_are_found_with_their_rate(rate):
    law = depth_law(LAYERS, 0.2 * np.exp(rate * LAYERS))
    assert (law.kind, law.shift) == ("exponential", 0.0)
    assert law.exponent == pytest.approx(rate) and law.r2 == pytest.approx(1)


@pytest.mark.fast
def test_what_hardly_varies_is_flat_and_what_is_no_law_has_none():
    assert depth_law(LAYERS, np.linspace(1, 0.99 * FLAT, 49)).kind == "flat"
    assert depth_law(LAYERS, np.linspace(1, 1.01 * FLAT, 49)).kind != "flat"
    assert depth_law(range(3), [1, 2, 3]) is None
    assert depth_law(range(4), [1, 2, 0, 3]) is None
    assert depth_law(range(4), [1, 2, np.inf, 3]) is None


@pytest.mark.fast
def test_what_follows_neither_curve_is_said_to_follow_none():
    law = depth_law(LAYERS, 2 + np.sin(LAYERS))
    assert (law.kind, law.exponent) == ("neither", 0.0) and law.r2 < 0.5


@pytest.mark.fast
def test_depths_above_0_need_no_shift():
    law = depth_law([12, 24, 48, 96], [6.0, 12.0, 24.0, 48.0])
    assert (law.kind, law.shift) == ("power", 0.0) and law.exponent == pytest.approx(1)


DEPTHS = (12, 24, 48, 96)
GROWTH = {
    "pre_ln": ("power", "power"),
    "ds_init": ("flat", "flat"),
    "layer_scale": ("flat", "flat"),
    "deepnorm": ("flat", "flat"),
    "dslm_post_ln": ("flat", "flat"),
    "dslm_pre_ln": ("flat", "flat"),
    "skipinit": ("flat", "flat"),
    "rezero": ("flat", "flat"),
    "noci": ("flat", "flat"),
    "bamboo": ("power", "power"),
}
"""How the growth of the stream and the ratio of gradients go with the number of layers."""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", GROWTH)
def test_methods_grow_with_the_number_of_layers_as_published(name):
    """Kedia et al. 2024, arXiv:2403.09635, Table 3: O(N) of Pre-LN, O(1) of DS-Init, LayerScale, DeepNet and DSLM."""
    models = [forecast(of_depth(name, depth), transformer().catalogue, repetition=0.05) for depth in DEPTHS]
    laws = [
        depth_law(DEPTHS, [getattr(model, quantity) for model in models]) for quantity in ("growth", "gradient_ratio")
    ]
    assert tuple(law.kind for law in laws) == GROWTH[name]
    for law in laws:
        assert law.kind == "flat" or law.exponent == pytest.approx(1, abs=0.1), law


def test_the_gradient_of_post_ln_is_an_exponential_of_the_number_of_layers():
    """O(c^N) there, once tokens have come to their last correlation."""
    depths = (24, 48, 72, 96)
    ratios = [forecast(of_depth("post_ln", depth), transformer().catalogue, 0.05).gradient_ratio for depth in depths]
    law = depth_law(depths, ratios)
    assert law.kind == "exponential" and law.r2 > 0.99


def of_depth(name, layers):
    sizes = Sizes(n_layers=layers, d_model=256, n_heads=4, seq_len=16, vocab_size=256)
    return architecture(
        transformer().blocks[name].block,
        sizes=sizes,
        final_norm=node("layer_norm", bias=True, scale=True),
        embedding_std=1.0,
        embedding_scale=1.0,
        init=node("xavier", gain="1", distribution="normal", per_head=False),
    )
