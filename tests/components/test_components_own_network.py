"""Activations that are solved for the network of the model's own blocks, against its slopes composed by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from builders import CATALOGUE, SIZES, architecture, default_init, gain, node, residual, sequence
from reading import read_block

from ablate.block.equation import equation, equations
from ablate.block.expression import Node, Series
from ablate.block.network import Layer, Repeated, layers_in, own_network
from ablate.block.network import residual as shares
from ablate.compiler import compile_block, compile_model
from ablate.errors import InputError
from ablate.kernels.prescribed import ShapedActivation
from ablate.plan.size import block_costs
from ablate.theory.models import forecast

DEPTH = 6
SIZED = replace(SIZES, n_layers=DEPTH)


def dks(activation="gelu", zeta=1.5, network="block", layers="depth", **fields):
    return node("dks", activation=activation, zeta=zeta, network=network, layers=layers, **fields)


def mlp(activation=None):
    return node("mlp", activation=activation or dks())


def built(block, layer=1, sizes=SIZED):
    """The activation of the block's MLP in a layer, in float64."""
    return compile_block(block, sizes, CATALOGUE, layer=layer, init=default_init(), dtype=torch.float64).mlp.activation


def affine(block):
    return built(block).affine


def local(activation):
    """E φ̂'², E φ̂''² and E φ̂ φ̂' z of a smooth module, by the trapezoidal rule, which is exact here to rounding."""
    z = torch.linspace(-9, 9, 20_001, dtype=torch.float64, requires_grad=True)
    y = activation(z)
    (slope,) = torch.autograd.grad(y.sum(), z, create_graph=True)
    (bend,) = torch.autograd.grad(slope.sum(), z)
    weight = torch.exp(-z * z / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    return [float((weight * each).sum().detach()) for each in (slope**2, bend**2, y * slope * z)]


def mixed(skip, *branches):
    """The slope of a residual, from its skip's gain and the (gain, slope) of its branches."""
    total = skip**2 + sum(gain**2 for gain, _ in branches)
    return (skip**2 + sum(gain**2 * slope for gain, slope in branches)) / total


def agree(one, other):
    for field in ("input_scale", "input_shift", "output_shift", "output_scale"):
        assert math.isclose(getattr(one, field), getattr(other, field), rel_tol=1e-7)


SOLVED = {
    "dks": {"activation": "gelu", "zeta": 1.5},
    "tat": {"activation": "tanh", "tau": 0.3},
    "dks_leaky_relu": {"zeta": 1.5},
    "tat_leaky_relu": {"eta": 0.2},
}


@pytest.mark.parametrize("name", SOLVED)
@pytest.mark.parametrize("skip", [0.0, 0.6])
def test_a_block_of_equal_residuals_gives_the_numbers_of_the_stack(name, skip):
    fields = SOLVED[name]
    own, stack = (
        node("mlp", activation=node(name, **fields, **network))
        for network in (
            {"network": "block", "layers": "depth"},
            {"network": "stack", "layers": "6", "skip": str(skip)},
        )
    )
    block = sequence(residual("attention", skip=skip), residual(own, skip=skip, gain=math.sqrt(1 - skip**2)))
    if not skip:
        block = sequence("attention", own)
    expected = built(sequence(stack))
    agree(affine(block), expected.affine)
    assert getattr(built(block), "slope", 0) == pytest.approx(getattr(expected, "slope", 0), rel=1e-9)


def test_attention_norms_and_gains_of_linear_branches_do_not_count():
    plain = sequence(residual(mlp(), skip=0.5))
    around = sequence(residual("layer_norm", "attention", gain=3), residual("layer_norm", mlp(), skip=0.5), "rms_norm")
    assert own_network(plain, SIZED, CATALOGUE) == own_network(around, SIZED, CATALOGUE)


UNEQUAL = sequence(
    residual("attention"),
    residual("layer_norm", mlp(), skip="1/layer", gain=gain("layer/depth", trainable=True, per="channel")),
)


def unequal(slope):
    return math.prod(mixed(1 / layer, (layer / DEPTH, slope)) for layer in range(1, DEPTH + 1))


def test_residuals_that_differ_from_layer_to_layer_are_solved_for_their_own_slope():
    slope, _, q_slope = local(built(UNEQUAL))
    assert abs(max(unequal(slope), slope) - 1.5) < 1e-6
    assert abs(q_slope - 1) < 1e-6
    assert affine(UNEQUAL) == built(UNEQUAL, layer=DEPTH).affine
    assert abs(math.prod(mixed(1 / n, (n, slope)) for n in range(1, DEPTH + 1)) - 1.5) > 1e-2  # with other gains


def test_curvatures_of_unequal_residuals():
    tat = node("tat", activation="gelu", tau=0.3, network="block", layers="depth")
    _, bend, _ = local(built(sequence(residual(mlp(tat), skip="1/layer"))))
    whole = sum(bend * layer**2 / (1 + layer**2) for layer in range(1, DEPTH + 1))
    assert abs(max(whole, bend) - 0.3) < 1e-6
    assert whole > bend


def test_a_target_for_the_mean_squares_of_the_whole_network():
    block = sequence(residual(mlp(dks(q_slope=1.2)), skip="layer"))
    slope, _, q_slope = local(built(block))
    assert abs(max(math.prod(mixed(n, (1, slope)) for n in range(1, 7)), slope) - 1.5) < 1e-6
    assert abs(math.prod(mixed(n, (1, q_slope)) for n in range(1, 7)) - 1.2) < 1e-6
    assert abs(math.prod(mixed(math.sqrt(n), (1, q_slope)) for n in range(1, 7)) - 1.2) > 1e-2


def test_branches_side_by_side_and_inside_of_branches():
    inner = residual(mlp(), mlp(), skip=2)
    block = sequence(node("parallel", skip=3, gain=2, branches=[["attention"], [mlp()], [inner, mlp()]]), mlp())
    made = compile_block(block, SIZED, CATALOGUE, init=default_init(), dtype=torch.float64)
    every = [part for part in made.modules() if isinstance(part, ShapedActivation)]
    assert len(every) == 5 and len({each.affine for each in every}) == 1
    slope, _, _ = local(every[0])
    branch = mixed(2, (1, slope**2)) * slope
    whole = (mixed(3, (2, 1.0), (2, slope), (2, branch)) * slope) ** DEPTH
    assert abs(max(whole, branch, slope**2) - 1.5) < 1e-6


def cycle(*parts):
    return Node("cycle", (("items", Series(tuple(sequence(part) for part in parts))),))


def test_patterns_over_layers():
    """A skip in every second layer, none in the others; and a layer without the MLP adds nothing."""
    skipped = residual(mlp())
    turns = cycle(skipped, mlp(), "attention")
    slope, _, _ = local(built(sequence(turns)))
    assert abs(((1 + slope) / 2 * slope) ** 2 - 1.5) < 1e-6
    elements = own_network(sequence(turns), SIZED, CATALOGUE).elements
    assert elements == (Repeated(1, (shares(1, (1, (Layer(),))),)), Repeated(1, (Layer(),))) * 2


def test_it_is_made_once_and_equal_layers_are_one_element():
    block = sequence(residual(mlp()))
    first = own_network(block, SIZED.at(2), CATALOGUE)
    assert own_network(sequence(residual(mlp())), SIZED.at(5), CATALOGUE) is first
    assert first.elements == (Repeated(DEPTH, (shares(1, (1, (Layer(),))),)),)
    assert layers_in(first.elements) == first.depth == DEPTH
    assert own_network(block, replace(SIZED, n_layers=3), CATALOGUE).depth == 3


def test_costs_equations_forecasts_and_modules_have_the_same_numbers_and_it_trains():
    whole = architecture(UNEQUAL, sizes=SIZED)
    text = equation(UNEQUAL, SIZED, CATALOGUE).text
    assert f"{affine(UNEQUAL).input_scale:.4g}" in text
    assert "".join(each.text for each in equations(UNEQUAL, SIZED, CATALOGUE).values()).count("GELU") == 1
    assert block_costs(UNEQUAL, SIZED, CATALOGUE, 3)
    assert math.isfinite(forecast(whole, CATALOGUE, repetition=0.1).logits)
    model = compile_model(whole, CATALOGUE)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    tokens = torch.arange(24).reshape(2, 12) % 11
    losses = []
    for _ in range(2):
        losses.append(torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()))
        optimiser.zero_grad()
        losses[-1].backward()
        optimiser.step()
    assert losses[1] < losses[0]


def test_a_forecast_is_that_of_the_stack_with_the_same_numbers():
    logits = {
        (network, layers): forecast(
            architecture(sequence("attention", mlp(dks(network=network, layers=layers))), sizes=SIZED),
            CATALOGUE,
            repetition=0.1,
        ).logits
        for network, layers in (("block", "depth"), ("stack", "6"), ("stack", "3"))
    }
    assert math.isclose(logits["block", "depth"], logits["stack", "6"], rel_tol=1e-7)
    assert not math.isclose(logits["block", "depth"], logits["stack", "3"], rel_tol=1e-4)


def test_equations_of_layers_that_differ_are_solved_for_all_of_them():
    turns = cycle(residual(mlp()), mlp())
    scale = f"{affine(sequence(turns)).input_scale:.4g}"
    texts = [each.text for each in equations(sequence(turns), SIZED, CATALOGUE).values()]
    assert len(texts) == 2 and all(scale in text for text in texts)


REFUSED = {
    "another_activation": (
        sequence(residual(mlp()), residual(mlp("gelu"))),
        "but gelu, which is not, is in it in layer 1 of 6\n  = shape every activation of the block in the same way",
    ),
    "of_a_stack": (
        sequence(residual(mlp()), residual(mlp(dks(network="stack")))),
        "but dks, which is not, is in it in layer 1 of 6",
    ),
    "another_target": (
        sequence(residual(mlp()), residual(mlp(dks(zeta=2.0)))),
        "with different targets: ",
    ),
    "another_value": (
        sequence(node("recall", of="layers.first.in"), mlp()),
        "but recall.of reads layers.first.in, which that network does not follow",
    ),
    "a_combinator_without_declared_gains": (
        sequence(node("admin", branch=[mlp()])),
        "but admin around it does not declare what the gains of its skip and its branches are",
    ),
    "no_gain": (sequence(residual(mlp(), skip=0, gain=0)), "gains of 0 gives nothing"),
    "a_skip_of_a_stack": (
        sequence(mlp(dks(skip="0.5"))),
        "but a stack is given with layers 6 and skip 0.5\n  = leave layers and skip out",
    ),
    "the_layers_of_a_stack": (sequence(mlp(dks(layers="24"))), "but a stack is given with layers 24 and skip 0"),
    "out_of_reach": (
        sequence(mlp(node("dks_leaky_relu", zeta=50.0, network="block", layers="depth"))),
        "as zeta 50 over the block's own 6 nonlinear layers requires",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_followed_is_refused(case):
    block, message = REFUSED[case]
    for use in (lambda: block_costs(block, SIZED, CATALOGUE), lambda: built(block)):
        with pytest.raises(InputError) as refused:
            use()
        assert message in str(refused.value)


def test_what_is_inside_of_the_activations_may_differ():
    block = sequence(mlp(), mlp(dks("silu")))
    made = compile_block(block, SIZED, CATALOGUE, init=default_init(), dtype=torch.float64)
    both = [part for part in made.modules() if isinstance(part, ShapedActivation)]
    assert len({part.affine for part in both}) == len(both) == 2
    assert np.abs(np.array([local(part)[0] for part in both]) ** (2 * DEPTH) - 1.5).max() < 1e-6


def test_numbers_of_a_stack_cannot_be_written_beside_the_block():
    with pytest.raises(InputError) as refused:
        read_block("[mlp: {activation: {dks: {network: block, skip: 0.5, layers: 24}}}]")
    message = str(refused.value)
    assert "dks.skip has no effect beside network: block, whose skips and layers count" in message
    assert "dks.layers has no effect beside network: block" in message
    assert "leave skip out, or write network: stack" in message
    assert read_block("[mlp: {activation: {dks: {network: stack, skip: 0, layers: depth}}}]")
    block = read_block("[mlp: {activation: {dks: {network: block}}}]")
    assert read_block("[mlp: {activation: {dks: {network: block, skip: 0, layers: depth}}}]") == block  # in full
