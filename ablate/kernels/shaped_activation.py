"""Activations between affine maps, computed in float32 at least, since the maps magnify the surroundings of one point.

    y = output_scale * (act(input_scale * x + input_shift) + output_shift)

They act elementwise, on any shape.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ablate.signal.affine import Affine
from ablate.signal.leaky_relu_shaping import ShapedLeakyReLU


class ShapedActivation(nn.Module):
    """An activation between two affine maps."""

    def __init__(self, affine: Affine, activation: nn.Module):
        super().__init__()
        self.affine = affine
        self.activation = activation

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """[*shape] -> [*shape], in the dtype of x."""
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        inner: Tensor = self.activation(self.affine.input_scale * wide + self.affine.input_shift)
        return (self.affine.output_scale * (inner + self.affine.output_shift)).to(x.dtype)


class ShapedLeaky(nn.Module):
    """A leaky ReLU with a solved slope, between a shift of its input, if it is not 0, and the map of its output."""

    def __init__(self, shaped: ShapedLeakyReLU):
        super().__init__()
        self.slope, self.affine = shaped.slope, shaped.affine

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """[*shape] -> [*shape], in the dtype of x."""
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        shift = self.affine.input_shift
        inner = nn.functional.leaky_relu(wide + shift if shift else wide, self.slope)
        return (self.affine.output_scale * (inner + self.affine.output_shift)).to(x.dtype)
