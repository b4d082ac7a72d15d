"""DSLM (arXiv:2403.09635): its blocks by App. M and the released code, and what their weights start from.

Without dropout, as in evaluation; where dropout stands is looked at by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from paper_equations import Array, Place, Weights, attention, layer_norm, mlp, relu
from paper_fixtures import GPT2, TOLERANCE, Written, block_at, depth_of, largest_error, sizes_of, wrong_starts
from paper_starts import Start, constant, normal, same
from paper_starts import layer as layer_norms
from reading import transformer

pytestmark = pytest.mark.fast

GRAMMAR = transformer()
P = 0.1


def scalings(at: Place, k: int) -> tuple[float, float]:
    """λ = √(1 - k/N) and β = √(k/N): k = 2 in the paper, 1 by the defaults of its code."""
    return math.sqrt(1 - k / at.depth), math.sqrt(k / at.depth)


def pre(x: Array, p: Weights, at: Place, *, k: int) -> Array:
    """λ x + β f(LN(x)), of attention and of the MLP."""
    skip, gain = scalings(at, k)
    y = skip * x + gain * attention(layer_norm(x, p, "attention_norm"), p, at)
    return skip * y + gain * mlp(layer_norm(y, p, "mlp_norm"), p, relu)


def post(x: Array, p: Weights, at: Place, *, k: int) -> Array:
    """LN(λ x + β f(x))."""
    skip, gain = scalings(at, k)
    y = layer_norm(skip * x + gain * attention(x, p, at), p, "attention_post_norm")
    return layer_norm(skip * y + gain * mlp(y, p, relu), p, "mlp_post_norm")


def shifted_post(x: Array, p: Weights, at: Place, *, k: int) -> Array:
    """As released: each norm stands before its branch, and the skip starts behind it."""
    skip, gain = scalings(at, k)
    h = layer_norm(x, p, "attention_norm")
    u = layer_norm(skip * h + gain * attention(h, p, at), p, "attention_post_norm")
    return skip * u + gain * mlp(u, p, relu)


def value_std(at: Place, r0: float, k: int) -> float:
    """Of v and out-projection: √(√((1 - p)/r_n)/d), r_n before the attention of layer n (App. M)."""
    (skip, gain), r = scalings(at, k), r0 * (1 - P)
    for _ in range(at.layer - 1):
        r = skip**2 * r + gain**2 * (1 - P)
        r = skip**2 * r + gain**2 * (1 - P) * (r + (math.sqrt(1 - r * r) - r * math.acos(r)) / math.pi)
    return math.sqrt(math.sqrt((1 - P) / r) / at.width)


def mlp_std(at: Place) -> float:
    """√(√((1 - p)/2)/d), of both its matrices."""
    return math.sqrt(math.sqrt((1 - P) / 2) / at.width)


def two_tables(at: Place) -> float:
    """π²/(12 ln²V): tokens by Zipf's law and positions, of one variance."""
    return math.pi**2 / (12 * math.log(at.vocabulary) ** 2)


def starts_of(
    value: Callable[[Place], float], *norms: str, biases: bool = False
) -> Callable[[Place], dict[str, Start]]:
    """Weights by their standard deviations, biases at 0."""

    def starts(at: Place) -> dict[str, Start]:
        matrices = {
            **same(normal(at.width**-0.5), "query", "key"),
            **same(normal(value(at)), "value", "projection"),
            **same(normal(mlp_std(at)), "up", "down"),
        }
        widths = {name: 4 * at.width if name == "mlp.up.weight" else at.width for name in matrices}
        zeros = {f"{name.removesuffix('.weight')}.bias": constant(0, width) for name, width in widths.items()}
        return matrices | layer_norms(at.width, *norms) | (zeros if biases else {})

    return starts


def paper(at: Place) -> float:
    return value_std(at, two_tables(at), 2)


def released(at: Place) -> float:
    """r_0 as the authors observed it."""
    return value_std(at, 0.221, 1)


PRE, POST, SHIFTED = (
    ("attention_norm", "mlp_norm"),
    ("attention_post_norm", "mlp_post_norm"),
    ("attention_norm", "attention_post_norm"),
)
BLOCKS = {
    "dslm_pre_ln": Written(partial(pre, k=2), starts_of(paper, *PRE)),
    "dslm_post_ln": Written(partial(post, k=2), starts_of(paper, *POST)),
    "dslm_simple": Written(partial(pre, k=2), starts_of(mlp_std, *PRE)),
    "dslm_pre_ln_as_released": Written(partial(pre, k=1), starts_of(released, *PRE, biases=True)),
    "dslm_post_ln_as_released": Written(partial(shifted_post, k=1), starts_of(released, *SHIFTED, biases=True)),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_output_is_the_papers(name):
    assert largest_error(GRAMMAR.block(name), BLOCKS[name], depth_of(name)) < TOLERANCE


@pytest.mark.parametrize("name", BLOCKS)
def test_parameters_start_as_the_paper_says(name):
    assert wrong_starts(name, BLOCKS[name]) == []


@pytest.mark.parametrize("name", BLOCKS)
def test_a_tenth_is_dropped_of_attention_and_behind_each_branch(name):
    module = block_at(GRAMMAR.block(name), sizes_of(6), 1, GPT2)
    assert module.get_submodule("attention.attend").dropout == P
    dropped = [getattr(part, "p", None) for part_name, part in module.named_modules() if "dropout" in part_name]
    assert dropped == [P, P]
    x = torch.randn(2, 10, 16, dtype=torch.float64)
    assert torch.equal(module(x), module(x))
    assert not torch.equal(module.train()(x), module(x))
