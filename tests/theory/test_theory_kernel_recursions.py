"""Attention alone, layer by layer: the numbers of Fig. 7, and the forecast of a model that has nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from builders import CATALOGUE, node
from kernel_recursions import RECURSIONS, kernels
from reading import transformer

from ablate.api import load_block
from ablate.block.architecture import plain_decoder
from ablate.block.reader import read_component
from ablate.block.sizes import Sizes
from ablate.errors import InputError
from ablate.signal.propagation import Signal
from ablate.theory.blocks import through_block
from ablate.theory.initial_state import mean_cosine
from ablate.theory.models import forecast

TOKENS = np.random.default_rng(0).integers(0, 50, 100)
SAME = (TOKENS[:, None] == TOKENS).astype(float)  # a share of 0.0178, where App. H.2 asks for about 0.02

# written down from another program, by App. H.2 of arXiv:2302.10322 at T = 100: behind layers 1, 10, 50 and 100
COSINES = {
    "vanilla": (0.32, 0.988, 1.000, 1.000),
    "skipless_norm": (0.32, 0.968, 1.0, 1.0),
    "post_ln": (0.045, 0.834, 1.0, 1.0),
    "pre_ln": (0.045, 0.580, 0.819, 0.854),
    "pre_ln_normalised": (0.019, 0.036, 0.522, 0.843),
    "u_spa": (0.025, 0.094, 0.404, 0.800),
    "e_spa": (0.032, 0.098, 0.533, 0.884),
}
ZERO = "query: {dense: {init: zero}}, bias: alibi, value: &w {dense: {init: orthogonal}}, projection: *w"
BLOCKS = {
    "vanilla": f"[attention: {{{ZERO}}}]",
    "skipless_norm": f"[attention: {{{ZERO}}}, simple_rms_norm: {{eps: 0}}]",
    "pre_ln": f"[residual: [simple_rms_norm: {{eps: 0}}, attention: {{{ZERO}}}]]",
    "post_ln": f"[residual: [attention: {{{ZERO}}}], simple_rms_norm: {{eps: 0}}]",
    "pre_ln_normalised": f"""[residual: {{skip: 0.98, gain: sqrt(1-0.98**2),
        branch: [simple_rms_norm: {{eps: 0}}, attention: {{{ZERO}}}]}}]""",
    "e_spa": """[attention: {query: {dense: {init: zero}}, matrix: {e_spa: 0.005},
        value: &w {dense: {init: orthogonal}}, projection: *w}]""",
    "u_spa": """[attention: {query: {dense: {init: zero}}, matrix: {u_spa: {correlation: 0.8, initial: 0.05}},
        value: &w {dense: {init: orthogonal}}, projection: *w}]""",
}


def test_all_rows_are_there():
    assert set(COSINES) == set(BLOCKS) == set(RECURSIONS)


@pytest.mark.parametrize("row", COSINES)
def test_cosines_of_the_rows_of_figure_7(row):
    found = kernels(row, 100, SAME, 0.02)
    assert len(found) == 101
    assert [mean_cosine(found[layer]) for layer in (1, 10, 50, 100)] == pytest.approx(
        COSINES[row], abs=1e-3 if "spa" in row else 5e-3
    )


@pytest.mark.parametrize("row", BLOCKS)
def test_each_row_is_the_forecast_of_a_block_layer_by_layer(row):
    length, depth, repetition = 20, 6, 0.05
    sizes = Sizes(n_layers=depth, d_model=64, n_heads=8, seq_len=length, vocab_size=256, causal=True)
    kernel = (1 - repetition) * np.eye(length) + repetition
    expected = kernels(row, depth, kernel, repetition)
    another = kernels("vanilla" if row != "vanilla" else "pre_ln", depth, kernel, repetition)
    for layer in range(1, depth + 1):
        start, at = Signal.root(kernel), sizes.at(layer)
        kernel = through_block(
            load_block(BLOCKS[row]), start, at, node("fan_in", gain="1"), transformer().catalogue
        ).kernel
        assert kernel == pytest.approx(expected[layer], rel=1e-6, abs=1e-9)
    assert not np.allclose(kernel, another[-1], rtol=0.05)


def test_a_row_that_is_not_there_is_refused():
    with pytest.raises(InputError, match="choose one of vanilla, u_spa"):
        kernels("pre_rms", 3, SAME, 0.02)


@pytest.mark.parametrize("repetition", (0.02, 0.05, 0.2))
def test_e_spa_keeps_every_size_at_1_where_it_knows_of_repeated_tokens(repetition):
    """App. B of arXiv:2302.10322, Fig. 5 and 6: without the correction the sizes of later tokens drift with r."""
    sizes = Sizes(n_layers=36, d_model=64, n_heads=4, seq_len=100, vocab_size=1000, repetition=repetition)
    corrected, drifting = (
        np.diag(forecast(alone(known, sizes), CATALOGUE, repetition).streams[-1].kernel)
        for known in ("repetition", "0")
    )
    assert corrected == pytest.approx(1)
    assert drifting[0] == pytest.approx(1)
    assert drifting[-1] > 1 + 5 * repetition


def alone(repetition, sizes):
    """E-SPA without an MLP, told how often tokens repeat."""
    matrix = f"{{e_spa: {{decay: 0.2, repetition: {repetition}}}}}"
    block = load_block(f"[attention: {{query: {{dense: {{init: zero}}}}, matrix: {matrix}}}]")
    return plain_decoder(block, sizes, init=read_component("normal: 1/sqrt(width)", "init", CATALOGUE), embedding_std=1)
