"""SIMPLIFY (arXiv:2311.01906): its blocks by its equations, what they start from, and what it says of initialisation.

Equations 4, 5, 6, 7, 12 and 13; App. B, C and D; and the released code.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from paper_equations import (
    Activation,
    Array,
    Norm,
    Place,
    Weights,
    attention,
    attention_matrix,
    concat,
    gelu,
    glu,
    layer_norm,
    layer_norm_of_cramming,
    linear,
    mlp,
    no_norm,
    relu,
    rms_norm,
    rms_norm_as_released,
    split,
)
from paper_fixtures import TOLERANCE, Written, depth_of, largest_error, started, wrong_starts
from paper_starts import ALL, Start, constant, eye, normal, orthogonal, rms, same, zeros
from paper_starts import layer as layer_norms
from reading import transformer

GRAMMAR = transformer()


def shaped_attention(h: Array, p: Weights, at: Place) -> Array:
    """Eq. 13: (α_h I + β_h A_h - γ_h C) V_h; C_ij = 1/i for j <= i; all gains [H, 1, 1]."""
    n = h.shape[1]
    uniform = np.tril(np.ones((n, n))) / np.arange(1, n + 1)[:, None]
    alpha, beta, gamma = (p[f"attention.matrix.{name}.factor"] for name in ("skip", "gain", "centre"))
    m = alpha * np.eye(n) + beta * attention_matrix(h, p, at) - gamma * uniform
    return mix(m, h, p, at)


def value_skipinit(h: Array, p: Weights, at: Place) -> Array:
    """Eq. 4: (α_h I + β_h A_h) V_h."""
    alpha, beta = (p[f"attention.matrix.{name}.factor"] for name in ("skip", "gain"))
    return mix(alpha * np.eye(h.shape[1]) + beta * attention_matrix(h, p, at), h, p, at)


def mix(m: Array, h: Array, p: Weights, at: Place) -> Array:
    """M [B, H, T, T] between values and projection."""
    return carry(concat(m @ split(carry(h, p, at, "value"), at.heads)), p, at, "projection")


def carry(x: Array, p: Weights, at: Place, name: str) -> Array:
    """The values or the projection: plain, Eq. 6, or, in SAS, the identity but for the values of the first layer."""
    here = f"attention.{name}"
    if f"{here}.weight" in p:
        return linear(x, p, here)
    if f"{here}.delta" not in p and (name, at.layer) != ("value", 1):
        return x
    fixed, trained = p[f"{here}.start"], p[f"{here}.delta"]
    if f"{here}.gain.factor" in p:
        return x @ (p[f"{here}.skip.factor"] * fixed + p[f"{here}.gain.factor"] * trained).T
    return x @ (fixed + 0.2 * trained).T


def gain(p: Weights, name: str) -> Array:
    return p[f"{name}_residual.gain.factor"]


def sas(
    x: Array,
    p: Weights,
    at: Place,
    norm: Norm = rms_norm,
    *,
    attend: Callable[[Array, Weights, Place], Array] = shaped_attention,
    feed: Callable[[Array, Weights, Activation], Array] = mlp,
    act: Activation = relu,
) -> Array:
    """Eq. 12, without a skip, then the MLP's residual: y + β_FF MLP(Norm(y)); α_FF is trained as released."""
    y = gain(p, "attention") * attend(norm(x, p, "attention_norm"), p, at)
    skip = p["mlp_residual.skip.factor"] if norm is rms_norm_as_released else 1
    return skip * y + gain(p, "mlp") * feed(norm(y, p, "mlp_norm"), p, act)


def sas_as_released(x: Array, p: Weights, at: Place) -> Array:
    return sas(x, p, at, rms_norm_as_released)


def pre_ln_bert(x: Array, p: Weights, at: Place) -> Array:
    """App. D.2: LayerNorm, and a GLU with GELU."""
    y = x + attention(layer_norm_of_cramming(x, p, "attention_norm"), p, at)
    return y + glu(layer_norm_of_cramming(y, p, "mlp_norm"), p, gelu)


def sas_p(
    x: Array,
    p: Weights,
    at: Place,
    norm: Norm = rms_norm,
    *,
    feed: Callable[[Array, Weights, Activation], Array] = mlp,
    act: Activation = relu,
) -> Array:
    """Eq. 7 at α_comb = 0, with the attention of Eq. 13: both branches see the one norm."""
    h = norm(x, p, "attention_norm")
    return gain(p, "attention") * shaped_attention(h, p, at) + gain(p, "mlp") * feed(h, p, act)


def sas_p_as_released(x: Array, p: Weights, at: Place) -> Array:
    return sas_p(x, p, at, rms_norm_as_released)


def sas_p_no_norm(x: Array, p: Weights, at: Place) -> Array:
    return sas_p(x, p, at, no_norm)


def sas_p_no_norm_as_released(x: Array, p: Weights, at: Place) -> Array:
    """Without norms, the first block keeps a LayerNorm."""
    return sas_p(x, p, at, layer_norm if at.layer == 1 else no_norm)


def parallel(x: Array, p: Weights, at: Place, norm: Norm = rms_norm) -> Array:
    """Eq. 7."""
    h = norm(x, p, "attention_norm")
    return x + mlp(h, p, relu) + attention(h, p, at)


def parallel_as_released(x: Array, p: Weights, at: Place) -> Array:
    return parallel(x, p, at, rms_norm_as_released)


def pre_norm_as_released(x: Array, p: Weights, at: Place) -> Array:
    y = x + attention(rms_norm_as_released(x, p, "attention_norm"), p, at)
    return y + mlp(rms_norm_as_released(y, p, "mlp_norm"), p, relu)


def shifted_post_norm_as_released(x: Array, p: Weights, at: Place) -> Array:
    """The skip carries what the norm gives."""
    h = rms_norm_as_released(x, p, "attention_norm")
    u = rms_norm_as_released(h + attention(h, p, at), p, "attention_post_norm")
    return u + mlp(u, p, relu)


# What they start from


NORMS = ("attention_norm", "mlp_norm")
GPT = normal(0.02)
ONE = constant(1)


def norms_of(at: Place, norms: int) -> dict[str, Start]:
    return rms(at.width, *NORMS[:norms])


def skipless(at: Place, norms: int = 2) -> dict[str, Start]:
    """App. D.1: queries at 0; α, β, γ of each head and β_SA at 1, β_FF at 0.1, all trained; MLP and keys at 0.02."""
    gains = {"attention_residual.gain.factor": ONE, "mlp_residual.gain.factor": constant(0.1)}
    matrices = {**same(zeros(), "query"), **same(GPT, "key", "up", "down")}
    return of_heads(at, skip=1, gain=1, centre=1) | gains | matrices | norms_of(at, norms)


def of_heads(at: Place, **gains: float) -> dict[str, Start]:
    return {f"attention.matrix.{name}.factor": constant(value, at.heads, 1, 1) for name, value in gains.items()}


def haar(at: Place) -> dict[str, Start]:
    """V-SkipInit as Sec. 4.1 has it: SAS with trained orthogonal values and projections."""
    return skipless(at) | same(orthogonal(), "value", "projection")


def pure(at: Place) -> dict[str, Start]:
    """Eq. 4: α = 1, β = 0, and there is no γ."""
    starts = haar(at) | of_heads(at, skip=1, gain=0)
    return {address: start for address, start in starts.items() if "centre" not in address}


def bert(starts: dict[str, Start], at: Place, *norms: str) -> dict[str, Start]:
    """App. D.2: LayerNorms, a gate, and β_FF at 0.05 where it is trained."""
    smaller = {name: constant(0.05) for name in starts if name == "mlp_residual.gain.factor"}
    return starts | layer_norms(at.width, *(norms or NORMS)) | same(GPT, "gate") | smaller


def identity_values(at: Place, norms: int = 2) -> dict[str, Start]:
    """None are left but those of layer 1, W = α I + β ΔW, both gains trained and 1, ΔW at 0."""
    if at.layer > 1:
        return skipless(at, norms)
    return skipless(at, norms) | learned("value", 1.0)


def learned(name: str, gain: float | None) -> dict[str, Start]:
    """Of Eq. 6: ΔW, and the gains where they are trained."""
    delta = {f"attention.{name}.delta": zeros()}
    if gain is None:
        return delta
    return delta | {f"attention.{name}.skip.factor": ONE, f"attention.{name}.gain.factor": constant(gain)}


def plain(at: Place, *norms: str) -> dict[str, Start]:
    """The Pre-LN baseline's and its kin's."""
    return same(GPT, *ALL) | rms(at.width, *norms)


def biased(starts: dict[str, Start], at: Place) -> dict[str, Start]:
    """As released: with biases on queries and keys, at 0."""
    return starts | {f"attention.{name}.bias": constant(0, at.width) for name in ("query", "key")}


def first_layer_norm(at: Place) -> dict[str, Start]:
    return layer_norms(at.width, "attention_norm") if at.layer == 1 else {}


def eq6(at: Place, gain: float | None) -> dict[str, Start]:
    return skipless(at) | learned("value", gain) | learned("projection", gain)


BLOCKS = {
    "sas": Written(sas, identity_values),
    "sas_p": Written(sas_p, lambda at: identity_values(at, 1)),
    "sas_p_no_norm": Written(sas_p_no_norm, lambda at: identity_values(at, 0)),
    "simplify_parallel": Written(parallel, lambda at: plain(at, "attention_norm")),
    "simplify_v_skipinit": Written(sas, haar),
    "simplify_v_skipinit_pure": Written(partial(sas, attend=value_skipinit), pure),
    "simplify_eq6_orthogonal": Written(sas, lambda at: eq6(at, None)),
    "simplify_eq6_tied": Written(sas, lambda at: eq6(at, None)),
    "simplify_eq6_tied_last": Written(sas, lambda at: eq6(at, None)),
    "simplify_figure4": Written(sas, lambda at: eq6(at, 0.2)),
    "pre_ln_bert": Written(pre_ln_bert, lambda at: bert(plain(at), at)),
    "sas_bert": Written(
        partial(sas, norm=layer_norm_of_cramming, feed=glu, act=gelu), lambda at: bert(identity_values(at, 0), at)
    ),
    "sas_p_bert": Written(
        partial(sas_p, norm=layer_norm_of_cramming, feed=glu, act=gelu),
        lambda at: bert(identity_values(at, 0), at, "attention_norm"),
    ),
    "simplify_pre_ln_as_released": Written(pre_norm_as_released, lambda at: biased(plain(at, *NORMS), at)),
    "simplify_post_ln_as_released": Written(
        shifted_post_norm_as_released, lambda at: biased(plain(at, "attention_norm", "attention_post_norm"), at)
    ),
    "simplify_parallel_as_released": Written(parallel_as_released, lambda at: biased(plain(at, "attention_norm"), at)),
    "sas_as_released": Written(
        sas_as_released, lambda at: biased(identity_values(at), at) | {"mlp_residual.skip.factor": ONE}
    ),
    "simplify_v_skipinit_as_released": Written(
        sas_as_released, lambda at: biased(haar(at), at) | {"mlp_residual.skip.factor": ONE}
    ),
    "sas_p_as_released": Written(sas_p_as_released, lambda at: biased(identity_values(at, 1), at)),
    "sas_p_no_norm_as_released": Written(
        sas_p_no_norm_as_released, lambda at: biased(identity_values(at, 0), at) | first_layer_norm(at)
    ),
}


@pytest.mark.fast
@pytest.mark.parametrize("name", BLOCKS)
def test_output_is_the_papers(name):
    assert largest_error(GRAMMAR.block(name), BLOCKS[name], depth_of(name)) < TOLERANCE


@pytest.mark.fast
@pytest.mark.parametrize("name", BLOCKS)
def test_parameters_start_as_the_paper_says(name):
    assert wrong_starts(name, BLOCKS[name]) == []


HAAR, IDENTITY = dict.fromkeys(("value", "projection"), orthogonal()), dict.fromkeys(("value", "projection"), eye())
FIXED = {
    **dict.fromkeys(("simplify_eq6_orthogonal", "simplify_eq6_tied", "simplify_eq6_tied_last"), (HAAR, HAAR)),
    **dict.fromkeys((name for name in BLOCKS if name.startswith("sas")), ({"value": eye()}, {})),
    "simplify_figure4": (IDENTITY, IDENTITY),
}
"""W_init of Eq. 6, constant and not trained, in layer 1 and in others; no other block has any."""


@pytest.mark.parametrize("name", BLOCKS)
def test_the_fixed_halves_of_weights(name):
    for layer in (1, 2, 6):
        buffers = {key: value.numpy() for key, value in started(name, layer).named_buffers()}
        wanted = FIXED.get(name, ({}, {}))[layer > 1]
        assert set(buffers) == {f"attention.{weight}.start" for weight in wanted}
        assert all(start.holds(buffers[f"attention.{weight}.start"]) for weight, start in wanted.items())
