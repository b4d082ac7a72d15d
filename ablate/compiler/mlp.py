"""Residual MLP: a classifier of features, whose layers are blocks without attention.

    x_0 = scale * (features(x) Wᵀ + b)        features(x): all numbers of an input, flattened; one token
    x_l = layers.l(x_{l-1});  logits as in `classifier.py`

W is filled by the model's init; b starts at 0. No table starts at the embedding's standard deviation, as there is none.

The layers of He et al. 2024, arXiv:2405.19279, App. E and G, are `residual: [layer_norm, mlp: {hidden: 1x}]`, or with
another norm or none: six of width 1024 over 3 x 32 x 32 numbers have 15.7 M parameters, the 15 M of the paper. Its last
layer starts at 0 (`head_init: zero`), its output is divided by the root of the width (`logit_scale: 1/sqrt(width)`).

Dimension key: B batch, D width of the model, N classes.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from ablate.block.architecture import Architecture
from ablate.block.catalogue import Catalogue
from ablate.block.classifier import features
from ablate.compiler.affine import Affine
from ablate.compiler.build import SlotAddress
from ablate.compiler.classifier import Classifier


class ResidualMLP(Classifier):
    """[B, …] -> [B, N] logits."""

    def __init__(self, architecture: Architecture, catalogue: Catalogue, address: SlotAddress):
        scale = architecture.number("embedding_scale")
        embedding = FeatureEmbedding(features(architecture), architecture.sizes.d_model, scale=scale)
        super().__init__(architecture, catalogue, address, embedding)


class FeatureEmbedding(Affine):
    """y = scale * (x Wᵀ + b), for all numbers x of an input, as one token."""

    def __init__(self, numbers: int, width: int, *, scale: float):
        super().__init__(numbers, width)
        self.scale = scale

    def forward(self, x: Float[Tensor, "B *shape"]) -> Float[Tensor, "B 1 D"]:
        """[B, …] -> [B, 1, D]."""
        return self.scale * super().forward(x.flatten(1)[:, None]).to(self.weight.dtype)
