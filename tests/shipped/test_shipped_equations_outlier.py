"""OUTLIER (arXiv:2405.19279): its blocks by Figures 5 and 40, Tables 2 and 3, and what they start from.

Sec. 4 and App. C, G and H, and the released code. The activation of a block is GeLU unless it says otherwise:
CodeParrot's ReLU and Languini's RoPE come with the presets.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from builders import node
from paper_equations import (
    Activation,
    Array,
    Norm,
    Place,
    Weights,
    attention_matrix,
    concat,
    gelu,
    layer_norm,
    linear,
    mlp,
    no_norm,
    relu,
    rms_norm,
    rms_norm_as_released,
    split,
    unchanged,
)
from paper_fixtures import TOLERANCE, Written, depth_of, largest_error, with_fields, wrong_starts
from paper_starts import ALL, Start, constant, normal, rms, same
from paper_starts import layer as layer_norms
from reading import transformer

pytestmark = pytest.mark.fast

GRAMMAR = transformer()


def tanh_of(scores: Array) -> Array:
    """App. H.1: 30 tanh(s / 30)."""
    return 30 * np.tanh(scores / 30)


def cut(scores: Array) -> Array:
    """App. A, after DBRX: at 8 on either side."""
    return np.clip(scores, -8, 8)


def block(
    x: Array,
    p: Weights,
    at: Place,
    *,
    beta: float | None = None,
    norm: Norm = no_norm,
    pre_qk: Norm = no_norm,
    pre_v: Norm = no_norm,
    post_qk: Norm = unchanged,
    pre_mlp: Norm | None = None,
    scores: Callable[[Array], Array] = unchanged,
    alpha: float = 1.0,
    act: Activation = gelu,
    mixing: Callable[[Array], Array] = unchanged,
    mlp_beta: float | None = None,
) -> Array:
    """Figure 40: y = x + β MHA(…), y + β MLP(Norm(y)); `norm` stands before attention, or split before q, k and v.

    β is trained where none is given, and is then at the residuals; α scales what goes into the activation.
    """
    attention_beta = p["attention_residual.gain.factor"] if beta is None else beta
    beta_of_mlp = mlp_beta if mlp_beta is not None else (p["mlp_residual.gain.factor"] if beta is None else beta)
    h = norm(x, p, "attention_norm")
    a = mixing(attention_matrix(pre_qk(h, p, "attention.pre_qk"), p, at, qk=post_qk, scores=scores))
    v = split(linear(pre_v(h, p, "attention.pre_v"), p, "attention.value"), at.heads)
    y = x + attention_beta * linear(concat(a @ v), p, "attention.projection")
    before_mlp = norm if pre_mlp is None else pre_mlp
    return y + beta_of_mlp * mlp(before_mlp(y, p, "mlp_norm"), p, act, scale=alpha)


def op(x: Array, p: Weights, at: Place, **entropy: object) -> Array:
    """Figure 5 with β = O(1/√depth): 1/√(2·depth)."""
    return block(x, p, at, beta=1 / math.sqrt(2 * at.depth), **entropy)


def op_as_released(x: Array, p: Weights, at: Place) -> Array:
    """β = 0.2 and ReLU; block 1 alone has a LayerNorm, on the branch of attention; epsilon outside the root."""
    first = layer_norm if at.layer == 1 else no_norm
    return block(x, p, at, beta=0.2, norm=first, pre_mlp=no_norm, post_qk=rms_norm_as_released, act=relu)


def brock(x: Array, p: Weights, at: Place, **entropy: object) -> Array:
    """Table 2: β trained, and α by which weights of 0.02 give inputs of order 1."""
    return block(x, p, at, alpha=1 / (0.02 * math.sqrt(at.width)), **entropy)


def value_skipinit(x: Array, p: Weights, at: Place) -> Array:
    """Figure 23: A ← I + 0.2 A in Pre-LN, and 0.2 before the MLP's branch."""
    return block(x, p, at, beta=1, norm=layer_norm, mixing=lambda a: np.eye(a.shape[-1]) + 0.2 * a, mlp_beta=0.2)


def simple_rms(x: Array, p: Weights, name: str) -> Array:
    """Over the root of the mean square, without gains."""
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-8)


def residual_mlp(x: Array, p: Weights, at: Place, *, norm: Norm) -> Array:
    """App. E: y = x + MLP(Norm(x)), as wide inside as outside."""
    return x + mlp(norm(x, p, "mlp_norm"), p, gelu)


def of_mlp(at: Place) -> dict[str, Start]:
    return dict.fromkeys(("mlp.up.weight", "mlp.down.weight"), normal(0.02))


TABLE3 = {  # Post-QK, Pre-QK, Pre-V, Pre-MLP, scaled residuals
    "pre_rms": (0, 1, 1, 1, 0),
    "scaled_resids": (0, 1, 1, 1, 1),
    "all_norms": (1, 1, 1, 1, 1),
    "attn_norms_only": (1, 1, 1, 0, 1),
    "post_qk_pre_v": (1, 0, 1, 0, 1),
    "qk_norms_only": (1, 1, 0, 0, 1),
    "pre_qk_only": (0, 1, 0, 0, 1),
    "op": (1, 0, 0, 0, 1),
}


def row(post_qk: int, pre_qk: int, pre_v: int, pre_mlp: int, scaled: int) -> Written:
    """A row of Table 3; scaled is 0.3 (App. G)."""
    norm = (no_norm, rms_norm)
    output = partial(
        block,
        beta=0.3 if scaled else 1,
        post_qk=norm[post_qk],
        pre_qk=norm[pre_qk],
        pre_v=norm[pre_v],
        pre_mlp=norm[pre_mlp],
    )

    def starts(at: Place) -> dict[str, Start]:
        named = {"attention.pre_qk": pre_qk, "attention.pre_v": pre_v, "mlp_norm": pre_mlp}
        norms = rms(at.width, *(name for name, there in named.items() if there))
        return weights_of(at) | norms | (qk_gains(at) if post_qk else {})

    return Written(output, starts)


def weights_of(at: Place) -> dict[str, Start]:
    """App. G: N(0, 0.02)."""
    return same(normal(0.02), *ALL)


def qk_gains(at: Place) -> dict[str, Start]:
    """One gain a channel of a head, for all heads; one set for queries, one for keys."""
    return rms(at.head_width, "attention.entropy.qk_norm.query", "attention.entropy.qk_norm.key")


def layer_normed(at: Place) -> dict[str, Start]:
    return layer_norms(at.width, "attention_norm", "mlp_norm")


def betas(at: Place) -> dict[str, Start]:
    """App. G: β is trained and starts at 0.1."""
    return {f"{name}_residual.gain.factor": constant(0.1) for name in ("attention", "mlp")}


def released(at: Place) -> dict[str, Start]:
    biases = {f"attention.{name}.bias": constant(0, at.width) for name in ("query", "key")}
    first = layer_norms(at.width, "attention_norm") if at.layer == 1 else {}
    return together(weights_of, qk_gains)(at) | biases | first


def together(*starts: Callable[[Place], dict[str, Start]]) -> Callable[[Place], dict[str, Start]]:
    return lambda at: {address: start for some in starts for address, start in some(at).items()}


pre_ln = partial(block, beta=1, norm=layer_norm)

BLOCKS = {
    "op": Written(partial(op, post_qk=rms_norm), together(weights_of, qk_gains)),
    "op_softcap": Written(partial(op, scores=tanh_of), weights_of),
    "op_clamp": Written(partial(op, scores=cut), weights_of),
    "naive_unnormalised": Written(op, weights_of),
    "op_as_released": Written(op_as_released, released),
    "outlier_table2_pre_ln_qk_norm": Written(
        partial(pre_ln, post_qk=rms_norm), together(weights_of, layer_normed, qk_gains)
    ),
    "outlier_table2_pre_ln_tanh": Written(partial(pre_ln, scores=tanh_of), together(weights_of, layer_normed)),
    "outlier_table2_naive_unnormalised": Written(brock, together(weights_of, betas)),
    "outlier_table2_op_qk_norm": Written(partial(brock, post_qk=rms_norm), together(weights_of, betas, qk_gains)),
    "outlier_table2_op_tanh": Written(partial(brock, scores=tanh_of), together(weights_of, betas)),
    **{f"outlier_table3_{name}": row(*columns) for name, columns in TABLE3.items()},
    "outlier_figure23_value_skipinit": Written(value_skipinit, together(weights_of, layer_normed)),
    "outlier_mlp_pre_norm": Written(partial(residual_mlp, norm=simple_rms), of_mlp),
    "outlier_mlp_no_norm": Written(partial(residual_mlp, norm=no_norm), of_mlp),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_output_is_the_papers(name):
    assert largest_error(GRAMMAR.block(name), BLOCKS[name], depth_of(name)) < TOLERANCE


@pytest.mark.parametrize("name", BLOCKS)
def test_parameters_start_as_the_paper_says(name):
    assert wrong_starts(name, BLOCKS[name]) == []


def rope_after(norm: Norm, x: Array, p: Weights, name: str) -> Array:
    """The norm, then each pair of neighbouring channels turned by t · 10000^(-2i/K)."""
    normed = norm(x, p, name)
    pairs = normed[..., 0::2] + 1j * normed[..., 1::2]
    rates = 10000.0 ** (-2 * np.arange(pairs.shape[-1]) / x.shape[-1])
    turned = pairs * np.exp(1j * np.arange(x.shape[-2])[:, None] * rates)
    return np.asarray(np.stack([turned.real, turned.imag], -1).reshape(x.shape))


def test_languini_turns_queries_and_keys_behind_their_norm():
    """Table 2 with RoPE, as its preset has it; a rotation before the norm's gains is something else."""
    name = "outlier_table2_op_qk_norm"
    turned = with_fields(GRAMMAR.block(name), position=node("rope", base=10000.0))
    after = Written(partial(brock, post_qk=partial(rope_after, rms_norm)), BLOCKS[name].starts)
    before = Written(
        partial(brock, post_qk=lambda x, p, at: rms_norm(rope_after(no_norm, x, p, at), p, at)), BLOCKS[name].starts
    )
    assert largest_error(turned, after, 6) < TOLERANCE
    assert largest_error(turned, before, 6) > 1e-3
    assert largest_error(turned, BLOCKS[name], 6) > 1e-3


def test_a_bounded_score_is_reached():
    """Else softcap and clamp would not be told from nothing: at scores beyond 8, they are, here."""
    bare = BLOCKS["naive_unnormalised"]
    assert largest_error(GRAMMAR.block("op_softcap"), bare, 6) > TOLERANCE
    assert largest_error(GRAMMAR.block("op_clamp"), bare, 6) > TOLERANCE
