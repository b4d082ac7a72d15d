"""ESPA (arXiv:2302.10322): its blocks with attention matrices from Cholesky factors, and what they start from.

Eq. 1, 7 and 10, Sec. 3.2 to 3.4, Tables 1, 2 and 7, App. C, F and H.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from builders import node
from espa_equations import (
    LENGTH,
    NODES,
    dks_gelu,
    e_spa,
    e_spa_behind_mlp,
    e_spa_beside,
    even,
    exponential,
    mean,
    shaped_gelu,
    shaped_leaky_relu,
    u_spa,
    u_spa_behind_mlp,
)
from paper_equations import (
    Activation,
    Array,
    Norm,
    Place,
    Weights,
    attention_matrix,
    concat,
    gelu,
    linear,
    mlp,
    no_norm,
    rms_norm,
    sigmoid,
    split,
)
from paper_fixtures import (
    GPT2,
    SIGNALS,
    TOLERANCE,
    Written,
    block_at,
    depth_of,
    disturb,
    error,
    gradients,
    largest_error,
    numbers_of,
    place_of,
    sizes_of,
    through,
    with_fields,
    wrong_starts,
)
from paper_starts import Start, constant, normal, orthogonal, rms, same, zeros
from reading import transformer

GRAMMAR = transformer()


def softmax_alone(h: Array, p: Weights, at: Place) -> Array:
    return attention_matrix(h, p, at)


def value_skipinit(h: Array, p: Weights, at: Place) -> Array:
    """Eq. 7: α I + β A, scalars."""
    alpha, beta = (p[f"attention.matrix.{name}.factor"] for name in ("skip", "gain"))
    return alpha * np.eye(LENGTH) + beta * attention_matrix(h, p, at)


def nothing(h: Array, p: Weights, at: Place) -> Array:
    return np.zeros(())


def relative_positions(h: Array, p: Weights, at: Place) -> Array:
    """Eq. 17, but for its first term: q·W R_{i-j} + u·k + v·W R_{i-j}, over √d_k."""
    q, k = (split(linear(h, p, f"attention.{name}"), at.heads) for name in ("query", "key"))
    distances = np.arange(LENGTH)[:, None] - np.arange(LENGTH)
    angles = distances[:, :, None] * 10000.0 ** (-np.arange(0, at.width, 2) / at.width)
    waves = np.concatenate((np.sin(angles), np.cos(angles)), axis=-1)
    r = (waves @ p["attention.bias.weight"].T).reshape(LENGTH, LENGTH, at.heads, -1)
    u, v = p["attention.bias.u"], p["attention.bias.v"]
    terms = np.einsum("bhik,ijhk->bhij", q, r), np.einsum("hk,bhjk->bhj", u, k)[:, :, None]
    return (terms[0] + terms[1] + np.einsum("hk,ijhk->hij", v, r)) / math.sqrt(at.head_width)


def preserving(
    h: Array,
    p: Weights,
    at: Place,
    matrix: Callable[[Place], Array],
    added: Callable[[Array, Weights, Place], Array] = nothing,
) -> Array:
    """Eq. 10: D softmax(q kᵀ/√d_k + B), D the row sums of A and B = log(A / D)."""
    a = np.tril(matrix(at))
    rows = a.sum(1)
    with np.errstate(divide="ignore"):
        b = np.log(np.maximum(a / rows[:, None], 0))
    return rows[:, None] * attention_matrix(h, p, at, scores=lambda s: s + b + added(h, p, at))


def as_it_is(act: Activation) -> Callable[[Array, int], Array]:
    return lambda x, depth: act(x)


def block(
    x: Array,
    p: Weights,
    at: Place,
    *,
    matrix: Callable[[Array, Weights, Place], Array] = softmax_alone,
    norm: Norm = no_norm,
    act: Callable[[Array, int], Array] = shaped_gelu,
    skips: tuple[float, float] = (0, 0),
    gains: tuple[float, float] | None = (1, 1),
) -> Array:
    """Eq. 1: α x + β MHA(Norm(x)), then α x + β MLP(Norm(x)); where no β is given it is trained."""
    if gains is None:
        gains = p["attention_residual.gain.factor"], p["mlp_residual.gain.factor"]
    h = norm(x, p, "attention_norm")
    v = split(linear(h, p, "attention.value"), at.heads)
    mixed = linear(concat(matrix(h, p, at) @ v), p, "attention.projection")
    y = skips[0] * x + gains[0] * mixed
    return skips[1] * y + gains[1] * mlp(norm(y, p, "mlp_norm"), p, lambda z: act(z, at.depth))


def residuals(*, norm: Norm, skips: tuple[float, float], gains: tuple[float, float] | None, **options: object):
    """A row of Table 2: untransformed GeLU, Gaussian weights."""
    return partial(block, norm=norm, act=as_it_is(gelu), skips=skips, gains=gains, **options)


def normalised(attention: float, mlp: float, norm: Norm, **options: object):
    return residuals(
        norm=norm, skips=(attention, mlp), gains=(math.sqrt(1 - attention**2), math.sqrt(1 - mlp**2)), **options
    )


# What they start from


KEPT = {act: round(1 / math.sqrt(mean(act(NODES) ** 2)), 4) for act in (gelu, sigmoid)}
"""App. H.1: the σ of the weight behind an activation that makes E[(σ φ(z))²] = 1, to four decimals."""


def orthogonal_weights(*zero: str, down: float = 1.0) -> dict[str, Start]:
    square = (name for name in ("query", "key", "value", "projection", "up") if name not in zero)
    return same(zeros(), *zero) | same(orthogonal(), *square) | same(orthogonal(down), "down")


def gaussian_weights(at: Place) -> dict[str, Start]:
    """N(0, σ²/fan-in), σ = 1 but for the weight behind GeLU."""
    plain = same(normal(at.width**-0.5), "query", "key", "value", "projection", "up")
    return plain | same(normal(KEPT[gelu] / math.sqrt(4 * at.width)), "down")


def spa_weights(at: Place) -> dict[str, Start]:
    """Attention as without skips, the MLP as with them."""
    attention = {k: v for k, v in orthogonal_weights("query").items() if k.startswith("attention")}
    return gaussian_weights(at) | attention


def norms(at: Place) -> dict[str, Start]:
    return rms(at.width, "attention_norm", "mlp_norm")


def written(output, starts: Callable[[Place], dict[str, Start]]) -> Written:
    """With Gaussian fan-in as the model's init; with gains for its norms, if it has any."""
    with_norms = output.keywords.get("norm") is rms_norm
    return Written(output, lambda at: starts(at) | (norms(at) if with_norms else {}), "fan_in: {gain: 1}")


def trained_gains(at: Place) -> dict[str, Start]:
    return gaussian_weights(at) | {f"{name}_residual.gain.factor": constant(0) for name in ("attention", "mlp")}


def start_of_value_skipinit(at: Place) -> dict[str, Start]:
    return orthogonal_weights() | {
        "attention.matrix.skip.factor": constant(1),
        "attention.matrix.gain.factor": constant(0),
    }


def zero_queries(at: Place) -> dict[str, Start]:
    return orthogonal_weights("query")


def zero_keys(at: Place) -> dict[str, Start]:
    return orthogonal_weights("key")


def relative_starts(at: Place) -> dict[str, Start]:
    """App. E: u = v = 0 beside W^Q = 0."""
    bias = {"weight": orthogonal(), "u": zeros(), "v": zeros()}
    return zero_queries(at) | {f"attention.bias.{name}": start for name, start in bias.items()}


def nowhere_zero(at: Place) -> dict[str, Start]:
    return orthogonal_weights()


E_SPA = partial(preserving, matrix=e_spa)
U_SPA = partial(preserving, matrix=u_spa)
E_SPA_SKIPS = partial(preserving, matrix=partial(e_spa_beside, skip=0.9975, final=1))
STABLE, TRAINED = {"skips": (1, 1)}, {"skips": (1, 1), "gains": None}

BLOCKS = {
    "e_spa": written(partial(block, matrix=E_SPA), zero_queries),
    "e_spa_fast": written(partial(block, matrix=partial(preserving, matrix=partial(e_spa, final=0.2))), zero_queries),
    "e_spa_norm": written(partial(block, matrix=E_SPA, norm=rms_norm), zero_queries),
    "e_spa_tat": written(partial(block, matrix=E_SPA, act=shaped_leaky_relu), zero_queries),
    "e_spa_sigmoid": written(
        partial(block, matrix=E_SPA, act=as_it_is(sigmoid)),
        lambda at: orthogonal_weights("query", down=KEPT[sigmoid]),
    ),
    "e_spa_zero_keys": written(partial(block, matrix=E_SPA), zero_keys),
    "e_spa_relative": written(partial(block, matrix=partial(E_SPA, added=relative_positions)), relative_starts),
    "e_spa_mlp": written(partial(block, matrix=partial(preserving, matrix=e_spa_behind_mlp)), zero_queries),
    "u_spa_mlp": written(partial(block, matrix=partial(preserving, matrix=u_spa_behind_mlp)), zero_queries),
    "u_spa_quadratic": written(
        partial(block, matrix=partial(preserving, matrix=partial(u_spa, power=2))), zero_queries
    ),
    "u_spa_root": written(partial(block, matrix=partial(preserving, matrix=partial(u_spa, power=0.5))), zero_queries),
    "u_spa": written(partial(block, matrix=U_SPA), zero_queries),
    "u_spa_norm": written(partial(block, matrix=U_SPA, norm=rms_norm), zero_queries),
    "value_skipinit": written(partial(block, matrix=value_skipinit), start_of_value_skipinit),
    "value_skipinit_norm": written(partial(block, matrix=value_skipinit, norm=rms_norm), start_of_value_skipinit),
    "skipless": written(partial(block), nowhere_zero),
    "skipless_norm": written(partial(block, norm=rms_norm), nowhere_zero),
    # Table 7, its rows with LN and without
    "espa_pre_ln": written(residuals(norm=rms_norm, gains=(1, 1), **STABLE), gaussian_weights),
    "espa_normalised_norm": written(normalised(0.99, 0.99, rms_norm), gaussian_weights),
    "espa_normalised": written(normalised(0.999, 0.99, no_norm), gaussian_weights),
    "espa_stable_norm": written(residuals(norm=rms_norm, gains=(0.2, 0.15), **STABLE), gaussian_weights),
    "espa_stable": written(residuals(norm=no_norm, gains=(0.05, 0.1), **STABLE), gaussian_weights),
    "espa_skipinit_norm": written(residuals(norm=rms_norm, **TRAINED), trained_gains),
    "espa_skipinit": written(residuals(norm=no_norm, **TRAINED), trained_gains),
    "u_spa_skips_norm": written(normalised(0.98, 0.99, rms_norm, matrix=U_SPA), spa_weights),
    "u_spa_skips": written(normalised(0.995, 0.995, no_norm, matrix=U_SPA), spa_weights),
    "e_spa_skips_norm": written(normalised(0.9975, 0.995, rms_norm, matrix=E_SPA_SKIPS), spa_weights),
    "e_spa_skips": written(normalised(0.9975, 0.99, no_norm, matrix=E_SPA_SKIPS), spa_weights),
}


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", BLOCKS)
def test_output_is_the_papers(name):
    assert largest_error(GRAMMAR.block(name), BLOCKS[name], depth_of(name)) < TOLERANCE


@pytest.mark.parametrize("name", BLOCKS)
def test_parameters_start_as_the_paper_says(name):
    assert wrong_starts(name, BLOCKS[name]) == []


def test_the_activations_solved_here_are_those_known_elsewhere():
    """DKS-GeLU for 24 layers at ζ = 5; and what is kept behind GeLU and sigmoid."""
    assert dks_gelu(24) == pytest.approx((0.376889, 0.234798, 3.869590, -0.189578), abs=1e-6)
    assert KEPT[gelu] == 1.5335 and KEPT[sigmoid] == 1.8462


@pytest.mark.parametrize("name", ["value_skipinit", "value_skipinit_norm"])
def test_value_skipinit_starts_with_no_gradient_for_queries_and_keys(name):
    """At β = 0, β alone hears of attention; at any other, queries and keys do too."""
    first = gradients(GRAMMAR.block(name))
    assert not first["attention.query.weight"].any() and not first["attention.key.weight"].any()
    assert first["attention.matrix.gain.factor"].abs() > 1e-3
    matrix = node("value_skipinit", skip=0.5, gain=0.1)
    then = gradients(with_fields(GRAMMAR.block(name), matrix=matrix))
    assert min(then[f"attention.{weight}.weight"].abs().max() for weight in ("query", "key")) > 1e-4


@pytest.mark.parametrize(("name", "matrix"), [("e_spa", e_spa), ("u_spa", u_spa)])
def test_attention_starts_as_the_matrix_itself(name, matrix):
    """Sec. 3.3: A V exactly, while queries are 0; and through all layers, A₆⋯A₁ is a root of the Σ_L asked for."""
    alone = Written(partial(block, matrix=lambda h, p, at: np.tril(matrix(at))), BLOCKS[name].starts)
    product = np.eye(LENGTH)
    for layer in range(1, 7):
        at, module = place_of(sizes_of(6), layer), block_at(GRAMMAR.block(name), sizes_of(6), layer, GPT2)
        wanted = alone.output(SIGNALS[0], Weights(numbers_of(module)), at)
        assert error(through(module, SIGNALS[0]), wanted) < TOLERANCE
        disturb(module, layer)
        wanted = alone.output(SIGNALS[0], Weights(numbers_of(module)), at)
        assert error(through(module, SIGNALS[0]), wanted) > 1e-3
        product = matrix(at) @ product
    final = exponential(0.005) if name == "e_spa" else even(0.8)
    np.testing.assert_allclose(product @ product.T, final, atol=1e-12)
