"""Vision transformer: a classifier of images, cut into patches.

    x_0 = positions(scale * [E; patches(image) Wᵀ + b])        tokens: the class, then patches row by row
    x_l = layers.l(x_{l-1}), bidirectional;  logits as in `classifier.py`

A patch is its numbers by channel, row and column, so W is a convolution of p x p with a stride of p. The class token,
where there is one, is E ~ N(0, std²), the embedding's standard deviation. W is filled by the model's init; b starts at
0.

Positions on a grid (`sine_cosine_2d`) have for the patch in row y and column x, with D/4 numbers each,

    [sin(x ω), cos(x ω), sin(y ω), cos(y ω)]        ω_i = 10000^(-i / (D/4)),  i = 0, …, D/4 - 1

and 0 for the class token. `sine_cosine_2d_as_released` divides i by D/4 - 1, as the code of Beyer et al. does, which
DeepScaleLM's ViT uses; the order of the four is that of this code.

    Dosovitskiy et al. 2021, arXiv:2010.11929; Chen, Xie and He 2021, arXiv:2104.02057, Sec. 5 (MoCo v3); Beyer et al.
    2022, arXiv:2205.01580

Dimension key: B batch, C channels, H height, W width of an image; P patches, T tokens, D width of the model, N classes.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ablate.block.architecture import Architecture
from ablate.block.catalogue import Catalogue
from ablate.block.classifier import CLASS_TOKEN, ON_A_GRID, features, grid, side_of
from ablate.compiler.affine import Affine
from ablate.compiler.build import SlotAddress
from ablate.compiler.classifier import Classifier
from ablate.compiler.decoder import positions
from ablate.compiler.initialise import Draw


class VisionTransformer(Classifier):
    """[B, C, H, W] images -> [B, N] logits."""

    def __init__(self, architecture: Architecture, catalogue: Catalogue, address: SlotAddress):
        numbers = architecture.numbers()
        has_class_token = architecture.pooling == CLASS_TOKEN
        embedding = PatchEmbedding(
            side_of(architecture),
            features(architecture),
            architecture.sizes.d_model,
            scale=numbers["embedding_scale"],
            class_token_std=numbers["embedding_std"] if has_class_token else None,
        )
        placed: nn.Module | None
        if architecture.positions in ON_A_GRID:
            released = architecture.positions == ON_A_GRID[1]
            placed = GridPositions(*grid(architecture), before=has_class_token, released=released)
        else:
            std, rows = numbers.get("position_std"), architecture.rows()
            placed = positions(architecture.positions, architecture.sizes, std=std, rows=rows)
        super().__init__(architecture, catalogue, address, embedding, placed)


class PatchEmbedding(Affine):
    """y = scale * [E; x_1 Wᵀ + b; …; x_P Wᵀ + b], for the patches x of an image, row by row, of `side` each.

    A patch is flattened by channel, row and column. E ~ N(0, `class_token_std`²) is the same for every image; without
    a standard deviation there is none.
    """

    def __init__(self, side: int, numbers: int, width: int, *, scale: float, class_token_std: float | None):
        super().__init__(numbers, width)
        self.side, self.scale, self.class_token_std = side, scale, class_token_std
        self.class_token = None if class_token_std is None else nn.Parameter(torch.empty(width))

    def initialise(self, draw: Draw) -> None:
        """Draw the matrix, and the class token."""
        super().initialise(draw)
        if self.class_token is not None and self.class_token_std is not None:
            draw.normal("class_token", self.class_token, self.class_token_std)

    def forward(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B T D"]:
        """[B, C, H, W] -> [B, T, D]."""
        batch, channels, height, width = images.shape
        rows, columns = height // self.side, width // self.side
        cut = images.reshape(batch, channels, rows, self.side, columns, self.side)
        patches = cut.permute(0, 2, 4, 1, 3, 5).reshape(batch, rows * columns, -1)
        x = super().forward(patches).to(self.weight.dtype)
        if self.class_token is not None:
            x = torch.cat([self.class_token.expand(batch, 1, -1), x], dim=1)
        return self.scale * x


class GridPositions(nn.Module):
    """y_t = x_t + P_t, for patches in `rows` and `columns`; `before`: a token before them, to which nothing is added.

    P is that of the file's docstring, `released` with the frequencies of the released code. No parameters.
    """

    def __init__(self, rows: int, columns: int, *, before: bool, released: bool):
        super().__init__()
        self.rows, self.columns, self.before, self.released = rows, columns, before, released

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """[B, T, D] -> [B, T, D]."""
        quarter = x.shape[-1] // 4
        numbers = torch.arange(quarter, device=x.device, dtype=torch.float64)
        frequencies = 10000 ** (-numbers / max(1, quarter - self.released))
        down, across = (
            torch.arange(n, device=x.device, dtype=torch.float64)[:, None] * frequencies
            for n in (self.rows, self.columns)
        )
        shape = (self.rows, self.columns, quarter)
        parts = [f(across)[None].expand(shape) for f in (torch.sin, torch.cos)]
        parts += [f(down)[:, None].expand(shape) for f in (torch.sin, torch.cos)]
        table = torch.cat(parts, dim=-1).flatten(0, 1)
        if self.before:
            table = torch.cat([table.new_zeros(1, table.shape[1]), table])
        return x + table.to(x.dtype)
