"""Dropout stops rank collapse (arXiv:2403.09635, Section 3.4): tokens of a deep Post-LN model, as `token_cosine` reads.

In training, for in evaluation nothing is dropped. The paper's fixed point, 0.87 to 0.88 at p = 0.1, is that of
attention to every token; here the mask is causal.
"""

from __future__ import annotations

import pytest
import torch

import ablate
from ablate.probes.registry import probes

DEPTH, P = 24, 0.1
SIZES = ablate.Sizes(n_layers=DEPTH, d_model=64, n_heads=4, seq_len=48, vocab_size=256)
XAVIER = "xavier: {gain: 1, distribution: normal, per_head: false}"
PLAIN = "[residual: [attention], layer_norm, residual: [mlp: {activation: relu}], layer_norm]"
DROPPED = (
    f"[residual: [attention: {{dropout: {P}}}, dropout: {P}], layer_norm, "
    f"residual: [mlp: {{activation: relu}}, dropout: {P}], layer_norm]"
)


def cosine_behind(block: str, *, training: bool = True) -> float:
    """The mean cosine of two tokens of a sequence behind the last layer, of tokens drawn apart."""
    torch.manual_seed(0)
    x = torch.randn(4, SIZES.seq_len, SIZES.d_model)
    with torch.no_grad():
        for layer in range(1, DEPTH + 1):
            x = ablate.compile_block(ablate.load_block(block), SIZES, init=XAVIER, layer=layer).train(training)(x)
    return probes()["token_cosine"].measure(x)["token_cosine"].item()


@pytest.mark.full
def test_without_dropout_all_tokens_become_one():
    assert cosine_behind(PLAIN) > 0.99


def test_dropout_keeps_them_apart():
    assert 0.6 < cosine_behind(DROPPED) < 0.9


@pytest.mark.full
def test_in_evaluation_it_does_not():
    """The twin: what keeps them apart is what is dropped, not the block it is written in."""
    assert cosine_behind(DROPPED, training=False) == pytest.approx(cosine_behind(PLAIN), abs=1e-6)
