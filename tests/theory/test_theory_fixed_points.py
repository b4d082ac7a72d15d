"""Fixed points of correlations: the paper's numbers, the iteration of layers, and the forecast of a deep model."""

from __future__ import annotations

import math

import numpy as np
import pytest
from builders import architecture, node
from moment_recursion import Stack, forward
from reading import transformer

from ablate.api import load_block
from ablate.block.sizes import Sizes
from ablate.errors import InputError
from ablate.signal.moments import Moments
from ablate.theory.fixed_points import (
    approach,
    layer_correlation,
    published_correlation,
    published_gradient_correlation,
    resting_correlation,
)
from ablate.theory.models import forecast

XAVIER = (2.2, 0.4, 0.1)
CASES = [XAVIER, (2.2, 0.4, 0.3), (1.0, 1.0, 0.1), (0.3, 2.0, 0.05)]


def test_the_papers_numbers():
    """Kedia et al. 2024, App. F: 0.88 for tokens and 0.87 for gradients, at C₁ = 2.2, C₂ = 0.4 and p = 0.1."""
    assert published_correlation(*XAVIER) == pytest.approx(0.88, abs=0.01)
    assert published_gradient_correlation(*XAVIER) == pytest.approx(0.87, abs=0.01)


@pytest.mark.parametrize("case", CASES)
def test_published_fixed_points_solve_the_papers_equations(case):
    c1, c2, p = case
    r, rho = published_correlation(*case), published_gradient_correlation(*case)
    m = (1 - p) * (r / 2 + (math.sqrt(1 - r * r) + r * math.asin(r)) / math.pi)
    assert (c1 + c2) * r == pytest.approx(c1 * (1 - p) + c2 * m, rel=1e-12)
    assert (c1 + c2) * rho == pytest.approx(
        c1 * (1 - p) + c2 * (1 - p) * (0.5 + math.asin(r) / math.pi) * rho, rel=1e-12
    )


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("start", [0.0, 0.3])
def test_layers_come_to_rest_there_at_the_rate_that_is_said(case, start):
    c1, c2, p = case
    stack = Stack(attention=(c1 * (1 - p),) * 120, mlp=(c2 * (1 - p),) * 120, post=True, p=p)
    correlations = [x.correlation for x in forward(stack, Moments(1.0, start))][::2]
    rest, rate = resting_correlation(*case), approach(*case)
    assert correlations[-1] == pytest.approx(rest, abs=1e-9)
    left = rest - np.array(correlations)
    near = int(np.argmax(left < 1e-3))
    assert left[near + 1] / left[near] == pytest.approx(rate, rel=0.02)
    assert 0 < rate < 1


@pytest.mark.parametrize("r", [0.0, 0.2, 0.9])
def test_a_layer_is_the_equation(r):
    c1, c2, p = XAVIER
    s = (r + c1 * r * (1 - p)) / (1 + c1 * r)
    m = (1 - p) * (s / 2 + (math.sqrt(1 - s * s) + s * math.asin(s)) / math.pi)
    assert layer_correlation(r, *XAVIER) == pytest.approx((s + c2 * m) / (1 + c2), rel=1e-12)


def test_without_dropout_rank_collapses_and_with_it_does_not():
    assert resting_correlation(2.2, 0.4, 0.0) == 1.0
    rests = [resting_correlation(2.2, 0.4, p) for p in (0.01, 0.1, 0.3)]
    assert rests == sorted(rests, reverse=True)
    assert rests[0] < 0.99


DROPPED = """[residual: [attention: {dropout: 0.1}, dropout: 0.1], layer_norm,
    residual: [mlp: {activation: relu}, dropout: 0.1], layer_norm]"""


def test_a_deep_forecast_comes_to_the_fixed_point():
    """Of 48 layers in Post-LN, bidirectional. Weights of variance 0.49/d make C₁ 0.49² / (1 - p), and C₂ twice that."""
    sizes, p = Sizes(n_layers=48, d_model=64, n_heads=4, seq_len=64, vocab_size=256, causal=False), 0.1
    around = {
        "kind": "encoder",
        "init": node("normal", std="0.7/sqrt(width)"),
        "embedding_std": 1.0,
        "embedding_scale": 1.0,
    }
    whole = architecture(load_block(DROPPED), sizes=sizes, **around)
    found = forecast(whole, transformer().catalogue, repetition=0.05).streams
    strengths = 0.49**2 / (1 - p), 2 * 0.49**2 / (1 - p)
    assert found[-1].correlation == pytest.approx(resting_correlation(*strengths, p), abs=0.02)
    assert found[-1].correlation == pytest.approx(found[-8].correlation, abs=1e-3)


@pytest.mark.parametrize("wrong", [(0.0, 0.4, 0.1), (2.2, -1.0, 0.1), (2.2, 0.4, 1.0)])
def test_what_has_no_such_point_is_refused(wrong):
    with pytest.raises(InputError, match="no such fixed point"):
        resting_correlation(*wrong)
