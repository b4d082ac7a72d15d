"""Activations as modules and as curves: against formulas, against derivatives taken here, and in a deep stack."""

import copy
import math
from functools import partial

import numpy as np
import pytest
import torch
from builders import CATALOGUE, SIZES, architecture, node, sequence
from reading import read_block
from scipy.special import erf

from ablate.block.expression import Size
from ablate.block.sizes import Cost, PartMaker, Sizes
from ablate.compiler import compile_block
from ablate.components.registry import implementation
from ablate.errors import InputError
from ablate.plan.size import cost

ROOT = math.sqrt(2 / math.pi)
# Of SELU, in closed form: E[y] = 0 gives the first, and E[y²] = 1 the second.
SELU_ALPHA = math.sqrt(2 / math.pi) / (1 - math.exp(0.5) * math.erfc(0.5**0.5))
BELOW = math.exp(2) * math.erfc(2**0.5) / 2 - math.exp(0.5) * math.erfc(0.5**0.5) + 0.5  # E[(exp(z) - 1)²; z < 0]
SELU_SCALE = (0.5 + SELU_ALPHA**2 * BELOW) ** -0.5
FORMULAS = {
    "relu": lambda x: np.maximum(x, 0),
    "relu_squared": lambda x: x * np.maximum(x, 0),
    "selu": lambda x: SELU_SCALE * np.where(x > 0, x, SELU_ALPHA * (np.exp(x) - 1)),
    "gelu": lambda x: x / 2 * (1 + erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: x / 2 * (1 + np.tanh(ROOT * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "softplus": lambda x: np.log1p(np.exp(x)),
}
X = np.linspace(-12, 12, 481) + 1e-3  # 0, where some have a kink, is no point of it


def as_before(name):
    """The added fields of an activation, as a Config has them."""
    return {field: None if value == "stack" else value for field, value in CATALOGUE[name].added.items()}


def config(name, **fields):
    """A declaration, added fields as they were before; `activation` is that of the part inside."""
    fields = {**as_before(name), **fields}
    inner = fields.get("activation")
    if inner is not None:
        fields["activation"] = PartMaker(inner, lambda *text: inner.equation(*text) if text else Cost())
    return CATALOGUE[name].config(**fields)


def module(name, **fields):
    """A module in float64; `activation` is the name of the part inside."""
    made = implementation(CATALOGUE[name])
    fields = {**as_before(name), **fields}
    inner = fields.pop("activation", None)
    if inner is not None:
        part = implementation(CATALOGUE[inner])
        fields["activation"] = PartMaker(part.Config(), lambda: part(part.Config(), SIZES))
    return made(made.Config(**fields), SIZES)


DEEP = {"skip": 0.0, "layers": 24.0}
CURVES = {
    **{name: config(name) for name in FORMULAS},
    "leaky_relu": config("leaky_relu", slope=0.2),
    "elu": config("elu", alpha=1.0),
    "steep_elu": config("elu", alpha=1.7),
    "dks": config("dks", activation=config("gelu"), zeta=5.0, **DEEP),
    "dks_of_relu": config("dks", activation=config("relu"), zeta=5.0, **DEEP),
    "dks_of_elu": config("dks", activation=config("elu", alpha=1.0), zeta=5.0, **DEEP),
    "dks_of_dks": config(
        "dks", activation=config("dks", activation=config("tanh"), zeta=1.5, **DEEP), zeta=5.0, skip=0.9, layers=24.0
    ),
    "tat": config("tat", activation=config("silu"), tau=0.3, **DEEP),
    "tat_leaky_relu": config("tat_leaky_relu", eta=0.9, **DEEP),
    "dks_leaky_relu": config("dks_leaky_relu", zeta=5.0, **DEEP),
    "shifted_leaky_relu": config("dks_leaky_relu", zeta=5.0, q_slope=0.6, **DEEP),
    "rescaled": config("rescaled", activation=config("gelu")),
    "rescaled_relu": config("rescaled", activation=config("relu")),
    "rescaled_relu_squared": config("rescaled", activation=config("relu_squared")),
}
JUMPS = {  # in which derivative, and where
    name: (order, jump)
    for name, each in CURVES.items()
    for order, jumps in ((1, getattr(each, "kinks", ())), (2, getattr(each, "bends", ())))
    for jump in jumps
}


def test_every_activation_is_tried_here():
    assert {CATALOGUE[name].name for name in CATALOGUE.of_slot("activation")} <= set(CURVES)


@pytest.mark.parametrize("name", FORMULAS)
def test_modules_are_their_formulas(name):
    with np.errstate(over="ignore"):
        expected = FORMULAS[name](60 * X)
    y = module(name)(torch.from_numpy(60 * X)).numpy()
    np.testing.assert_allclose(y[X < 11], expected[X < 11], rtol=1e-12, atol=1e-15)
    assert np.isfinite(y).all()


@pytest.mark.parametrize("name", CURVES)
def test_curves_have_the_derivatives_of_their_function(name):
    curve, h = CURVES[name].curve, 1e-3
    f, df, ddf = curve(X)
    assert f.dtype == df.dtype == ddf.dtype == np.float64
    assert f.shape == df.shape == ddf.shape == X.shape
    scale = np.abs(f).max()
    smooth = np.ones_like(X, bool)
    if name in JUMPS:
        smooth &= np.abs(X - JUMPS[name][1]) > 2.5 * h
    assert smooth.sum() > 470
    slope = (8 * (curve(X + h)[0] - curve(X - h)[0]) - (curve(X + 2 * h)[0] - curve(X - 2 * h)[0])) / (12 * h)
    bend = (8 * (curve(X + h)[1] - curve(X - h)[1]) - (curve(X + 2 * h)[1] - curve(X - 2 * h)[1])) / (12 * h)
    np.testing.assert_allclose(df[smooth], slope[smooth], rtol=0, atol=1e-9 * scale)
    np.testing.assert_allclose(ddf[smooth], bend[smooth], rtol=0, atol=1e-9 * scale)
    assert np.abs(ddf - slope).max() > 1e-3  # the comparison can fail


def test_gelu_is_the_same_of_few_numbers_as_of_many():
    """Few are computed one by one, so that a plan need not load SciPy; both are x times the normal distribution."""
    curve, many = CURVES["gelu"].curve, np.linspace(-30, 30, 10_005)
    few = np.concatenate([curve(part)[0] for part in np.array_split(many, 5)])
    np.testing.assert_allclose(few, curve(many)[0], rtol=0, atol=1e-15)
    np.testing.assert_allclose(few, [x * math.erfc(-x / math.sqrt(2)) / 2 for x in many], rtol=1e-12, atol=1e-300)
    assert float(curve(np.float64(1.0))[0]) == pytest.approx(0.8413447460685429, abs=1e-16)
    assert curve(many.reshape(3, 3335)[:, :2])[0].shape == (3, 2)


def test_the_activations_with_jumps_are_these():
    """Each at one input, in the derivative told: 1 at a kink, 2 at a bend."""
    kinked = {"relu", "leaky_relu", "steep_elu", "selu", "dks_of_relu", "tat_leaky_relu", "dks_leaky_relu"}
    kinked |= {"shifted_leaky_relu"}
    bent = {"relu_squared", "elu", "dks_of_elu", "rescaled_relu_squared"}
    assert {name: order for name, (order, _) in JUMPS.items()} == {
        **dict.fromkeys(kinked | {"rescaled_relu"}, 1),
        **dict.fromkeys(bent, 2),
    }
    assert sum(len(getattr(each, kind, ())) for each in CURVES.values() for kind in ("kinks", "bends")) == len(JUMPS)


@pytest.mark.parametrize("name", JUMPS)
def test_at_a_jump_the_derivatives_are_those_from_the_left(name):
    """Of f, f' and f'', those before the one that jumps are continuous; it and the next are those from the left."""
    order, jump = JUMPS[name]
    values = CURVES[name].curve(np.array([jump - 1e-7, jump, jump + 1e-7]))
    for f in values:
        assert abs(f[1] - f[0]) < 1e-5
    for f in values[:order]:
        assert abs(f[2] - f[1]) < 1e-5
    assert abs(values[order][2] - values[order][1]) > 1e-2


@pytest.mark.parametrize("name", JUMPS)
def test_a_module_has_the_slope_of_its_curve_at_a_jump_and_on_both_sides(name):
    order, jump = JUMPS[name]
    x = jump + np.array([-800, -1e-3, 1e-3, 800])
    x = x if order == 1 and jump != 0 else np.append(x, jump)  # by rounding, a shaped kink is met from either side
    for dtype, within in ((torch.float64, 1e-12), (torch.bfloat16, 2e-2)):
        given = torch.from_numpy(x).to(dtype).requires_grad_()
        MODULES[name]().to(dtype)(given).sum().backward()
        expected = CURVES[name].curve(given.detach().double().numpy())[1]
        np.testing.assert_allclose(given.grad.double().numpy(), expected, rtol=within, atol=within)


@pytest.mark.parametrize("name", ["elu", "steep_elu", "selu"])
def test_near_0_exponentials_keep_their_digits_and_far_away_they_reach_their_limits(name):
    """α (x + x²/2) to first orders, where exp(x) - 1 would lose half of the digits; overflows are errors here."""
    alpha, scale = {"elu": (1.0, 1.0), "steep_elu": (1.7, 1.0), "selu": (SELU_ALPHA, SELU_SCALE)}[name]
    x = np.array([-1e-8, -1e-12, -1e-300, 1e-12, -1e4, 1e4])
    expected = scale * np.array([*(alpha * (x + x**2 / 2))[:3], 1e-12, -alpha, 1e4])
    with np.errstate(over="raise", invalid="raise"):
        f, df, ddf = CURVES[name].curve(x)
    np.testing.assert_allclose(f, expected, rtol=1e-13)
    np.testing.assert_allclose(MODULES[name]()(torch.from_numpy(x)).numpy(), expected, rtol=1e-13)
    np.testing.assert_allclose(df[-2:], [0, scale], rtol=1e-13, atol=0)
    np.testing.assert_array_equal(ddf[-3:], 0)


def test_selu_keeps_the_mean_and_the_variance_of_a_normal_input():
    """By a fine sum, on either side of the kink."""
    z = (np.arange(1_200_000) + 0.5) * 1e-5
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi) * 1e-5
    above, below = CURVES["selu"].curve(z)[0], CURVES["selu"].curve(-z)[0]
    assert density @ (above + below) == pytest.approx(0, abs=1e-9)
    assert density @ (above**2 + below**2) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize(
    ("name", "factor"), [("gelu", 1.5335), ("sigmoid", 1.8462), ("relu", 2**0.5), ("relu_squared", 1.5**-0.5)]
)
def test_rescaled_keeps_the_mean_square_of_a_normal_input(name, factor):
    """By the numbers that the blocks of ESPA have on the weights behind their activations, and by a fine sum."""
    z = np.linspace(-12, 12, 240_001)
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi) * (z[1] - z[0])
    y = config("rescaled", activation=config(name)).curve(z)[0]
    assert (density * y**2).sum() == pytest.approx(1, abs=1e-9)
    assert y[-1] / config(name).curve(z)[0][-1] == pytest.approx(factor, abs=5e-5)


@pytest.mark.parametrize("name", CURVES)
def test_modules_are_their_curves(name):
    made = MODULES[name]()
    expected = CURVES[name].curve(X)[0]
    np.testing.assert_allclose(made(torch.from_numpy(X)).numpy(), expected, rtol=1e-12, atol=1e-13)
    half = copy.deepcopy(made).to(torch.bfloat16)(torch.from_numpy(X).bfloat16())
    assert half.dtype == torch.bfloat16
    np.testing.assert_allclose(half.double().numpy(), expected, rtol=2e-2, atol=3e-2)


def nested(inner, skip):
    """The module of DKS of another component, as a block builds it."""
    block = sequence(node("mlp", activation=node("dks", activation=inner, zeta=5.0, skip=skip)))
    return compile_block(block, SIZES, CATALOGUE, init=node("fan_in"), dtype=torch.float64).mlp.activation


MODULES = {
    **{name: partial(module, name) for name in FORMULAS},
    "leaky_relu": lambda: module("leaky_relu", slope=0.2),
    "elu": lambda: module("elu", alpha=1.0),
    "steep_elu": lambda: module("elu", alpha=1.7),
    "dks": lambda: module("dks", activation="gelu", zeta=5.0, **DEEP),
    "dks_of_relu": lambda: module("dks", activation="relu", zeta=5.0, **DEEP),
    "dks_of_elu": lambda: nested(node("elu", alpha=1.0), "0"),
    "dks_of_dks": lambda: nested(node("dks", activation="tanh", zeta=1.5), "0.9"),
    "tat": lambda: module("tat", activation="silu", tau=0.3, **DEEP),
    "tat_leaky_relu": lambda: module("tat_leaky_relu", eta=0.9, **DEEP),
    "dks_leaky_relu": lambda: module("dks_leaky_relu", zeta=5.0, **DEEP),
    "shifted_leaky_relu": lambda: module("dks_leaky_relu", zeta=5.0, q_slope=0.6, **DEEP),
    "rescaled": lambda: module("rescaled", activation="gelu"),
    "rescaled_relu": lambda: module("rescaled", activation="relu"),
    "rescaled_relu_squared": lambda: module("rescaled", activation="relu_squared"),
}


def test_maps_magnify_in_float32_what_bfloat16_would_lose():
    made = module("dks", activation="gelu", zeta=5.0, skip=0.0, layers=1000.0)
    x = torch.randn(4000, generator=torch.Generator().manual_seed(0)).bfloat16()
    exact = made(x.double())
    affine = made.affine
    rounded = affine.output_scale * (
        torch.nn.functional.gelu(affine.input_scale * x + affine.input_shift) + affine.output_shift
    )
    small = exact.abs() < 1
    assert (made(x).double() - exact)[small].abs().max() <= 2**-9  # the rounding of the result alone
    assert (rounded.double() - exact)[small].abs().max() > 2**-6


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("relu", "ReLU(x)"),
        ("relu_squared", "ReLU(x)²"),
        ("elu", "ELU(x; 1)"),
        ("steep_elu", "ELU(x; 1.7)"),
        ("selu", "SELU(x)"),
        ("leaky_relu", "LeakyReLU(x; 0.2)"),
        ("gelu", "GELU(x)"),
        ("gelu_tanh", "GELU_tanh(x)"),
        ("silu", "SiLU(x)"),
        ("tanh", "tanh(x)"),
        ("sigmoid", "σ(x)"),
        ("softplus", "softplus(x)"),
        ("dks", "3.87 (GELU(0.3769 x + 0.2348) - 0.1896)"),
        ("tat", "7.766 (SiLU(0.1793 x + 0.4484) - 0.2707)"),
        ("tat_leaky_relu", "1.376 LeakyReLU(x; 0.2385)"),
        ("dks_leaky_relu", "1.31 (LeakyReLU(x; 0.4961) - 0.201)"),
        ("rescaled", "1.534 GELU(x)"),
        ("rescaled_relu", "1.414 ReLU(x)"),
        ("rescaled_relu_squared", "0.8165 ReLU(x)²"),
    ],
)
def test_equations(name, text):
    assert CURVES[name].equation("x") == text


def test_an_equation_of_an_expression_sets_it_in_parentheses():
    assert "GELU(0.3769 (x W) + 0.2348)" in CURVES["dks"].equation("x W")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[mlp: {activation: {dks: {zeta: 1}}}]", "expected a number above 1, got 1"),
        ("[mlp: {activation: {tat: {tau: 0}}}]", "expected a number above 0, got 0"),
        ("[mlp: {activation: {tat_leaky_relu: 1}}]", "expected a number below 1, got 1"),
        ("[mlp: {activation: {elu: 0}}]", "expected a number above 0, got 0"),
    ],
)
def test_targets_that_no_network_can_have_are_refused_where_they_are_read(text, said):
    with pytest.raises(InputError) as refused:
        read_block(text)
    assert said in str(refused.value).splitlines()[0]


@pytest.mark.parametrize(
    ("activation", "said"),
    [
        (node("tat_leaky_relu", eta=0.9, layers="12"), "eta 0.9 over 12 layers; the largest is 0.8971"),
        (node("tat_leaky_relu", eta=0.9, layers="depth"), "eta 0.9 over 2 layers; the largest is 0.4937"),
        (node("dks_leaky_relu", zeta=5.0, layers="depth"), "zeta 5 over 2 layers requires; the largest is 1.467"),
        (
            node("dks", activation="softplus", layers="depth"),
            "zeta 5 over 2 layers requires; the largest found is 1.467",
        ),
        (node("tat", activation="relu"), "infinite for relu"),
        (node("tat", activation=node("dks", activation="relu")), "infinite for dks"),
        (node("tat", activation="selu"), "infinite for selu"),
        (node("dks", activation="relu_squared"), "DKS finds no maps around relu_squared"),
        (node("tat", activation=node("elu", alpha=0.9)), "infinite for elu"),
        (node("dks", layers="depth/4"), "dks.layers is depth/4, which is 0.5 in layer 1 of 2"),
        (node("dks", skip="2"), "dks.skip is 2"),
    ],
)
def test_what_cannot_be_shaped_is_refused_before_anything_runs(activation, said):
    with pytest.raises(InputError) as refused:
        cost(architecture(sequence(node("mlp", activation=activation))), CATALOGUE)
    assert said in str(refused.value).splitlines()[0]


def test_a_network_within_reach_costs_what_the_bare_activation_does():
    shaped = architecture(sequence(node("mlp", activation=node("dks", layers="12*depth"))))
    assert cost(shaped, CATALOGUE) == cost(architecture(sequence(node("mlp", activation="gelu"))), CATALOGUE)


def correlations(activation, c: float, depth: int = 24, width: int = 512, pairs: int = 256) -> np.ndarray:
    """The mean cosine of pairs of tokens of cosine c after each MLP of a skipless stack."""
    mlp = node("mlp", activation=activation, hidden=Size(units=width))
    sizes = Sizes(n_layers=depth, d_model=width, n_heads=1, seq_len=2 * pairs, vocab_size=2)
    stack = compile_block(sequence(*[mlp] * depth), sizes, CATALOGUE, init=node("fan_in", gain="1"))
    draw = torch.Generator().manual_seed(1)
    u, v = torch.linalg.qr(torch.randn(pairs, width, 2, generator=draw)).Q.unbind(-1)
    x = math.sqrt(width) * torch.cat((u, c * u + math.sqrt(1 - c * c) * v))[None]
    seen = []
    with torch.no_grad():
        for layer in stack.children():
            x = layer(x)
            seen.append(torch.cosine_similarity(x[0, :pairs], x[0, pairs:], dim=-1).mean().item())
    return np.array(seen)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["dks", "tat_leaky_relu"])
def test_correlations_pass_a_deep_stack_as_the_maps_predict(name):
    """Each MLP is two linear maps around one activation, so each layer's correlation is C of the one before."""
    from ablate.signal.kernel_maps import correlation_map

    c = 0.4
    seen, predicted = correlations(node(name), c), []
    for _ in seen:
        c = correlation_map(CURVES[name], c)
        predicted.append(c)
    assert np.abs(seen - predicted).max() < 0.05
    plain = correlations("relu", 0.4)
    assert plain[-1] > 0.95  # unshaped, the stack forgets which token is which
    assert np.abs(plain - predicted).max() > 0.1
