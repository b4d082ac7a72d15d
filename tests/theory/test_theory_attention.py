"""The attention of a forecast model, against the entropy of a model that is drawn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from builders import architecture, node
from reading import transformer

from ablate.api import load_block
from ablate.block.sizes import Sizes
from ablate.compiler import compile_model
from ablate.kernels import Attend, attention_entropy
from ablate.theory.models import forecast

CATALOGUE = transformer().catalogue
LAYERS, LENGTH = 3, 16
SKIPLESS = "[layer_norm, attention: {projection: identity}, layer_norm, mlp]"
BIASED = "[residual: [layer_norm, attention: {bias: alibi, entropy: {qk_norm: rms_norm}}], residual: [layer_norm, mlp]]"


def whole(block):
    sizes = Sizes(n_layers=LAYERS, d_model=256, n_heads=4, seq_len=LENGTH, vocab_size=64, causal=True)
    around = {"embedding_std": 1.0, "embedding_scale": 1.0, "init": node("normal", std="1/sqrt(width)")}
    named = transformer().blocks.get(block)
    return architecture(named.block if named else load_block(block), sizes=sizes, **around)


def entropies(architecture):
    """The mean entropy in each layer of a model that is drawn."""
    torch.manual_seed(0)
    drawn = compile_model(architecture, CATALOGUE, dtype=torch.float64)
    found = []

    def read(core, given):
        q, k = given[:2]
        entropy = attention_entropy(q, k, causal=True, scale=core.scale, logits=core.logits, bias=core.bias(q, k))
        found.append(float(entropy.mean()))

    for part in drawn.modules():
        if isinstance(part, Attend):
            part.register_forward_pre_hook(read)
    with torch.no_grad():
        drawn(torch.from_numpy(np.random.default_rng(0).integers(0, 64, (16, LENGTH))))
    return found


@pytest.mark.parametrize("block", ["pre_ln", "post_ln", SKIPLESS, BIASED])
def test_the_entropy_of_each_layer_is_that_of_a_drawn_model(block):
    model = whole(block)
    starts, measured = forecast(model, CATALOGUE, repetition=1 / 64).attention, entropies(model)
    assert [start.entropy for start in starts] == pytest.approx(measured, abs=0.08)  # one draw of 4 heads
    lost = starts[0].uniform_entropy - measured[0]
    assert lost > 0.15  # so that zero scores would not pass


def test_each_layer_has_its_own_attention():
    starts = forecast(whole(SKIPLESS), CATALOGUE, repetition=0.3).attention
    assert len(starts) == LAYERS
    lost = [start.uniform_entropy - start.entropy for start in starts]
    assert lost == sorted(lost, reverse=True)  # the more alike keys become, the more evenly they are attended to
    assert lost[-1] < 0.9 * lost[0]


@pytest.mark.parametrize(
    "block",
    ["admin", "pre_ln", "[residual: [layer_norm, attention: {sink: learned_sink, bias: alibi}]]"],
    ids=["measured by a profiling pass, too", "plain", "a sink of heads that differ"],
)
def test_each_attention_of_a_layer_is_there_once(block):
    starts = forecast(whole(block), CATALOGUE, repetition=0.3).attention
    assert [start.layer for start in starts] == list(range(1, starts[-1].layer + 1))
