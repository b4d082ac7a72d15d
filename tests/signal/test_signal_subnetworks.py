"""The largest value over a network's subnetworks, against all of them one by one, composed here alone."""

import math
import random
from fractions import Fraction

import pytest

from ablate.block.network import Branch, Layer, Repeated, Residual, layers_in, residual
from ablate.errors import InputError
from ablate.signal.network_shaping import Network, residual_stack

LAYER = Layer()


def unrolled(elements):
    """A sequence as a list: "layer", or (skip share, [(branch share, list), …])."""
    made = []
    for element in elements:
        match element:
            case Layer():
                made.append("layer")
            case Residual(skip=skip, branches=branches):
                made.append((skip, [(branch.share, unrolled(branch.elements)) for branch in branches]))
            case Repeated(times=times, elements=inside):
                made += unrolled(inside) * times
    return made


def composed(run, local, x):
    for element in run:
        if element == "layer":
            x = local(x)
        else:
            skip, branches = element
            x = skip * x + math.fsum(share * composed(branch, local, x) for share, branch in branches)
    return x


def every_run(sequence):
    """All contiguous runs of a sequence, and of the branches in it at every level."""
    for start in range(len(sequence)):
        for end in range(start + 1, len(sequence) + 1):
            yield sequence[start:end]
    for element in sequence:
        for _, branch in element[1] if element != "layer" else ():
            yield from every_run(branch)


def random_elements(draw, depth=2):
    made = []
    for _ in range(draw.randint(1, 3)):
        kind = draw.choice(("layer", "residual", "residual", "repeated")) if depth else "layer"
        if kind == "layer":
            made.append(LAYER)
        elif kind == "residual":
            branches = [(draw.uniform(0, 2), random_elements(draw, depth - 1)) for _ in range(draw.randint(1, 2))]
            made.append(residual(draw.choice((0.0, draw.uniform(0, 2), 2.0)), *branches))
        else:
            made.append(Repeated(draw.randint(2, 3), random_elements(draw, depth - 1)))
    return tuple(made)


NETWORKS = [random_elements(random.Random(seed)) for seed in range(60)]
LOCAL = {
    "slope": (lambda y: 1.3 * y, 1.0),
    "curvature": (lambda y: y + 0.3, 0.0),
    "correlation": (lambda c: c + 0.2 * (1 - c) ** 2, 0.0),
}


@pytest.mark.parametrize("kind", LOCAL)
def test_the_largest_is_that_of_all_runs_at_every_level(kind):
    local, start = LOCAL[kind]
    for elements in NETWORKS:
        runs = [composed(run, local, start) for run in every_run(unrolled(elements))]
        assert math.isclose(Network(elements, "it").largest(local, start), max(runs), rel_tol=1e-12)


def test_branches_matter():
    """What follows were there only the whole sequence is below, in some of these networks."""
    local, start = LOCAL["slope"]
    whole = [composed(unrolled(elements), local, start) for elements in NETWORKS]
    largest = [Network(elements, "it").largest(local, start) for elements in NETWORKS]
    assert sum(a < 0.99 * b for a, b in zip(whole, largest, strict=True)) > 3


def test_the_local_numbers_bring_the_largest_to_the_target():
    for elements in NETWORKS:
        network, sequence = Network(elements, "it"), unrolled(elements)
        psi, kappa = network.local_slope(5.0), network.local_curvature(0.3)
        slopes, bends = (
            [composed(run, local, start) for run in every_run(sequence)]
            for local, start in ((lambda y: psi * y, 1.0), (lambda y: y + kappa, 0.0))
        )
        assert abs(max(slopes) - 5) < 1e-9
        assert abs(max(bends) - 0.3) < 1e-9


@pytest.mark.parametrize(("layers", "skip"), [(1, 0.0), (24, 0.0), (7, 0.6), (100, 0.9), (3, 1.0)])
def test_a_stack_is_the_network_of_its_residuals(layers, skip):
    gain = math.sqrt((1 - skip) * (1 + skip))
    network = Network((residual(skip, (gain, (LAYER,))),) * layers, "it")
    stack = residual_stack(layers, skip)
    for kind in ("local_slope", "local_curvature"):
        assert math.isclose(getattr(network, kind)(5.0), getattr(stack, kind)(5.0), rel_tol=1e-12)
    if not skip:
        assert Network((Repeated(layers, (LAYER,)),), "it").local_slope(5.0) == stack.local_slope(5.0)


def test_the_numbers_of_a_stack_are_those_of_its_recursion_to_the_bit():
    for layers, skip, psi in ((24, 0.0, 1.07), (100, 0.9, 1.4), (12, 0.3, 1.2)):
        x = 1.0
        for _ in range(layers):
            x = (skip**2 * x if skip else 0.0) + (1 - skip) * (1 + skip) * (psi * x)
        assert residual_stack(layers, skip).slope(psi) == max(x, psi)


def test_shares_are_squares_of_gains_over_their_sum():
    made = residual(2.0, (1.0, (LAYER,)), (3.0, (LAYER, LAYER)))
    shares = [made.skip, *(branch.share for branch in made.branches)]
    for share, exact in zip(shares, (Fraction(4, 14), Fraction(1, 14), Fraction(9, 14)), strict=True):
        assert math.isclose(share, exact, rel_tol=1e-15)
    assert residual(0.0, (0.1, (LAYER,))) == Residual(0.0, (Branch(1.0, (LAYER,)),))


def test_a_residual_without_any_gain_is_refused():
    with pytest.raises(InputError, match="gains of 0 gives nothing"):
        residual(0.0, (0.0, (LAYER,)))


def test_layers_are_counted_at_every_level():
    elements = (Repeated(3, (residual(1.0, (1.0, (LAYER, LAYER)), (1.0, (LAYER,))),)), LAYER)
    assert layers_in(elements) == sum(1 for run in every_run(unrolled(elements)) if run == ["layer"]) == 10
