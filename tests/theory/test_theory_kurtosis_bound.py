"""Kurtosis and token kernels: the bound that any stream keeps, and the kurtosis that every named block starts with."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from builders import node
from reading import DEPTHS, decoders, transformer

from ablate.block.sizes import Sizes
from ablate.compiler import compile_block
from ablate.errors import InputError
from ablate.probes.kurtosis import kurtosis
from ablate.signal.finite_width import participation
from ablate.signal.propagation import Signal
from ablate.theory.blocks import through_block
from ablate.theory.diagnostics import normal_kurtosis

CATALOGUE = transformer().catalogue
LENGTH, WIDTH, LAYERS, STARTS = 12, 256, 4, 3
KERNEL = 0.7 * np.eye(LENGTH) + 0.3
INIT = node("normal", std="1/sqrt(width)")
NEED_A_MODEL = {"nanochat", "value_residual", "shared_first_values", "denseformer", "attention_over_depth", "u_net"}
"""Named blocks that read what stands elsewhere in a model: a layer of theirs does not stand alone."""
ALONE = [name for name in decoders() if name not in NEED_A_MODEL]


def measured(x):
    """The kurtosis of the probe, for x [n, d]."""
    return float(kurtosis(torch.from_numpy(x))["kurtosis"])


def standard_error(x):
    """That of the kurtosis of x over its neurons, as if they were independent (the delta method)."""
    squares = np.square(x).mean(0) / np.square(x).mean()
    kurt = np.square(squares).mean()
    return np.std(squares**2 - 2 * kurt * squares) / np.sqrt(len(squares))


def largest_kurtosis(kernel, width):
    """d ‖Σ‖_F² / (tr Σ)², which no stream of d neurons exceeds."""
    return width * participation(kernel)


def gram(x):
    return x @ x.T / x.shape[1]


def sizes_of(name):
    layers = DEPTHS.get(name, LAYERS)
    return Sizes(n_layers=layers, d_model=WIDTH, n_heads=4, seq_len=LENGTH, vocab_size=256, repetition=0.02)


def started(name, seed):
    """The stream behind a start that is drawn, [T, d]."""
    x, sizes = np.linalg.cholesky(KERNEL) @ np.random.default_rng(seed).normal(size=(1, LENGTH, WIDTH)), sizes_of(name)
    torch.manual_seed(seed)
    stream, block = torch.from_numpy(x), transformer().block(name)
    with torch.no_grad():
        for layer in range(1, sizes.n_layers + 1):
            stream = compile_block(
                block, sizes, CATALOGUE, layer=layer, init=INIT, seed=seed, dtype=torch.float64
            ).train()(stream)
    return stream[0].numpy()


def forecast_kernel(name):
    x, sizes = Signal.root(KERNEL), sizes_of(name)
    for layer in range(1, sizes.n_layers + 1):
        x = through_block(transformer().block(name), Signal.root(x.kernel, x.mean), sizes.at(layer), INIT, CATALOGUE)
    return x.kernel


@pytest.mark.sampled(5, gate="all")
@pytest.mark.parametrize("name", ALONE)
def test_every_named_block_starts_within_the_bound_and_at_the_kurtosis_of_its_kernel(name):
    streams = [started(name, seed) for seed in range(STARTS)]
    found = [measured(x) for x in streams]
    for x, each in zip(streams, found, strict=True):
        assert 1 <= each <= largest_kurtosis(gram(x), WIDTH)
    try:
        kernel = forecast_kernel(name)
    except InputError:
        return  # what has no kernel in closed form has the bound alone
    # of 256 neurons the few largest are missed: measured, e_spa is 20 % below at 128 neurons, and 6 % at 512
    error = np.hypot.reduce([standard_error(x) for x in streams]) / STARTS
    assert normal_kurtosis(kernel) == pytest.approx(np.mean(found), abs=0.1 * np.mean(found) + 3 * error)


@pytest.mark.parametrize("outliers", [1, 2, 8])
def test_outliers_made_by_hand_break_the_kurtosis_of_normal_neurons_and_not_the_bound(outliers):
    x = np.random.default_rng(0).normal(size=(40, WIDTH))
    assert measured(x) == pytest.approx(normal_kurtosis(gram(x)), abs=4 * standard_error(x))
    x[:, :outliers] *= 30
    found = measured(x)
    assert found > 3 > normal_kurtosis(gram(x)) - 1e-9
    assert found <= largest_kurtosis(gram(x), WIDTH)
    assert found > largest_kurtosis(gram(x), WIDTH // 20)  # a bound that forgets the width does not hold


def test_the_bound_is_reached_by_a_single_neuron():
    x = np.zeros((7, WIDTH))
    x[:, 3] = np.arange(1, 8)
    assert measured(x) == pytest.approx(WIDTH) == largest_kurtosis(gram(x), WIDTH)


@pytest.mark.parametrize("rho", [0.0, 0.4, 0.9, 1.0])
def test_tokens_of_one_cosine_have_the_kurtosis_of_proposition_j_1(rho):
    """He et al. 2024, Eq. 16 divided by n², term by term; for large n it is 1 + 2ρ²."""
    n = 15
    expected = (1 - rho) ** 2 * n * (n + 2) + 3 * rho**2 * n**2 + 4 * rho * (1 - rho) * n + 2 * rho * (1 - rho) * n**2
    assert normal_kurtosis((1 - rho) * np.eye(n) + rho) == pytest.approx(expected / n**2)
    assert normal_kurtosis((1 - rho) * np.eye(2000) + rho) == pytest.approx(1 + 2 * rho**2, abs=2e-3)


def test_kernels_of_any_form_have_the_kurtosis_of_neurons_that_are_drawn():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(9, 9)) * np.geomspace(0.1, 2, 9)[:, None]
    found = [measured(root @ rng.normal(size=(9, 4000))) for _ in range(5)]
    assert normal_kurtosis(root @ root.T) == pytest.approx(np.mean(found), rel=0.02)


@pytest.mark.parametrize("kernel", [np.zeros((3, 3)), np.full((3, 3), np.nan)])
def test_tokens_of_zeros_are_refused(kernel):
    with pytest.raises(InputError, match="no kurtosis"):
        normal_kurtosis(kernel)
