"""Blocks with one effective form are one model as they are compiled: equal outputs, gradients, numbers of parameters.

Their nearest, which a plan keeps apart, differ in one of these: the twin that shows that the comparison can fail.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from builders import CATALOGUE, architecture, node
from equal_models import BLOCKS
from reading import decoders, read_block, transformer
from torch import Tensor

from ablate.block.sizes import Sizes
from ablate.compiler import compile_model
from ablate.plan.identity import trained_kinds
from ablate.train.optimizer import parameter_kinds

SIZES = Sizes(n_layers=4, d_model=32, n_heads=4, seq_len=16, vocab_size=64)


def numbers(text: str) -> tuple[int, Tensor, Tensor]:
    """The parameters of a model, its logits, and the sums of squares of its gradients, sorted."""
    built = architecture(read_block(text), sizes=SIZES, init=node("normal", std=0.02))
    model = compile_model(built, CATALOGUE, seed=3, dtype=torch.float64)
    model.eval() if "dropout: 0}" in text else model.train()
    tokens = torch.arange(2 * SIZES.seq_len).mul(7).remainder(SIZES.vocab_size).view(2, -1)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        logits = model(tokens)
    (logits.square().sum() + logits[..., 3].sum()).backward()
    squares = [0.0 if p.grad is None else float(p.grad.square().sum()) for p in model.parameters()]
    moved = sum(p.numel() for p in model.parameters())
    return moved, logits.detach(), torch.tensor(sorted(squares), dtype=torch.float64)


def alike(one: tuple[int, Tensor, Tensor], two: tuple[int, Tensor, Tensor]) -> bool:
    if one[0] != two[0] or one[2].shape != two[2].shape:
        return False
    scale = float(one[1].abs().max())
    return torch.allclose(one[1], two[1], rtol=0, atol=1e-10 * scale) and torch.allclose(
        one[2], two[2], rtol=1e-8, atol=1e-10 * float(one[2].max())
    )


@pytest.mark.parametrize("name", BLOCKS)
def test_what_a_plan_takes_for_one_model_is_one_as_it_is_compiled(name):
    one, other, near = (numbers(text) for text in BLOCKS[name])
    assert alike(one, other)
    assert not alike(one, near)


EXACT = {"gains", "head", "positions"}
"""The kinds of parameters of which a plan knows exactly whether there are any."""


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", decoders())
def test_a_plan_knows_which_kinds_of_parameters_a_model_lacks(name):
    """A weight decay of those reaches nothing; of all others it may."""
    layers = 72 if name.startswith("e_spa_skips") else 24  # so many that what is solved for has a solution
    sizes = replace(SIZES, n_layers=layers)
    for changes in ({}, {"tied": True, "positions": "sinusoidal", "position_std": None}):
        built = architecture(transformer().block(name), sizes=sizes, **changes)
        there = {kind for _, _, kind in parameter_kinds(compile_model(built, CATALOGUE, device="meta"))}
        known = trained_kinds(built, CATALOGUE)
        assert there <= known
        assert known & EXACT == there & EXACT
