"""Every way of joining a branch that the papers compare, said in the algebra and held to its equation in NumPy.

The prior methods that Table 11 of "Transformers Get Stable" compares are here by their own papers' formulas.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from builders import CATALOGUE, SIZES, architecture, default_init, gain, node, residual, sequence

from ablate.block.expression import Size
from ablate.compiler import compile_block, compile_model
from ablate.compiler.compile import size_report
from ablate.compiler.initialise import profile
from ablate.plan.size import block_costs, cost

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 12, 16))
LAYERS = 4
DEEP = replace(SIZES, n_layers=LAYERS)
NORM = node("layer_norm", eps=1e-5, scale=False)


def branch(init=None):
    """A linear map: x ↦ x Wᵀ, so that what joins it is all there is to compute."""
    return node(
        "mlp",
        activation=node("leaky_relu", slope=1.0),
        hidden=Size(units=16),
        up="identity",
        down=node("dense", init=init),
    )


def standardise(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def stack(block):
    return [
        compile_block(block, DEEP, CATALOGUE, layer=layer, init=default_init(), dtype=torch.float64)
        for layer in range(1, LAYERS + 1)
    ]


def through(layers, x=X):
    y = torch.from_numpy(x)
    for layer in layers:
        y = layer(y)
    return y.detach().numpy()


def pre(skip, beta):
    return lambda x, f, layer: skip(layer) * x + beta(layer) * f(standardise(x))


def post(skip, beta):
    return lambda x, f, layer: standardise(skip(layer) * x + beta(layer) * f(x))


def constant(value):
    return lambda layer: value


N = LAYERS
ALPHA = 0.9
METHODS = {
    # name: (block, rule of one layer)
    "normalised": (  # arXiv:2302.10322, Eq. 6 with α² + β² = 1
        sequence(residual(NORM, branch(), skip=ALPHA, gain=f"sqrt(1-{ALPHA}**2)")),
        pre(constant(ALPHA), constant(math.sqrt(1 - ALPHA**2))),
    ),
    "stable": (  # arXiv:2010.12859
        sequence(residual(NORM, branch(), gain="1/sqrt(depth)")),
        pre(constant(1), constant(1 / math.sqrt(N))),
    ),
    "skipinit": (  # arXiv:2002.10444: a trained scalar that starts at 0
        sequence(residual(NORM, branch(), gain=gain(0, trainable=True))),
        pre(constant(1), constant(0)),
    ),
    "rezero": (  # arXiv:2003.04887: the same, without norms
        sequence(residual(branch(), gain=gain(0, trainable=True))),
        lambda x, f, layer: x,
    ),
    "layerscale": (  # arXiv:2103.17239: one trained number a channel
        sequence(residual(NORM, branch(), gain=gain(0.1, trainable=True, per="channel"))),
        pre(constant(1), constant(0.1)),
    ),
    "deepnorm": (  # arXiv:2203.00555, Eq. 1: Post-LN with α = (2N)^(1/4)
        sequence(residual(branch(), skip="(2*depth)**0.25"), NORM),
        post(constant((2 * N) ** 0.25), constant(1)),
    ),
    "deepscalelm": (  # λ² = 1 - 2/N, β² = 2/N
        sequence(residual(NORM, branch(), skip="sqrt(1-2/depth)", gain="sqrt(2/depth)")),
        pre(constant(math.sqrt(1 - 2 / N)), constant(math.sqrt(2 / N))),
    ),
    "by_layer": (
        sequence(residual(branch(), gain="1/layer")),
        lambda x, f, layer: x + f(x) / layer,
    ),
}


@pytest.mark.fast
@pytest.mark.parametrize("name", list(METHODS))
def test_a_method_is_its_equation(name):
    block, rule = METHODS[name]
    layers = stack(block)
    expected = X
    for number, layer in enumerate(layers, start=1):
        weight = layer.mlp.down.weight.detach().numpy()
        expected = rule(expected, lambda x, weight=weight: x @ weight.T, number)
    np.testing.assert_allclose(through(layers), expected, rtol=1e-10, atol=1e-12)
    others = [through(stack(other)) for label, (other, _) in METHODS.items() if label != name]
    assert min(np.abs(other - expected).max() for other in others) > 1e-3 or name in ("rezero", "skipinit")


@pytest.mark.fast
@pytest.mark.parametrize(
    ("name", "shape"),
    [("skipinit", ()), ("rezero", ()), ("layerscale", (16,))],
    ids=["skipinit", "rezero", "layerscale"],
)
def test_trained_gains_are_there_to_train(name, shape):
    (layer, *_) = stack(METHODS[name][0])
    assert layer.mlp_residual.gain.factor.shape == shape


@pytest.mark.fast
def test_conserving_gains_keep_the_second_moment_and_plain_ones_do_not():
    """λ² + β² = 1 keeps the mean square of skip and branch where they are uncorrelated and alike."""
    init = node("orthogonal")
    kept, grown = (
        stack(sequence(residual(NORM, branch(init), skip=skip, gain=beta)))
        for skip, beta in (("sqrt(1-2/depth)", "sqrt(2/depth)"), (1, 1))
    )
    x = standardise(np.random.default_rng(1).normal(size=(64, 12, 16)))
    assert np.mean(through(kept, x) ** 2) == pytest.approx(1, abs=0.25)
    assert np.mean(through(grown, x) ** 2) > 3


ADMIN = sequence(node("admin", branch=["attention"]), "layer_norm", node("admin", branch=["mlp"]), "layer_norm")


def admin_model(**around):
    return compile_model(architecture(ADMIN, sizes=DEEP, **around), CATALOGUE, dtype=torch.float64)


TOKENS = torch.randint(11, (3, 12), generator=torch.Generator().manual_seed(0))


def omegas(model):
    return [
        getattr(layer, name).omega.detach().numpy()
        for layer in model.layers.values()
        for name in ("attention_admin", "mlp_admin")
    ]


@pytest.mark.fast
def test_admin_is_its_equation():
    block = sequence(node("admin", branch=[branch()]))
    layer = compile_block(block, DEEP, CATALOGUE, init=default_init(), dtype=torch.float64)
    assert layer.mlp_admin.omega.tolist() == [1.0] * 16
    with torch.no_grad():
        layer.mlp_admin.omega.copy_(torch.linspace(0, 2, 16, dtype=torch.float64))
    expected = np.linspace(0, 2, 16) * X + X @ layer.mlp.down.weight.detach().numpy().T
    np.testing.assert_allclose(through([layer]), expected, rtol=1e-10, atol=1e-12)
    assert cost(architecture(ADMIN), CATALOGUE) == size_report(architecture(ADMIN), CATALOGUE)


@pytest.mark.fast
def test_profiling_sets_omega_from_the_variances_of_the_branches_before():
    """arXiv:2004.08249: ω_i² is the variance that came before, measured at ω = 1, the embedding's included."""
    model = admin_model(init=default_init())
    x = model.embedding(TOKENS)
    before, expected = x.detach().numpy().var(), []
    for layer in model.layers.values():
        for part, norm in (("attention", "attention_post_norm"), ("mlp", "mlp_post_norm")):
            f = getattr(layer, part)(x)
            expected.append(math.sqrt(before) if expected else 1.0)
            before += f.detach().numpy().var()
            x = getattr(layer, norm)(x + f)
    profile(model, TOKENS)
    found = omegas(model)
    for omega, value in zip(found, expected, strict=True):
        np.testing.assert_allclose(omega, np.full(16, value), rtol=1e-10)
    assert expected == sorted(expected) and expected[-1] > 2 * expected[1]


FIRST = node("first_layer", inside=["layer_norm"])


@pytest.mark.fast
def test_first_layer_stands_in_layer_one_alone():
    block = sequence(residual(FIRST, branch()))
    layers = stack(block)
    names = [set(dict(layer.named_modules())) for layer in layers]
    norm = "mlp_norm"
    assert norm in names[0] and not any(norm in later for later in names[1:])
    expected = X
    for number, layer in enumerate(layers, start=1):
        weight = layer.mlp.down.weight.detach().numpy()
        expected = expected + (standardise(expected) if number == 1 else expected) @ weight.T
    np.testing.assert_allclose(through(layers), expected, rtol=1e-10, atol=1e-12)
    everywhere = through(stack(sequence(residual(NORM, branch()))))
    assert np.abs(everywhere - expected).max() > 1e-2


@pytest.mark.fast
def test_what_a_layer_leaves_out_costs_nothing_and_has_no_address():
    model = architecture(sequence(residual(FIRST, "mlp")))
    assert cost(model, CATALOGUE) == size_report(model, CATALOGUE)
    block = model.block
    first, second = (block_costs(block, SIZES, CATALOGUE, layer) for layer in (1, 2))
    assert set(first) - {f"layers.1.{name.removeprefix('layers.2.')}" for name in second} == {"layers.1.mlp_norm"}
    assert first["layers.1.mlp_norm"].parameters == 16
    parameters = {name for name, _ in compile_model(model, CATALOGUE).named_parameters()}
    assert "layers.1.mlp_norm.scale" in parameters and "layers.2.mlp_norm.scale" not in parameters


@pytest.mark.fast
def test_the_first_layers_norm_starts_as_any_norm_there():
    models = [
        compile_model(architecture(sequence(residual(norm, "mlp"))), CATALOGUE).state_dict()
        for norm in (FIRST, node("layer_norm"))
    ]
    assert all(torch.equal(value, models[1][name]) for name, value in models[0].items())
    assert set(models[1]) - set(models[0]) == {"layers.2.mlp_norm.scale"}


@pytest.mark.fast
@pytest.mark.parametrize("multiple", [0.25, 1.0])
def test_concatenation_is_one_matrix_on_the_input_beside_its_narrowed_branch(multiple):
    """Davis et al. 2021: J [x ; N f(x)]."""
    block = sequence(node("concatenation", width=Size(multiple=multiple), branch=sequence(NORM, branch())))
    assert cost(architecture(block), CATALOGUE) == size_report(architecture(block), CATALOGUE)
    layer = compile_block(block, SIZES, CATALOGUE, init=default_init(), dtype=torch.float64)
    w = {name: value.detach().numpy() for name, value in layer.named_parameters()}
    (narrow, join) = (w[f"mlp_concatenation.{name}.weight"] for name in ("narrow", "join"))
    assert narrow.shape == (int(16 * multiple), 16) and join.shape == (16, 16 + int(16 * multiple))
    beside = standardise(X) @ w["mlp.down.weight"].T @ narrow.T
    expected = X @ join[:, :16].T + beside @ join[:, 16:].T
    np.testing.assert_allclose(through([layer]), expected, rtol=1e-10, atol=1e-12)


def test_concatenation_starts_as_a_skip_that_is_weighted_down():
    """arXiv:2302.10322, Sec. 2: similarities behind it are α² of the input's and β² of the branch's, α² = D/(D + W).

    Over many draws of the matrices; what a skip of full weight gives (the twin) is far from it.
    """
    fan_in = node("dense", init="fan_in")
    block = sequence(
        node("concatenation", width=Size(multiple=0.25), narrow=fan_in, join=fan_in, branch=sequence(branch()))
    )
    found = []
    for seed in range(400):
        layer = compile_block(block, SIZES, CATALOGUE, init=default_init(), dtype=torch.float64, seed=seed)
        y, f = through([layer])[0], X[0] @ layer.mlp.down.weight.detach().numpy().T
        found.append((y @ y.T, f @ f.T))
    kernel, of_branch = (np.mean(one, axis=0) for one in zip(*found, strict=True))
    expected = 0.8 * X[0] @ X[0].T + 0.2 * of_branch
    size = np.abs(expected).max()
    assert np.abs(kernel - expected).max() < 0.1 * size
    assert np.abs(kernel - (X[0] @ X[0].T + of_branch)).max() > 0.15 * size
