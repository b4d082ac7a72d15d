"""Prescribed parts, whose numbers `ablate/signal` solves for: attention of a given matrix, shaped activations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ablate.kernels.bias import with_mask
from ablate.signal.network_shaping import AffineMaps, ShapedLeakyReLU
from ablate.signal.skipless_matrices import row_scale_and_bias

# Attention that equals a given matrix A while queries and keys are orthogonal: a bias on the scores, a factor per
# row.
#
#     y = D softmax(maps(scale · q kᵀ) + B) v        at zero q kᵀ:  y = D softmax(B) v = A v
#
#     He et al. 2023, arXiv:2302.10322, Eq. 10.

MatrixOf: TypeAlias = Callable[[int], Any]
"""From a number of tokens T to the matrix A [T, T], a float64 array without negative entries."""


@dataclass(frozen=True, slots=True)
class Solved:
    """D [T] and B [T, T] as tensors."""

    rows: Tensor
    bias: Tensor


class Prescribed:
    """D and B of the matrix that `matrix_of` gives for a number of tokens.

    They are solved once in float64, and kept in float32 at least: not as a buffer, which `.to(bfloat16)` would round.
    One [T, T] is held, of the longest sequence: a causal A of fewer tokens is its corner, others are solved again.
    """

    def __init__(self, matrix_of: MatrixOf, *, causal: bool):
        self.matrix_of = matrix_of
        self.causal = causal
        self.solved: Solved | None = None

    def bias(self, q: Float[Tensor, "*rest T K"]) -> Float[Tensor, "T T"]:
        """B for the tokens of `q`, in float32 at least: a view of the cached B, -∞ where a causal mask hides."""
        length = q.shape[-2]
        return self._solved(length, q).bias[:length, :length]

    def rescale(self, y: Float[Tensor, "*rest T K"]) -> Float[Tensor, "*rest T K"]:
        """D y, multiplied in float32 at least."""
        length = y.shape[-2]
        return (self._solved(length, y).rows[:length, None] * y).to(y.dtype)

    def _solved(self, length: int, like: Tensor) -> Solved:
        if self.solved is None or not self._fits(self.solved, length, like):
            self.solved = self._solve(length, like)
        return self.solved

    def _fits(self, solved: Solved, length: int, like: Tensor) -> bool:
        held = len(solved.rows)
        long_enough = held >= length if self.causal else held == length
        return long_enough and (solved.rows.device, solved.rows.dtype) == (like.device, _wide(like))

    def _solve(self, length: int, like: Tensor) -> Solved:
        at: dict[str, Any] = {"device": like.device, "dtype": _wide(like)}
        if like.device.type == "meta":  # it stores no numbers, so none are solved for
            return Solved(torch.empty(length, **at), torch.empty(length, length, **at))
        rows, bias = row_scale_and_bias(self.matrix_of(length), causal=self.causal)
        with torch.inference_mode(False):  # a tensor made in that mode could never be saved for a backward pass
            return Solved(torch.from_numpy(rows).to(**at), torch.from_numpy(bias).to(**at))

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the solution: copies and pickles solve again in milliseconds, and carry no [T, T] per layer."""
        return {**self.__dict__, "solved": None}


class PrescribedAttention(nn.Module):
    """Attention with the bias B and the row factors D of the matrix that `matrix_of` gives. No parameters."""

    def __init__(self, matrix_of: MatrixOf, *, causal: bool):
        super().__init__()
        self.start = Prescribed(matrix_of, causal=causal)

    @with_mask
    def bias(self, q: Float[Tensor, "B H T K"], k: Float[Tensor, "B H T K"], scale: float) -> Float[Tensor, "1 1 T T"]:
        """B, in float32 at least: one for all sequences and heads; it contains the causal mask."""
        return self.start.bias(q)[None, None]

    def forward(
        self,
        attend: Callable[[Tensor, Tensor, Tensor], Tensor],
        q: Float[Tensor, "B H T K"],
        k: Float[Tensor, "B H T K"],
        v: Float[Tensor, "B H T K"],
    ) -> Float[Tensor, "B H T K"]:
        """D softmax(s + B) v; B is among the biases of `attend`."""
        return self.start.rescale(attend(q, k, v))


def _wide(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


# Activations between affine maps, computed in float32 at least, since the maps magnify the surroundings of one point.
#
#     y = output_scale · (act(input_scale · x + input_shift) + output_shift)
#
# They act elementwise, on any shape.


class ShapedActivation(nn.Module):
    def __init__(self, affine: AffineMaps, activation: nn.Module):
        super().__init__()
        self.affine = affine
        self.activation = activation

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        inner: Tensor = self.activation(self.affine.input_scale * wide + self.affine.input_shift)
        return (self.affine.output_scale * (inner + self.affine.output_shift)).to(x.dtype)


class ShapedLeaky(nn.Module):
    """A leaky ReLU with a solved slope, between a shift of its input, if it is not 0, and the map of its output."""

    def __init__(self, shaped: ShapedLeakyReLU):
        super().__init__()
        self.slope, self.affine = shaped.slope, shaped.affine

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        shift = self.affine.input_shift
        inner = nn.functional.leaky_relu(wide + shift if shift else wide, self.slope)
        return (self.affine.output_scale * (inner + self.affine.output_shift)).to(x.dtype)
