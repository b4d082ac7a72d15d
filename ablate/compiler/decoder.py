"""Decoder: blocks between an embedding and a head that predicts the next token.

    x_0 = entry_norm(dropout(positions(embedding(tokens))))        x_l = layers.l(x_{l-1})
    logits = head(logit_scale * final_norm(x_L))                   with a softcap c, c tanh(logits / c)
    logits_k = head(logit_scale * final_norm(ahead.k(x_L)))        in training, for the k-th token ahead (`values.py`)

`logit_scale` is 1/width in µP (Yang et al. 2022, arXiv:2203.03466) and 1/sqrt(0.3 width) in the released code of
DeepScaleLM (Kedia et al. 2024, arXiv:2403.09635). The softcap, 30 in Gemma 2 (Gemma Team 2024, arXiv:2408.00118,
Sec. 2), is computed in float32 at least.

`causal` of the sizes determines, for every block, whether attention sees only the past or everything.

Dimension key: B batch, T time, D width of the model, V size of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ablate.block.address import ValuePlace
from ablate.block.architecture import Architecture
from ablate.block.catalogue import Catalogue
from ablate.block.sizes import Sizes, Surroundings
from ablate.compiler.build import Builder, SlotAddress, build_block
from ablate.compiler.initialise import Draw, Init
from ablate.compiler.values import Ahead, KeptValue, ValuesRead
from ablate.errors import InputError

# Embedding, positions and head, which surround the blocks of a model of tokens.


class TokenEmbedding(nn.Module):
    """x_t = scale * E[token_t],  E ~ N(0, std²).

    `scale` acts on the output alone (the factor 50 of arXiv:2405.19279, App. G); a head tied to E uses it unscaled.
    """

    def __init__(self, vocab_size: int, width: int, *, std: float, scale: float):
        super().__init__()
        self.std, self.scale = std, scale
        self.weight = nn.Parameter(torch.empty(vocab_size, width))

    def initialise(self, draw: Draw) -> None:
        draw.normal("weight", self.weight, self.std)

    def forward(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        return self.scale * nn.functional.embedding(tokens, self.weight)


class LearnedPositions(nn.Module):
    """y_t = x_t + P[t],  P ~ N(0, std²); one of `rows` rows for each position."""

    def __init__(self, rows: int, width: int, *, std: float):
        super().__init__()
        self.std = std
        self.weight = nn.Parameter(torch.empty(rows, width))

    def initialise(self, draw: Draw) -> None:
        draw.normal("weight", self.weight, self.std)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Raise ValueError for more tokens than there are learned positions."""
        if x.shape[1] > self.weight.shape[0]:
            raise ValueError(f"{x.shape[1]} tokens, but learned positions for {self.weight.shape[0]} only")
        return x + self.weight[: x.shape[1]]


class SinusoidalPositions(nn.Module):
    """y_t = x_t + P_t,  P_{t,2i} = sin(t / 10000^(2i/D)),  P_{t,2i+1} = cos(t / 10000^(2i/D)),  t = 0, 1, …

    Vaswani et al. 2017, arXiv:1706.03762, Sec. 3.5. No parameters; any number of positions.
    """

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        n_times, width = x.shape[1:]
        pairs = torch.arange(0, width, 2, device=x.device, dtype=torch.float64)
        times = torch.arange(n_times, device=x.device, dtype=torch.float64)
        angles = times[:, None] * 10000 ** (-pairs / width)
        table = torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)[:, :width]
        return x + table.to(x.dtype)


class Head(nn.Module):
    """logits = x Uᵀ, with a matrix U of its own, filled by `init`, or by the model's if that is None."""

    def __init__(self, width: int, vocab_size: int, init: Init | None = None):
        super().__init__()
        self.init = init
        self.weight = nn.Parameter(torch.empty(vocab_size, width))

    def initialise(self, draw: Draw) -> None:
        vocab_size, width = self.weight.shape
        draw.weight("weight", self.weight, self.init, d_in=width, d_out=vocab_size)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T V"]:
        return nn.functional.linear(x, self.weight)


class TiedHead(nn.Module):
    """logits = x Eᵀ, with the embedding's table, unscaled. No parameters of its own."""

    def forward(self, x: Float[Tensor, "B T D"], table: Float[Tensor, "V D"]) -> Float[Tensor, "B T V"]:
        return nn.functional.linear(x, table)


# A linear map with a bias, for what surrounds the blocks of other kinds of model.


class Affine(nn.Module):
    """y = x Wᵀ + b, from `features` to `width`; W is filled by `init`, or the model's if it is None; b starts at 0."""

    def __init__(self, features: int, width: int, init: Init | None = None):
        super().__init__()
        self.init = init
        self.weight = nn.Parameter(torch.empty(width, features))
        self.bias = nn.Parameter(torch.zeros(width))

    def initialise(self, draw: Draw) -> None:
        width, features = self.weight.shape
        draw.weight("weight", self.weight, self.init, d_in=features, d_out=width)

    def forward(self, x: Float[Tensor, "... F"]) -> Float[Tensor, "... D"]:
        return nn.functional.linear(x.to(self.weight.dtype), self.weight, self.bias)


NONE_GIVEN: Final[Mapping[ValuePlace, KeptValue]] = MappingProxyType({})


class Decoder(nn.Module):
    """[B, T] tokens -> [B, T, V] logits. A slot that the architecture leaves empty is None.

    `given` are values that a model around it keeps for the layers to read.
    """

    def __init__(
        self,
        architecture: Architecture,
        catalogue: Catalogue,
        address: SlotAddress,
        given: Mapping[ValuePlace, KeptValue] = NONE_GIVEN,
    ):
        super().__init__()
        sizes = architecture.sizes
        around = Builder(catalogue, Surroundings(sizes), address)
        entry, final = architecture.entry_norm, architecture.final_norm
        numbers = architecture.numbers()
        self.embedding = TokenEmbedding(
            sizes.vocab_size, sizes.d_model, std=numbers["embedding_std"], scale=numbers["embedding_scale"]
        )
        self.positions = positions(
            architecture.positions, sizes, std=numbers.get("position_std"), rows=architecture.rows()
        )
        self.embedding_dropout = nn.Dropout(architecture.embedding_dropout) if architecture.embedding_dropout else None
        self.entry_norm = around.part(entry, ("entry_norm",))(sizes.d_model) if entry else None
        self.given = dict(given)
        read = ValuesRead(given=given)
        blocks = {
            n: build_block(architecture.block, sizes, catalogue, n, address.at("layers", source), read)
            for n, source in enumerate(architecture.sources(), start=1)
        }
        self.layers = nn.ModuleDict({str(n): block for n, block in blocks.items()})
        self.final_norm = around.part(final, ("final_norm",))(sizes.d_model) if final else None
        self.logit_scale, self.logit_softcap = numbers["logit_scale"], architecture.logit_softcap
        init = around.part(architecture.head_init, ("head_init",))() if architecture.head_init else None
        self.head = TiedHead() if architecture.tied else Head(sizes.d_model, sizes.vocab_size, init)
        read.attach(self, blocks)
        self.ahead = self._further(architecture, catalogue, address, blocks) if architecture.ahead else None

    def forward(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        x = self.applied(self.embedding(tokens), self.entry_norm, self.layers)
        logits = self._logits(x)
        if self.ahead is not None and self.ahead.runs(training=self.training):
            self.ahead.keep(self._logits(block(x), ahead=True) for block in self.ahead.values())
        return logits

    def applied(self, x: Float[Tensor, "B T D"], entry: nn.Module | None, layers: nn.ModuleDict) -> Tensor:
        for part in (self.positions, self.embedding_dropout, entry, *layers.values()):
            if part is not None:
                x = part(x)
        return x

    def _logits(self, x: Float[Tensor, "B T D"], *, ahead: bool = False) -> Float[Tensor, "B T V"]:
        """The logits of a block `ahead` go past the hooks of the head: a probe there reads the model's own stream."""
        return self.scored(self.normed(x), ahead=ahead)

    def normed(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        return x if self.final_norm is None else self.final_norm(x)

    def scored(self, x: Float[Tensor, "B T D"], *, ahead: bool = False) -> Float[Tensor, "B T V"]:
        """The logits of a stream behind the final norm."""
        if self.logit_scale != 1:
            x = self.logit_scale * x
        given = (x, self.embedding.weight) if isinstance(self.head, TiedHead) else (x,)
        logits: Tensor = self.head.forward(*given) if ahead else self.head(*given)
        return logits if self.logit_softcap is None else softcapped(logits, self.logit_softcap)

    def _further(
        self, architecture: Architecture, catalogue: Catalogue, address: SlotAddress, blocks: Mapping[int, nn.Module]
    ) -> Ahead:
        """The blocks ahead: each stands where the last of the model's blocks stands."""
        last, copies = architecture.sizes.n_layers, {}
        for token in architecture.tokens_ahead():
            read = ValuesRead(given=self.given)
            place = address.at("ahead", token)
            copies[token] = build_block(architecture.block, architecture.sizes, catalogue, last, place, read)
            read.attach(self, {**blocks, last: copies[token]})
        return Ahead(copies)


def softcapped(logits: Tensor, cap: float) -> Tensor:
    """In float32 at least."""
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return cap * torch.tanh(wide / cap)


def positions(name: str, sizes: Sizes, *, std: float | None, rows: int) -> nn.Module | None:
    """The positions added to the embedding: `none`, `sinusoidal`, or `rows` `learned` ones that start at `std`."""
    match name, std:
        case "none", _:
            return None
        case "sinusoidal", _:
            return SinusoidalPositions()
        case "learned", float() | int():
            return LearnedPositions(rows, sizes.d_model, std=std)
        case "learned", None:
            raise InputError("learned positions need an initial standard deviation\n  = give position_std")
    raise InputError(f"unknown positions {name!r} of the model\n  = choose none, learned or sinusoidal")
