"""Propagation: how alike tokens are behind each part of a random network, and how large the gradient is in front of it.

A signal x [T, d] in a wide network whose weights are drawn is known by its token kernel, and so is its gradient g:

    Σ_ij = E[x_i · x_j] / d                    Γ_ij = E[g_i · g_j] / d                 [T, T]

A `Signal` is such a kernel together with the way back: a part of a network takes one and gives another, and `backward`
of what comes last maps Γ at the end to Γ at the root. What two paths from one root give is correlated as far as they
are linear on average, by J = E[∂x/∂root] (`transfer`):

    y = Σ_a x_a       Σ_y = Σ_a Σ_a + Σ_{a≠b} J_a Σ J_bᵀ        Γ = Σ_a back_a(Γ_y) + Σ_{a≠b} J_aᵀ Γ_y J_b

so a fresh matrix of weights between them makes J zero, and an identity does not. To first order in 1/d, d the width.

    He et al. 2023, arXiv:2302.10322, App. H.2 (token kernels forwards); Schoenholz et al. 2017, arXiv:1611.01232, and
    Kedia et al. 2024, arXiv:2403.09635, App. A (gradients, independent of the weights that they meet on the way back).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ablate.signal.attention_kernel import RandomAttention
from ablate.signal.gaussian_activations import activation_kernel
from ablate.signal.kernel_maps import Curved

Array: TypeAlias = NDArray[np.float64]
Backward: TypeAlias = Callable[[Array], Array]
"""From the kernel of a gradient at a signal to that at its root."""


@dataclass(frozen=True, slots=True)
class Signal:
    """`kernel` Σ [T, T], the `mean` of its channels [T], and, from its root: `transfer` J and `backward`.

    J is [T, T], [T] for a diagonal one, or None for zero.
    """

    kernel: Array
    mean: Array
    transfer: Array | None
    backward: Backward = field(repr=False)

    @staticmethod
    def root(kernel: Array, mean: Array | None = None) -> Signal:
        """Make a signal that begins here."""
        length = len(kernel)
        return Signal(kernel, np.zeros(length) if mean is None else mean, np.ones(length), lambda gradient: gradient)

    @property
    def mean_square(self) -> float:
        """E[x²], over channels and tokens."""
        return float(np.diag(self.kernel).mean())

    def times(self, gain: float) -> Signal:
        """Multiply by a number."""
        transfer = None if self.transfer is None else gain * self.transfer
        return Signal(
            gain**2 * self.kernel, gain * self.mean, transfer, lambda gradient: self.backward(gain**2 * gradient)
        )

    def through_weights(self, forward: float, backward: float) -> Signal:
        """Multiply by a fresh matrix of independent entries of mean 0 and variance w: d_in w Σ, and d_out w Γ.

        `forward` is d_in w and `backward` d_out w.
        """
        return Signal(
            forward * self.kernel,
            np.zeros_like(self.mean),
            None,
            lambda gradient: self.backward(backward * gradient),
        )

    def normalised(self, eps: float, *, centred: bool) -> Signal:
        """Scale each token to mean square 1 over its channels, where `centred` about their mean: Σ_ij / (s_i s_j).

        s_i² = Σ_ii + ε without the mean's square; back Γ_ij / (s_i s_j). What the gradient loses along the token itself
        and along the mean is one part in d.
        """
        kernel = self.kernel - np.outer(self.mean, self.mean) if centred else self.kernel
        scale = 1 / np.sqrt(np.diag(kernel) + eps)
        both = np.outer(scale, scale)
        mean = np.zeros_like(self.mean) if centred else scale * self.mean
        return Signal(
            kernel * both, mean, _after(scale, self.transfer), lambda gradient: self.backward(both * gradient)
        )

    def activated(self, activation: Curved) -> Signal:
        """Apply an activation, entry by entry: E[φ(u_i) φ(u_j)], and Γ ⊙ E[φ'(u_i) φ'(u_j)]; J is E[φ'] J."""
        moments = activation_kernel(activation, self.kernel)
        return Signal(
            moments.values,
            moments.mean,
            _after(moments.slope, self.transfer),
            lambda gradient: self.backward(moments.slopes * gradient),
        )

    def dropped(self, p: float) -> Signal:
        """Drop a share p of the entries and divide the rest by 1 - p: Σ_ii / (1 - p), and likewise back."""
        more = np.where(np.eye(len(self.kernel), dtype=bool), 1 / (1 - p), 1.0)
        return replace(self, kernel=more * self.kernel, backward=lambda gradient: self.backward(more * gradient))

    def mixed(self, matrix: Array) -> Signal:
        """Mix tokens by a fixed matrix M [T, T]: M Σ Mᵀ, and Mᵀ Γ M."""
        return Signal(
            matrix @ self.kernel @ matrix.T,
            matrix @ self.mean,
            _after(matrix, self.transfer),
            lambda gradient: self.backward(matrix.T @ gradient @ matrix),
        )

    def gated(self, gate: Signal) -> Signal:
        """Multiply by another signal of the same root, entry by entry: Σ ⊙ Σ_gate, of independent weights."""
        transfers = [_after(gate.mean, self.transfer), _after(self.mean, gate.transfer)]
        return Signal(
            self.kernel * gate.kernel,
            self.mean * gate.mean,
            _added(transfers),
            lambda gradient: self.backward(gate.kernel * gradient) + gate.backward(self.kernel * gradient),
        )

    def forked(self, paths: Callable[[Signal], Iterable[Signal]]) -> Signal:
        """Add up what several paths from here give, such as a skip and a branch."""
        terms = list(paths(Signal.root(self.kernel, self.mean)))
        crossing = [term.transfer for term in terms if term.transfer is not None]
        kernel = sum((term.kernel for term in terms), np.zeros_like(self.kernel))
        for first, second in _pairs(crossing):
            kernel = kernel + _between(first, self.kernel, second)

        def backward(gradient: Array) -> Array:
            arrived = sum((term.backward(gradient) for term in terms), np.zeros_like(gradient))
            for first, second in _pairs(crossing):
                arrived = arrived + _between(_transposed(first), gradient, _transposed(second))
            return self.backward(arrived)

        transfer = _added(crossing)
        return Signal(
            kernel,
            sum((term.mean for term in terms), np.zeros_like(self.mean)),
            None if transfer is None else _after(transfer, self.transfer),
            backward,
        )


def attend(values: Signal, queries: Signal, keys: Signal, uniform: Array, scale: float, matrix: Mixing) -> Signal:
    """Mix values by α I + β A - γ C + M, with A random attention and C = `uniform` the same at zero scores.

    `scale` is that of the scores times √d_k; values, queries and keys have one root, and weights of their own. With
    M̄ = E[α I + β A - γ C + M]: M̄ V M̄ᵀ + β² (E[A V Aᵀ] - E[A] V E[A]ᵀ), and back likewise, through values, and
    through the scores to queries and keys.
    """
    random = RandomAttention(uniform, scale**2 * queries.kernel, keys.kernel)
    attention = random.mean
    mean = matrix.skip * np.eye(len(uniform)) + matrix.gain * attention - matrix.centre * uniform
    squared = matrix.gain**2
    kernel = mean @ values.kernel @ mean.T
    scored = squared > 0 and bool(random.queries.any()) and bool(random.keys.any())
    if scored:
        kernel = kernel + squared * (random.forward(values.kernel) - attention @ values.kernel @ attention.T)

    def backward(gradient: Array) -> Array:
        into_values = mean.T @ gradient @ mean
        if scored:
            into_values = into_values + squared * (random.backward(gradient) - attention.T @ gradient @ attention)
        arrived = values.backward(into_values)
        if not squared:
            return arrived
        into_queries = squared * scale**2 * random.queries_backward(gradient, values.kernel)
        into_keys = squared * random.keys_backward(gradient, values.kernel)
        return np.asarray(arrived + queries.backward(into_queries) + keys.backward(into_keys))

    return Signal(kernel, mean @ values.mean, _after(mean, values.transfer), backward)


@dataclass(frozen=True, slots=True)
class Mixing:
    """The gains of α I + β A - γ C: `skip`, `gain` and `centre`. Plain attention is A."""

    skip: float = 0.0
    gain: float = 1.0
    centre: float = 0.0


def _after(matrix: Array, transfer: Array | None) -> Array | None:
    """Return M J of matrices, each of which may be a diagonal, as a vector."""
    if transfer is None:
        return None
    if matrix.ndim == 1:
        return matrix * transfer if transfer.ndim == 1 else matrix[:, None] * transfer
    return matrix * transfer if transfer.ndim == 1 else np.asarray(matrix @ transfer)


def _between(first: Array, kernel: Array, second: Array) -> Array:
    """Return F K Sᵀ of matrices of which F and S may be diagonals."""
    left = first[:, None] * kernel if first.ndim == 1 else first @ kernel
    return np.asarray(left * second if second.ndim == 1 else left @ second.T)


def _transposed(matrix: Array) -> Array:
    return matrix if matrix.ndim == 1 else matrix.T


def _pairs(matrices: list[Array]) -> list[tuple[Array, Array]]:
    return [(a, b) for place, a in enumerate(matrices) for other, b in enumerate(matrices) if place != other]


def _added(matrices: Iterable[Array | None]) -> Array | None:
    """Return the sum of matrices, some of which may be diagonals; None if there are none."""
    there = [matrix for matrix in matrices if matrix is not None]
    if not there or all(matrix.ndim == 1 for matrix in there):
        return sum(there, np.zeros_like(there[0])) if there else None
    return sum((np.diag(matrix) if matrix.ndim == 1 else matrix for matrix in there), np.zeros((len(there[0]),) * 2))
