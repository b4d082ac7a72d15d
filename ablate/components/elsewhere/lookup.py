"""Lookup: a vector for each token from a table of its own, whatever the signal is.

    y_t = E[token_t] ⊙ gate(x_t)        E is [V, d_out]; without a gate the vector itself

Added to the values of attention it is a value embedding: `value: {blend: {own: dense, beside: lookup}}`. Optimisers of
matrices leave the table to AdamW, as they do with embeddings.

    Jordan et al. 2024, modded-nanogpt; Karpathy 2025, nanochat (its gate reads a few channels of the input, for each
    head); tables of n-grams, which this is not, are Engram's: DeepSeek-AI 2026, arXiv:2601.07372.
"""

from ablate.components.declare import Cost, Maker, Signal, Sizes, component, earlier, implements, part
from ablate.errors import InputError


@component("lookup", slots=("weight",), source="Jordan et al. 2024", shorthand="of", version=1)
class Config:
    """`of` are the tokens, `init` fills the table (none: the model's own init), `gate` multiplies what is found."""

    of: Maker = earlier()
    init: Maker | None = part("init", optional=True)
    gate: Maker | None = part("gate", optional=True)

    def cost(self, sizes: Sizes, d_in: int, d_out: int) -> Cost:
        """A lookup is no product. InputError for a gate of part heads."""
        table = Cost(parameters=sizes.vocab_size * d_out)
        inside: Cost = self.init() if self.init else Cost()
        gate: Cost = self.gate(d_out, self.heads(sizes, d_out)) if self.gate else Cost()
        read: Cost = self.of("tokens")
        return table + inside + gate + read

    def heads(self, sizes: Sizes, d_out: int) -> int:
        """The number of heads in the output; InputError unless it is made of whole heads."""
        if d_out % sizes.d_head:
            raise InputError(
                f"lookup has a gate, which counts heads, but {d_out} is no multiple of a head's {sizes.d_head}\n"
                "  = leave out the gate there"
            )
        return d_out // sizes.d_head

    def propagate(self, x: Signal, sizes: Sizes, d_in: int, d_out: int) -> Signal:
        """The mean square of the table, times the chance that two tokens are the same; then the gate."""
        from dataclasses import replace

        from ablate.signal.finite_width import FORGOTTEN

        assert self.init is not None, "the model's own stands in for it"
        same: Signal = self.of("tokens").added(x, 0.0, (d_out**-0.5,))
        vectors: Signal = self.init(same, d_out, sizes.vocab_size)
        vectors = replace(vectors, width=d_out, scatter=FORGOTTEN.through_weights(d_out))
        gated: Signal = self.gate(x, vectors, d_out, self.heads(sizes, d_out)) if self.gate else vectors
        return gated

    def equation(self, x: str, w: str) -> str:
        vectors = f"E[{self.of()}]"
        return f"{self.gate(x, vectors)}" if self.gate else vectors


from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ablate.components.declare import Draw


@implements(Config)
class Lookup(nn.Module):
    tables = ("weight",)

    def __init__(self, config: Config, sizes: Sizes, d_in: int, d_out: int):
        super().__init__()
        self.read: Callable[[], Tensor] = config.of("tokens")
        self.init = config.init() if config.init else None
        self.gate = config.gate(d_out, config.heads(sizes, d_out)) if config.gate else None
        self.weight = nn.Parameter(torch.empty(sizes.vocab_size, d_out))

    def initialise(self, draw: Draw) -> None:
        n_tokens, width = self.weight.shape
        draw.weight("weight", self.weight, self.init, d_in=width, d_out=n_tokens)

    def forward(self, x: Float[Tensor, "B T I"]) -> Float[Tensor, "B T O"]:
        vectors = nn.functional.embedding(self.read(), self.weight).to(x.dtype)
        return vectors if self.gate is None else self.gate(x, vectors)
