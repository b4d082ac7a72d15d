"""Classifier: layers between the embedding of an image or of features and a head that gives one answer for it.

    x_0 = entry_norm(dropout(positions(embedding(input))))        x_l = layers.l(x_{l-1})
    h = pool(final_norm(x_L))                                     the first token, or the mean over tokens
    h = tanh(h Wᵀ + b)                                            where the head has a layer
    logits = (logit_scale * h) Uᵀ + c                             with a softcap κ, κ tanh(logits / κ)

Every W is filled by the model's init, U by the head's (`head_init`) or else by the model's; b and c start at 0. A probe
of the head reads the whole stream, [B, T, D], as in a decoder.

A vision transformer (`VisionTransformer`) cuts images into patches, and its layers are bidirectional:

    x_0 = positions(scale * [E; patches(image) Wᵀ + b])           tokens: the class, then patches row by row

A patch is its numbers by channel, row and column, so W is a convolution of p x p with a stride of p. The class token,
where there is one, is E ~ N(0, std²), the embedding's standard deviation. Positions on a grid (`sine_cosine_2d`) have
for the patch in row y and column x, with D/4 numbers each, and 0 for the class token,

    [sin(x ω), cos(x ω), sin(y ω), cos(y ω)]        ω_i = 10000^(-i / (D/4)),  i = 0, …, D/4 - 1

`sine_cosine_2d_as_released` divides i by D/4 - 1, as the code of Beyer et al. does, which DeepScaleLM's ViT uses; the
order of the four is that of this code.

    Dosovitskiy et al. 2021, arXiv:2010.11929, Eq. 4 (a class token, its layer in pre-training); Chen, Xie and He
    2021, arXiv:2104.02057, Sec. 5 (MoCo v3); Beyer et al. 2022, arXiv:2205.01580 (the mean; U starts at 0)

A residual MLP (`ResidualMLP`) takes all numbers of an input, flattened, as one token, x_0 = scale * (features(x) Wᵀ +
b), and its blocks have no attention. The layers of He et al. 2024, arXiv:2405.19279, App. E and G, are `residual:
[layer_norm, mlp: {hidden: 1x}]`, or with another norm or none: six of width 1024 over 3 x 32 x 32 numbers have 15.7 M
parameters, the 15 M of the paper; with `head_init: zero` and `logit_scale: 1/sqrt(width)`.

Dimension key: B batch, C channels, H height, W width of an image; P patches, T tokens, D width, N classes.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ablate.block.architecture import CLASS_TOKEN, ON_A_GRID, Architecture, features, grid, side_of
from ablate.block.catalogue import Catalogue
from ablate.block.sizes import Surroundings
from ablate.compiler.build import Builder, SlotAddress, build_block
from ablate.compiler.decoder import Affine, positions, softcapped
from ablate.compiler.initialise import Draw, Init
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
        h = x[:, 0] if self.first else x.mean(1)
        if self.layer is not None:
            h = torch.tanh(self.layer(h))
        return super().forward(h if self.scale == 1 else self.scale * h)


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

    E ~ N(0, `class_token_std`²) is the same for every image; without a standard deviation there is none.
    """

    def __init__(self, side: int, numbers: int, width: int, *, scale: float, class_token_std: float | None):
        super().__init__(numbers, width)
        self.side, self.scale, self.class_token_std = side, scale, class_token_std
        self.class_token = None if class_token_std is None else nn.Parameter(torch.empty(width))

    def initialise(self, draw: Draw) -> None:
        super().initialise(draw)
        if self.class_token is not None and self.class_token_std is not None:
            draw.normal("class_token", self.class_token, self.class_token_std)

    def forward(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B T D"]:
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


class ResidualMLP(Classifier):
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
        return self.scale * super().forward(x.flatten(1)[:, None]).to(self.weight.dtype)
