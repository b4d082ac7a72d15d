"""Weight gradients: how large the gradient of each kind of weight is, from the moments that meet at it.

The gradient of a matrix W sums x_tᵀ g_t over the L tokens of each of B sequences, of an input x and the gradient g
behind it. Each of its entries has the mean square

    B L {(σ² + μ²) σ_g² + (L-1)(rσ² + μ²) r_g σ_g²}

where sequences have gradients of their own: the second term is what tokens share, and with L tokens it is the larger
one as soon as r r_g > 1/L. Queries and keys have a form of their own, since what comes back to a key depends on it.

    Glorot & Bengio 2010, PMLR 9, Eq. 7: the product of both variances, for one vector; the sum over tokens, and what
    attention and dropout make of it, by the moments of Kedia et al. 2024, arXiv:2403.09635, Tables 16 to 20.
"""

from __future__ import annotations

from dataclasses import dataclass

from ablate.signal.moments import (
    Moments,
    attention_mean,
    dropout_backward,
    linear,
    linear_backward,
    on_one_key,
    relu,
    relu_backward,
)


@dataclass(frozen=True, slots=True)
class Batch:
    """B `sequences` of L = `length` tokens, over which a loss is summed."""

    sequences: int
    length: int

    def summed(self, own: float, shared: float) -> float:
        """Sum products of a mean `own` of one token, and `shared` of two of a sequence: B L (own + (L-1) shared)."""
        return self.sequences * self.length * (own + (self.length - 1) * shared)


@dataclass(frozen=True, slots=True)
class AttentionWeights:
    """One number for each matrix of attention: the variance of its entries, or their gradient's mean square."""

    query: float
    key: float
    value: float
    projection: float


@dataclass(frozen=True, slots=True)
class MLPWeights:
    """One number for each matrix of an MLP: the variance of its entries, or their gradient's mean square."""

    up: float
    down: float


def matrix_gradient(x: Moments, g: Moments, batch: Batch) -> float:
    """Compute the mean square of an entry of the gradient of y = x W, for x and the gradient g of y.

    That of the scale of a norm is the same, with the normalised token for x; that of a bias has 1 for x:

    >>> matrix_gradient(Moments(0.0, 0.0, mean=1.0), Moments(2.0, 0.5), Batch(sequences=3, length=4))
    60.0
    """
    shared = (x.covariance + x.mean**2) * g.covariance
    return batch.summed((x.variance + x.mean**2) * g.variance, shared)


def embedding_gradient(g: Moments, repetition: float, vocabulary: int, batch: Batch) -> float:
    """Compute that of a table of embeddings, in whose rows each token's gradient g is added: over all V rows

    B L σ_g² (1 + (L-1) r_e r_g) / V, with r_e the share of pairs of tokens that are the same (`repetition`).
    """
    return batch.summed(g.variance, repetition * g.covariance) / vocabulary


def mlp_gradients(x: Moments, g: Moments, weights: MLPWeights, width: int, p: float, batch: Batch) -> MLPWeights:
    """Compute those of an MLP with ReLU and dropout p behind it, for a normalised x of `width` d, and g behind it all.

    up      of x, and d σ_2² g/(1-p) back through the ReLU, whose slopes at two tokens are correlated
    down    of the ReLU's output, mean and all, and the dropped gradient
    """
    dropped = dropout_backward(g, p)
    inside = linear(x, width, weights.up)
    behind_up = relu_backward(linear_backward(dropped, width, weights.down), inside)
    return MLPWeights(up=matrix_gradient(x, behind_up, batch), down=matrix_gradient(relu(inside), dropped, batch))


def attention_gradients(
    x: Moments, g: Moments, weights: AttentionWeights, width: int, p: float, batch: Batch
) -> AttentionWeights:
    """Compute those of softmax attention with dropout p of its weights and behind it, for a normalised x of `width` d.

    value        of the mean over tokens, which may as well come before the matrix, and d σ_o² g/(1-p) behind it
    projection   of that mean of the values, and the dropped gradient

    A query and its gradient, as a key and its own, meet through the covariance of the tokens under A_i, which is (1-r)
    σ² the identity and the noise of a sample. With w and v of `attention_mean` and σ̃² = d² σ_v² σ_o² σ_g²/(1-p),

    query    B L σ_k² σ⁶ σ̃² {(1-r)² (1 + dw) + (1-r) d w p/(1-p) + (L-1) r r_g (1-r)² (1 + dv)}
    key      the same with σ_q² for σ_k²

    however many heads there are: each has its share both of the width and of the gradient.
    """
    dropped = dropout_backward(g, p)
    mean = attention_mean(x, batch.length, width, width**2 * weights.query * weights.key, p)
    behind_values = linear_backward(dropped, width, weights.projection)
    each = _scored(x, linear_backward(behind_values, width, weights.value), weights, width, p, batch)
    return AttentionWeights(
        query=weights.key * each,
        key=weights.query * each,
        value=matrix_gradient(mean, behind_values, batch),
        projection=matrix_gradient(linear(mean, width, weights.value), dropped, batch),
    )


def _scored(x: Moments, g: Moments, weights: AttentionWeights, width: int, p: float, batch: Batch) -> float:
    """Return what queries and keys have in common, for the gradient g of the mean over tokens."""
    r, apart = x.correlation, 1 - x.correlation
    s = width**2 * weights.query * weights.key * x.variance**2
    w, v = on_one_key(apart * s, batch.length), on_one_key(apart * r * s, batch.length)
    own = apart**2 * (1 + width * w) + apart * width * w * p / (1 - p)
    shared = r * g.correlation * apart**2 * (1 + width * v)
    return x.variance**3 * g.variance * batch.summed(own, shared)
