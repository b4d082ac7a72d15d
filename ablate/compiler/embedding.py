"""What surrounds the blocks of a model of tokens: embedding, positions, head.

Dimension key: B batch, T time, D width of the model, V size of the vocabulary.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ablate.compiler.initialise import Draw, Init


class TokenEmbedding(nn.Module):
    """x_t = scale * E[token_t],  E ~ N(0, std²).

    `scale` acts on the output alone (the factor 50 of arXiv:2405.19279, App. G); a head tied to E uses it unscaled.
    """

    def __init__(self, vocab_size: int, width: int, *, std: float, scale: float):
        super().__init__()
        self.std, self.scale = std, scale
        self.weight = nn.Parameter(torch.empty(vocab_size, width))

    def initialise(self, draw: Draw) -> None:
        """Draw the table."""
        draw.normal("weight", self.weight, self.std)

    def forward(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """[B, T] -> [B, T, D]."""
        return self.scale * nn.functional.embedding(tokens, self.weight)


class LearnedPositions(nn.Module):
    """y_t = x_t + P[t],  P ~ N(0, std²); one of `rows` rows for each position."""

    def __init__(self, rows: int, width: int, *, std: float):
        super().__init__()
        self.std = std
        self.weight = nn.Parameter(torch.empty(rows, width))

    def initialise(self, draw: Draw) -> None:
        """Draw the table."""
        draw.normal("weight", self.weight, self.std)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """[B, T, D] -> [B, T, D]; ValueError for more tokens than there are learned positions."""
        if x.shape[1] > self.weight.shape[0]:
            raise ValueError(f"{x.shape[1]} tokens, but learned positions for {self.weight.shape[0]} only")
        return x + self.weight[: x.shape[1]]


class SinusoidalPositions(nn.Module):
    """y_t = x_t + P_t,  P_{t,2i} = sin(t / 10000^(2i/D)),  P_{t,2i+1} = cos(t / 10000^(2i/D)),  t = 0, 1, …

    Vaswani et al. 2017, arXiv:1706.03762, Sec. 3.5. No parameters; any number of positions.
    """

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """[B, T, D] -> [B, T, D]."""
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
        """Draw the matrix."""
        vocab_size, width = self.weight.shape
        draw.weight("weight", self.weight, self.init, d_in=width, d_out=vocab_size)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T V"]:
        """[B, T, D] -> [B, T, V]."""
        return nn.functional.linear(x, self.weight)


class TiedHead(nn.Module):
    """logits = x Eᵀ, with the embedding's table, unscaled. No parameters of its own."""

    def forward(self, x: Float[Tensor, "B T D"], table: Float[Tensor, "V D"]) -> Float[Tensor, "B T V"]:
        """[B, T, D] -> [B, T, V]."""
        return nn.functional.linear(x, table)
