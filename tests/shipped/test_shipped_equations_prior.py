"""Blocks that others are compared with, and prior methods for depth: each by its own paper, and what it starts from."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from builders import CATALOGUE, architecture, node
from paper_equations import (
    Activation,
    Array,
    Norm,
    Place,
    Weights,
    attention,
    gelu,
    layer_norm,
    linear,
    mlp,
    no_norm,
    relu,
    rms_norm,
)
from paper_fixtures import (
    SIGNALS,
    TOLERANCE,
    Written,
    block_at,
    depth_of,
    disturb,
    error,
    largest_error,
    numbers_of,
    place_of,
    sizes_of,
    through,
    wrong_starts,
)
from paper_starts import ALL, Start, constant, normal, rms, same, uniform, weights, xavier_bound, zeros
from paper_starts import layer as layer_norms
from reading import transformer

from ablate.compiler import compile_model
from ablate.compiler.initialise import profile

pytestmark = pytest.mark.fast

GRAMMAR = transformer()
Gains = tuple[float | Array, float | Array]


def pre(
    x: Array, p: Weights, at: Place, *, norm: Norm = layer_norm, act: Activation = gelu, gains: Gains = (1, 1)
) -> Array:
    """x + β Attn(Norm(x)), then the same of the MLP."""
    y = x + gains[0] * attention(norm(x, p, "attention_norm"), p, at)
    return y + gains[1] * mlp(norm(y, p, "mlp_norm"), p, act)


def post(x: Array, p: Weights, at: Place, *, act: Activation = relu, skips: Gains = (1, 1)) -> Array:
    """LayerNorm(α x + Attn(x)), then the same of the MLP."""
    y = layer_norm(skips[0] * x + attention(x, p, at), p, "attention_post_norm")
    return layer_norm(skips[1] * y + mlp(y, p, act), p, "mlp_post_norm")


def parallel(x: Array, p: Weights, at: Place) -> Array:
    """Black et al. 2022, arXiv:2204.06745: x + Attn(LN_1(x)) + FF(LN_2(x)), two norms where GPT-J has one."""
    return x + attention(layer_norm(x, p, "attention_norm"), p, at) + mlp(layer_norm(x, p, "mlp_norm"), p, gelu)


def sandwich(x: Array, p: Weights, at: Place) -> Array:
    """Ding et al. 2021, arXiv:2105.13290: x + LN(f(LN(x)))."""
    y = x + layer_norm(attention(layer_norm(x, p, "attention_norm"), p, at), p, "attention_post_norm")
    return y + layer_norm(mlp(layer_norm(y, p, "mlp_norm"), p, gelu), p, "mlp_post_norm")


def macaron(x: Array, p: Weights, at: Place) -> Array:
    """Lu et al. 2019, arXiv:1906.02762, Eq. 11: half an MLP, attention, half another MLP."""
    x = x + mlp(layer_norm(x, p, "mlp_norm"), p, gelu) / 2
    x = x + attention(layer_norm(x, p, "attention_norm"), p, at)
    return x + mlp(layer_norm(x, p, "mlp_2_norm"), p, gelu, name="mlp_2") / 2


def trained(x: Array, p: Weights, at: Place, **options: object) -> Array:
    """A trained gain before each branch: SkipInit, ReZero, LayerScale."""
    gains = p["attention_residual.gain.factor"], p["mlp_residual.gain.factor"]
    return pre(x, p, at, gains=gains, **options)


def deepnorm(x: Array, p: Weights, at: Place) -> Array:
    """Wang et al. 2022, arXiv:2203.00555, Fig. 2, of a decoder alone: LN(α x + f(x)), α = (2N)^¼."""
    alpha = (2 * at.depth) ** 0.25
    return post(x, p, at, skips=(alpha, alpha))


def admin(x: Array, p: Weights, at: Place) -> Array:
    """Liu et al. 2020, arXiv:2004.08249: LN(ω ⊙ x + f(x))."""
    return post(x, p, at, skips=(p["attention_admin.omega"], p["mlp_admin.omega"]))


def mup(x: Array, p: Weights, at: Place) -> Array:
    """Yang et al. 2022, arXiv:2203.03466, Def. 4.1: scores are q·k/d_k, and as ever at the base's heads of 32."""
    y = x + attention(layer_norm(x, p, "attention_norm"), p, at, scale=math.sqrt(32) / at.head_width)
    return y + mlp(layer_norm(y, p, "mlp_norm"), p, gelu)


def catformer(x: Array, p: Weights, at: Place) -> Array:
    """Davis et al. 2021: J [x ; N f(LN(x))], first of attention and then of the MLP."""

    def joined(x: Array, branch: Array, name: str) -> Array:
        beside = np.concatenate((x, linear(branch, p, f"{name}.narrow")), axis=-1)
        return linear(beside, p, f"{name}.join")

    y = joined(x, attention(layer_norm(x, p, "attention_norm"), p, at), "attention_concatenation")
    return joined(y, mlp(layer_norm(y, p, "mlp_norm"), p, gelu), "mlp_concatenation")


def noci(x: Array, p: Weights, at: Place) -> Array:
    """Noci et al. 2022, arXiv:2206.03126, Sec. 3.3: α = 1/√L."""
    return pre(x, p, at, act=relu, gains=(at.depth**-0.5, at.depth**-0.5))


# What they start from


PRE, POST = ("attention_norm", "mlp_norm"), ("attention_post_norm", "mlp_post_norm")


def plain(*norms: str) -> Callable[[Place], dict[str, Start]]:
    """The model's own init, and LayerNorms."""
    return lambda at: same(normal(0.02), *ALL) | layer_norms(at.width, *norms)


def macaron_starts(at: Place) -> dict[str, Start]:
    second = {f"mlp_2.{name}.weight": normal(0.02) for name in ("up", "down")}
    return plain(*PRE, "mlp_2_norm")(at) | second


def by_fans(at: Place, of: Callable[[int, int], Start], *names: str) -> dict[str, Start]:
    """A start by the widths of a weight, [d_out, d_in]."""
    fans = {"up": (at.width, 4 * at.width), "down": (4 * at.width, at.width)}
    return weights(**{name: of(*fans.get(name, (at.width, at.width))) for name in names})


def glorot(gain: float = 1.0) -> Callable[[int, int], Start]:
    return lambda d_in, d_out: uniform(xavier_bound(d_in, d_out, gain))


def glorot_normal(gain: float = 1.0) -> Callable[[int, int], Start]:
    return lambda d_in, d_out: normal(gain * math.sqrt(2 / (d_in + d_out)))


def ds_init_starts(at: Place) -> dict[str, Start]:
    """Zhang et al. 2019, arXiv:1908.11365, Eq. 7 at α = 1: U(-γ/√l, γ/√l), γ = √(6 / (d_i + d_o))."""
    return by_fans(at, glorot(1 / math.sqrt(at.layer)), *ALL) | layer_norms(at.width, *POST)


def catformer_starts(at: Place) -> dict[str, Start]:
    """N and J of fan-in variance, so that what they give is as large as what they read."""
    fans = {"narrow": at.width, "join": 2 * at.width}
    names = [f"{of}_concatenation.{name}.weight" for of in ("attention", "mlp") for name in fans]
    return plain(*PRE)(at) | {name: normal(fans[name.split(".")[1]] ** -0.5) for name in names}


def admin_starts(at: Place) -> dict[str, Start]:
    """Before the profiling pass."""
    omegas = {f"{name}_admin.omega": constant(1, at.width) for name in ("attention", "mlp")}
    return by_fans(at, glorot(), *ALL) | omegas | layer_norms(at.width, *POST)


def deepnorm_starts(at: Place) -> dict[str, Start]:
    """β = (8N)^-¼ for values, projections and MLPs, 1 for queries and keys; xavier_normal_."""
    beta = (8 * at.depth) ** -0.25
    scaled = by_fans(at, glorot_normal(beta), "value", "projection", "up", "down")
    return scaled | by_fans(at, glorot_normal(), "query", "key") | layer_norms(at.width, *POST)


def gains_at(value: float, *shape: int) -> dict[str, Start]:
    return {f"{name}_residual.gain.factor": constant(value, *shape) for name in ("attention", "mlp")}


def skipinit_starts(at: Place) -> dict[str, Start]:
    matrices = by_fans(at, glorot(), "value", "projection", "up", "down") | same(normal(0.02), "query", "key")
    return matrices | gains_at(0)


def layer_scale_starts(at: Place) -> dict[str, Start]:
    """Touvron et al. 2021, arXiv:2103.17239, Sec. 2: 0.1 up to 18 layers; one a channel."""
    return plain(*PRE)(at) | gains_at(0.1, at.width)


def mup_starts(at: Place) -> dict[str, Start]:
    """Variance 1/fan-in for hidden matrices (Table 8), zero for queries (App. D.2)."""
    hidden = by_fans(at, lambda d_in, d_out: normal(d_in**-0.5), "key", "value", "projection", "up", "down")
    return hidden | same(zeros(), "query") | layer_norms(at.width, *PRE)


BLOCKS = {
    "pre_ln": Written(pre, plain(*PRE)),
    "pre_rms": Written(partial(pre, norm=rms_norm), lambda at: plain()(at) | rms(at.width, *PRE)),
    "post_ln": Written(partial(post, act=gelu), plain(*POST)),
    "parallel": Written(parallel, plain(*PRE)),
    "sandwich": Written(sandwich, plain(*PRE, *POST)),
    "macaron": Written(macaron, macaron_starts),
    "ds_init": Written(post, ds_init_starts),
    "admin": Written(admin, admin_starts),
    "skipinit": Written(partial(trained, norm=no_norm, act=relu), skipinit_starts),
    "rezero": Written(partial(trained, norm=no_norm, act=relu), lambda at: plain()(at) | gains_at(0)),
    "layer_scale": Written(trained, layer_scale_starts),
    "bamboo": Written(pre, plain(*PRE)),  # Xue et al. 2023, arXiv:2306.00955: Pre-LN
    "catformer": Written(catformer, catformer_starts),
    "deepnorm": Written(deepnorm, deepnorm_starts),
    "mup": Written(mup, mup_starts),
    "noci": Written(noci, plain(*PRE)),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_output_is_the_papers(name):
    assert largest_error(GRAMMAR.block(name), BLOCKS[name], depth_of(name)) < TOLERANCE


@pytest.mark.parametrize("name", BLOCKS)
def test_parameters_start_as_the_paper_says(name):
    assert wrong_starts(name, BLOCKS[name]) == []


@pytest.mark.parametrize(("depth", "start"), [(18, 0.1), (19, 1e-5), (24, 1e-5), (25, 1e-6), (192, 1e-6)])
def test_layer_scale_starts_smaller_in_deeper_models(depth, start):
    block = block_at(GRAMMAR.block("layer_scale"), sizes_of(depth), 1, "fan_in: {gain: 1}")
    gains = numbers_of(block)["attention_residual.gain.factor"]
    np.testing.assert_allclose(gains, np.full(16, start), rtol=1e-12)


@pytest.mark.parametrize("width", [128, 256])
def test_mup_learns_slower_in_wider_matrices_and_in_nothing_else(width):
    """Table 8, for Adam: hidden matrices at 1/fan-in of the base's rate; norms as they are."""
    module = block_at(GRAMMAR.block("mup"), sizes_of(2, width), 1, "fan_in: {gain: 1}")
    rates = {
        f"{name}.{parameter}": rate
        for name, part in module.named_modules()
        for parameter, rate in getattr(part, "rates", {}).items()
    }
    assert rates == dict.fromkeys(same(zeros(), *ALL), 128 / width)


def test_mup_is_what_it_was_at_its_base():
    """At heads of 32 the scale is 1/√d_k; elsewhere it is not."""
    assert math.sqrt(32) / 32 == pytest.approx(1 / math.sqrt(32), rel=1e-15)
    standard = Written(partial(pre), BLOCKS["mup"].starts)
    assert largest_error(GRAMMAR.block("mup"), standard, 6) > 1e-3


# ADMIN looks at data


def admin_model() -> torch.nn.Module:
    around = {"embedding_std": 1, "embedding_scale": 0.7, "init": node("normal", std=0.3)}
    return compile_model(
        architecture(GRAMMAR.block("admin"), sizes=sizes_of(3), **around), CATALOGUE, dtype=torch.float64
    )


def tokens() -> torch.Tensor:
    return torch.randint(11, (5, 10), generator=torch.Generator().manual_seed(0))


def branch_variances(x: Array, layers: list[Weights]) -> list[float]:
    """Var of x_0 and of each f_i(x_{i-1}), in a Post-LN model without ω."""
    seen = [x.var()]
    for layer, p in enumerate(layers, 1):
        for branch, name in (
            (lambda x, p=p, at=place_of(sizes_of(3), layer): attention(x, p, at), "attention_post_norm"),
            (lambda x, p=p: mlp(x, p, relu), "mlp_post_norm"),
        ):
            seen.append(branch(x).var())
            x = layer_norm(x + branch(x), p, name)
    return [float(value) for value in seen]


def test_admin_starts_from_what_a_pass_over_data_shows():
    """ω_1 = 1 and ω_i² = Var[x_0] + Σ_{j<i} Var[f_j(x_{j-1})]; then the model is the paper's with these ω."""
    model = admin_model()
    before = numbers_of(model)
    layers = [
        Weights({k.removeprefix(f"layers.{n}."): v.copy() for k, v in before.items() if k.startswith(f"layers.{n}.")})
        for n in (1, 2, 3)
    ]
    x = 0.7 * before["embedding.weight"][tokens().numpy()]
    variances = branch_variances(x, layers)
    profile(model, tokens())
    wanted = [1.0, *(math.sqrt(sum(variances[: n + 1])) for n in range(1, 6))]
    seen = [model.get_parameter(f"layers.{n}.{name}_admin.omega") for n in (1, 2, 3) for name in ("attention", "mlp")]
    for omega, number in zip(seen, wanted, strict=True):
        np.testing.assert_allclose(omega.detach().numpy(), np.full(16, number), rtol=1e-12)
    assert len({round(number, 3) for number in wanted}) == 6
    for n, p in enumerate(layers, 1):
        block = model.get_submodule(f"layers.{n}")
        calibrated = Weights(numbers_of(block))
        at = place_of(sizes_of(3), n)
        assert error(through(block, SIGNALS[0]), admin(SIGNALS[0], calibrated, at)) < TOLERANCE
        assert n == 1 or error(through(block, SIGNALS[0]), admin(SIGNALS[0], p, at)) > 1e-3
        disturb(block, n)
        assert error(through(block, SIGNALS[0]), admin(SIGNALS[0], Weights(numbers_of(block)), at)) < TOLERANCE
