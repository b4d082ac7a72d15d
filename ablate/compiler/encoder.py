"""Encoder: blocks that see a whole sequence, and a head that predicts its tokens; with classes, of the sequence too.

    x_0 = entry_norm(dropout(positions(embedding(tokens) + S[segments])))     x_l = layers.l(x_{l-1})
    h = final_norm(x_L)
    logits = head(logit_scale * h)                                            or, with a transform,
    logits = head(logit_scale * norm(φ(h W_tᵀ + b_t))) + b                    φ: gelu, relu or tanh
    classes = tanh(h_0 W_pᵀ + b_p) W_cᵀ + b_c                                 of the first token, where there are any

S are as many rows as there are `segments`, from N(0, std²) as the embedding; without a table the model is not told the
segments. The transform's norm is a component as the entry norm, or the final norm where there is none. Tokens that are
`padding` of the sizes fill up: no query sees them.

    Devlin et al. 2018, arXiv:1810.04805 (Post-LN, an entry norm, a transform by GELU); Geiping & Goldstein 2022,
    arXiv:2212.14034 (Pre-LN, without a transform)

Dimension key: B batch, T time, D width, V size of the vocabulary, C classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ablate.block.architecture import Architecture
from ablate.block.catalogue import Catalogue
from ablate.block.config_values import Surroundings
from ablate.compiler.affine import Affine
from ablate.compiler.build import Builder, SlotAddress
from ablate.compiler.decoder import Decoder
from ablate.compiler.embedding import TokenEmbedding
from ablate.compiler.padding import Padding

ACTIVATIONS: Final[Mapping[str, Callable[[Tensor], Tensor]]] = {
    "gelu": nn.functional.gelu,
    "relu": nn.functional.relu,
    "tanh": torch.tanh,
}


class Encoder(Decoder):
    """[B, T] tokens, and [B, T] segments where it has any -> [B, T, V] logits, and [B, C] where it has classes."""

    def __init__(self, architecture: Architecture, catalogue: Catalogue, address: SlotAddress):
        super().__init__(architecture, catalogue, address)
        sizes, numbers = architecture.sizes, architecture.numbers()
        self.segments = None
        if architecture.segments:
            self.segments = TokenEmbedding(architecture.segments, sizes.d_model, std=numbers["embedding_std"], scale=1)
        self.transform = None
        if architecture.transform != "none":
            around = Builder(catalogue, Surroundings(sizes), address)
            norm = architecture.transform_norm()
            self.transform = Transform(
                Affine(sizes.d_model, sizes.d_model),
                ACTIVATIONS[architecture.transform],
                around.part(norm, ("transform_norm",))(sizes.d_model),
            )
            self.head_bias = nn.Parameter(torch.zeros(sizes.vocab_size))
        self.classifier = Classifier(sizes.d_model, architecture.classes) if architecture.classes else None
        self.padding, self.sequence_padding = sizes.padding, Padding()
        if self.padding is not None:
            self.sequence_padding.tell(self, stack="layers")

    def forward(  # type: ignore[override]  # a decoder has no segments
        self, tokens: Int[Tensor, "B T"], segments: Int[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B T V"] | tuple[Float[Tensor, "B T V"], Float[Tensor, "B C"]]:
        """[B, T] -> [B, T, V], and [B, C] where it has classes."""
        if self.padding is not None:
            self.sequence_padding.real = tokens != self.padding
        embedded = self.embedding(tokens)
        if self.segments is not None:
            embedded = embedded + self.segments(torch.zeros_like(tokens) if segments is None else segments)
        x = self.normed(self.applied(embedded, self.entry_norm, self.layers))
        logits = self.scored(x if self.transform is None else self.transform(x))
        if self.transform is not None:
            logits = logits + self.head_bias
        return logits if self.classifier is None else (logits, self.classifier(x[:, 0]))

    def real_tokens(self) -> Bool[Tensor, "B T"] | None:
        """Return, in a forward pass, which places are tokens; None where nothing fills sequences up."""
        return self.sequence_padding.real


class Transform(nn.Module):
    """y = norm(φ(x Wᵀ + b))."""

    def __init__(self, dense: Affine, activation: Callable[[Tensor], Tensor], norm: nn.Module):
        super().__init__()
        self.dense, self.activation, self.norm = dense, activation, norm

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """[B, T, D] -> [B, T, D]."""
        y: Tensor = self.norm(self.activation(self.dense(x)))
        return y


class Classifier(nn.Module):
    """y = tanh(x W_pᵀ + b_p) W_cᵀ + b_c."""

    def __init__(self, width: int, classes: int):
        super().__init__()
        self.pooler, self.classes = Affine(width, width), Affine(width, classes)

    def forward(self, x: Float[Tensor, "B D"]) -> Float[Tensor, "B C"]:
        """[B, D] -> [B, C]."""
        y: Tensor = self.classes(torch.tanh(self.pooler(x)))
        return y
