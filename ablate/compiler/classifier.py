"""Classifier: layers between what embeds an input and a head that gives one answer for it.

    x_0 = entry_norm(dropout(positions(embedding(input))))        x_l = layers.l(x_{l-1})
    h = pool(final_norm(x_L))                                     the first token, or the mean over tokens
    h = tanh(h Wᵀ + b)                                            where the head has a layer
    logits = (logit_scale * h) Uᵀ + c                             with a softcap κ, κ tanh(logits / κ)

W is filled by the model's init, U by the head's (`head_init`) or else by the model's; b and c start at 0. What is read
at the head is the whole stream, [B, T, D], as in a decoder.

    Dosovitskiy et al. 2021, arXiv:2010.11929, Eq. 4 (a class token, its layer in pre-training); Beyer et al. 2022,
    arXiv:2205.01580 (the mean; U starts at 0)

Dimension key: B batch, T tokens, D width of the model, N classes.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ablate.block.architecture import Architecture
from ablate.block.catalogue import Catalogue
from ablate.block.classifier import CLASS_TOKEN
from ablate.block.config_values import Surroundings
from ablate.compiler.affine import Affine
from ablate.compiler.build import Builder, SlotAddress, build_block
from ablate.compiler.decoder import softcapped
from ablate.compiler.initialise import Init
from ablate.compiler.values import ValuesRead


class Classifier(nn.Module):
    """[B, …] -> [B, N] logits; `embedding` makes tokens of an input. A slot that is left empty is None."""

    def __init__(
        self,
        architecture: Architecture,
        catalogue: Catalogue,
        address: SlotAddress,
        embedding: nn.Module,
        positions: nn.Module | None = None,
    ):
        super().__init__()
        sizes = architecture.sizes
        around = Builder(catalogue, Surroundings(sizes), address)
        entry, final, init = architecture.entry_norm, architecture.final_norm, architecture.head_init
        self.embedding, self.positions = embedding, positions
        self.embedding_dropout = nn.Dropout(architecture.embedding_dropout) if architecture.embedding_dropout else None
        self.entry_norm = around.part(entry, ("entry_norm",))(sizes.d_model) if entry else None
        read = ValuesRead()
        blocks = {
            n: build_block(architecture.block, sizes, catalogue, n, address.at("layers", source), read)
            for n, source in enumerate(architecture.sources(), start=1)
        }
        self.layers = nn.ModuleDict({str(n): block for n, block in blocks.items()})
        self.final_norm = around.part(final, ("final_norm",))(sizes.d_model) if final else None
        self.head = ClassHead(
            sizes.d_model,
            sizes.vocab_size,
            first=architecture.pooling == CLASS_TOKEN,
            layer=architecture.head_layer,
            init=around.part(init, ("head_init",))() if init else None,
            scale=architecture.number("logit_scale"),
        )
        self.logit_softcap = architecture.logit_softcap
        read.attach(self, blocks)

    def forward(self, x: Float[Tensor, "B *shape"]) -> Float[Tensor, "B N"]:
        """[B, …] -> [B, N]."""
        x = self.embedding(x)
        around = (self.positions, self.embedding_dropout, self.entry_norm, *self.layers.values(), self.final_norm)
        for part in around:
            if part is not None:
                x = part(x)
        logits: Tensor = self.head(x)
        return logits if self.logit_softcap is None else softcapped(logits, self.logit_softcap)


class ClassHead(Affine):
    """logits = (scale * h) Uᵀ + c,  h = pool(x), behind tanh(h Wᵀ + b) where there is a `layer`.

    `first` says that the first token is read, else the mean over tokens.
    """

    def __init__(self, width: int, classes: int, *, first: bool, layer: bool, init: Init | None, scale: float):
        super().__init__(width, classes, init)
        self.first, self.scale = first, scale
        self.layer = Affine(width, width) if layer else None

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B N"]:
        """[B, T, D] -> [B, N]."""
        h = x[:, 0] if self.first else x.mean(1)
        if self.layer is not None:
            h = torch.tanh(self.layer(h))
        return super().forward(h if self.scale == 1 else self.scale * h)
