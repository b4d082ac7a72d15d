"""Signals side by side, against networks that are drawn in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from ablate.signal.propagation import Signal, concatenated, part_of, stacked

LENGTH, WIDTH, DRAWS = 5, 96, 300
DISTANCE = np.abs(np.subtract.outer(np.arange(LENGTH), np.arange(LENGTH)))
KERNEL = np.exp(-0.2 * DISTANCE) * np.outer(np.linspace(0.7, 1.3, LENGTH), np.linspace(0.7, 1.3, LENGTH))
MIXED = np.tri(LENGTH) / np.arange(1, LENGTH + 1)[:, None]
GRADIENT = 0.6 * np.eye(2 * LENGTH) + 0.4


def drawn(kernel, random):
    return np.linalg.cholesky(kernel + 1e-12 * np.eye(len(kernel))) @ random.normal(size=(len(kernel), WIDTH))


def test_tokens_of_two_paths_of_one_root_stand_behind_each_other():
    """One path mixes tokens and scales, the other adds a fresh matrix to a skip: kernels forwards and back."""
    random = np.random.default_rng(0)
    kernels, gradients = [], []
    for _ in range(DRAWS):
        x, g = drawn(KERNEL, random), drawn(GRADIENT, random)
        w = random.normal(size=(WIDTH, WIDTH)) / np.sqrt(WIDTH)
        both = np.concatenate([0.8 * MIXED @ x, x - 0.5 * x @ w])
        back = 0.8 * MIXED.T @ g[:LENGTH] + g[LENGTH:] - 0.5 * g[LENGTH:] @ w.T
        kernels.append(both @ both.T / WIDTH)
        gradients.append(back @ back.T / WIDTH)
    root = Signal.root(KERNEL)
    first = root.mixed(MIXED).times(0.8)
    second = root.forked(lambda x: (x, x.through_weights(1.0, 1.0).times(-0.5)))
    whole = stacked([first, second], KERNEL)
    assert whole.kernel == pytest.approx(np.mean(kernels, 0), abs=0.03)
    assert whole.backward(GRADIENT) == pytest.approx(np.mean(gradients, 0), abs=0.06)
    independent = stacked([first, root.through_weights(1.0, 1.0)], KERNEL)  # the twin: nothing in common
    assert not independent.kernel[:LENGTH, LENGTH:].any()
    assert whole.kernel[:LENGTH, LENGTH:].min() > 0.1


def test_a_sum_is_a_mixing_of_stacked_tokens():
    """As `forked` adds up paths: y = 2 x - 3 m, of the root (x, m)."""
    joint = np.block([[KERNEL, 0.5 * KERNEL], [0.5 * KERNEL, KERNEL]])
    root = Signal.root(joint)
    x, m = part_of(root, 0, LENGTH), part_of(root, 1, LENGTH)
    y = stacked([x.times(2), m.times(-3)], joint).mixed(np.tile(np.eye(LENGTH), 2))
    assert y.kernel == pytest.approx((4 + 9 - 2 * 3) * KERNEL)
    gradient = GRADIENT[:LENGTH, :LENGTH]
    weights = np.array([[4, -6], [-6, 9]])
    assert y.backward(gradient) == pytest.approx(np.kron(weights, gradient))


@pytest.mark.parametrize("narrow", [24, 96])
def test_channels_of_two_signals_that_one_matrix_reads(narrow):
    """[x ; x N] J, with J [d + w, d]: its kernel, and that of the gradient at x."""
    random, gradient = np.random.default_rng(0), GRADIENT[:LENGTH, :LENGTH]
    kernels, gradients = [], []
    for _ in range(DRAWS):
        x, g = drawn(KERNEL, random), drawn(gradient, random)
        n = random.normal(size=(WIDTH, narrow)) * 0.5 / np.sqrt(WIDTH)
        j = random.normal(size=(WIDTH + narrow, WIDTH)) / np.sqrt(WIDTH + narrow)
        y = np.concatenate([x, x @ n], axis=1) @ j
        back = g @ j[:WIDTH].T + g @ j[WIDTH:].T @ n.T
        kernels.append(y @ y.T / WIDTH)
        gradients.append(back @ back.T / WIDTH)
    widths = (WIDTH, narrow)

    def joined(x):
        inner = x.through_weights(0.25, 0.25 * narrow / WIDTH)
        return concatenated((x, inner), widths).through_weights(1.0, WIDTH / sum(widths))

    y = Signal.root(KERNEL).forked(lambda x: [joined(x)])
    assert y.kernel == pytest.approx(np.mean(kernels, 0), abs=0.03)
    assert y.backward(gradient) == pytest.approx(np.mean(gradients, 0), abs=0.03)
    assert y.transfer is None
