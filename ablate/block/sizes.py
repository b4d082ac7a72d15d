"""The sizes a model is built at, and the scope in which the gains of one layer are evaluated."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """n_layers blocks of width d_model with n_heads heads, over seq_len positions of a vocabulary of vocab_size."""

    n_layers: int
    d_model: int
    n_heads: int
    seq_len: int
    vocab_size: int
    causal: bool = True

    @property
    def d_head(self) -> int:
        """Width of one head: d_model / n_heads."""
        return self.d_model // self.n_heads

    def scope(self, layer: int) -> dict[str, float]:
        """The names that arithmetic in layer `layer` (from 1) may use."""
        return {
            "depth": self.n_layers,
            "layer": layer,
            "width": self.d_model,
            "heads": self.n_heads,
            "head_width": self.d_head,
            "context": self.seq_len,
        }
