"""Transformer-XL's relative positions: scores that treat content and distance separately, by trained position keys.

    s_ij += scale · (u_h·k_j + (q_i + v_h)·r_{i-j})        r_n = W^R_h R_n, for N distances n
    R_n = [sin(n ω_0), …, sin(n ω_{D/2-1}), cos(n ω_0), …],  ω_p = base^(-2p/D)

    Dai et al. 2019, arXiv:1901.02860, Sec. 3.3 and App. B (the shift of rows); Eq. 17 of arXiv:2302.10322.

Here each attention has its own u and v. At zero queries the scores are zero only where u and v start at zero.
"""

from typing import Any

from ablate.components.declare import Cost, Draw, Maker, Sizes, component, implements, number, part
from ablate.errors import InputError


@component("transformer_xl", slots=("bias",), source="Dai et al. 2019, arXiv:1901.02860", version=1)
class Config:
    """`base` sets the slowest wave; `init` fills W^R, `start` u and v (none: the model's own init)."""

    base: float = number(above=0.0)
    init: Maker | None = part("init", optional=True)
    start: Maker | None = part("init", optional=True)
    of_content = True

    def cost(self, sizes: Sizes, width: int) -> Cost:
        """R is fixed, and needs no gradient. InputError for an odd width."""
        d_model = sizes.n_heads * width
        if d_model % 2:
            raise InputError(
                f"transformer_xl pairs sines and cosines, but the model is {d_model} wide\n  = choose an even width"
            )
        distances = n_distances(sizes.seq_len, sizes.causal)
        keys = 2 * d_model * distances * d_model
        scores = 2 * d_model * sizes.seq_len * (distances + 1)
        return Cost(parameters=d_model**2 + 2 * d_model, flops=keys + scores, spared=keys)

    def propagate(self, sizes: Sizes) -> Any:
        """0 for every pair, [1, T, T]: no score is the same in every head; `relative_positions` has the rest."""
        import numpy as np

        return np.zeros((1, sizes.seq_len, sizes.seq_len))

    def relative_positions(self, sizes: Sizes, scale: float) -> Any:
        """The distribution of its scores: the variances of u and v, and the kernel of r; `scale` times √d_k."""
        import numpy as np

        from ablate.signal.propagation import Signal
        from ablate.signal.sampled_attention import RelativePositions

        assert self.init is not None and self.start is not None, "the model's own stands in for them"
        width = sizes.query_width
        bias: Signal = self.start(Signal.root(np.eye(1)), sizes.d_head, sizes.n_heads)
        of_entries = bias.mean_square / sizes.d_head
        distances = np.arange(sizes.seq_len) if sizes.causal else np.arange(1 - sizes.seq_len, sizes.seq_len)
        angles = distances[:, None] * self.base ** (-np.arange(0, width, 2) / width)
        waves = np.concatenate((np.sin(angles), np.cos(angles)), -1)
        keys: Signal = self.init(Signal.root(waves @ waves.T / width), width, width)
        return RelativePositions(of_entries, of_entries, keys.kernel, scale)

    def equation(self) -> str:
        return "(u_h·k_j + (q_i + v_h)·W^R_h R_{i-j}) scale"


def n_distances(n_tokens: int, causal: bool) -> int:
    """T if causal, for 0, …, T - 1, else 2T - 1."""
    return n_tokens if causal else 2 * n_tokens - 1


import torch
from jaxtyping import Float
from torch import Tensor, nn


@implements(Config)
class TransformerXL(nn.Module):
    tables = frozenset({"u", "v"})

    def __init__(self, config: Config, sizes: Sizes, width: int):
        super().__init__()
        config.cost(sizes, width)
        self.causal = sizes.causal
        self.base = config.base
        self.init = config.init() if config.init else None
        self.start = config.start() if config.start else None
        d_model = sizes.n_heads * width
        self.weight = nn.Parameter(torch.empty(d_model, d_model))
        self.u = nn.Parameter(torch.empty(sizes.n_heads, width))
        self.v = nn.Parameter(torch.empty(sizes.n_heads, width))

    def initialise(self, draw: Draw) -> None:
        """Fill W^R as a map from width to width, u and v as maps from a head's width to the heads."""
        d_model, (n_heads, width) = len(self.weight), self.u.shape
        draw.weight("weight", self.weight, self.init, d_in=d_model, d_out=d_model)
        draw.weight("u", self.u, self.start, d_in=width, d_out=n_heads)
        draw.weight("v", self.v, self.start, d_in=width, d_out=n_heads)

    def bias(self, q: Float[Tensor, "B H T K"], k: Float[Tensor, "B H T K"], scale: float) -> Float[Tensor, "B H T T"]:
        """In float32 at least; if causal, entries above the diagonal have no meaning."""
        wide = torch.promote_types(q.dtype, torch.float32)
        u, v = self.u.to(wide)[:, :, None], self.v.to(wide)[:, None]
        content = k.to(wide) @ u
        place = (q.to(wide) + v) @ self.position_keys(q.shape[-2], wide).transpose(-2, -1)
        return scale * (content.transpose(-2, -1) + by_key(place))

    def position_keys(self, n_tokens: int, dtype: torch.dtype) -> Float[Tensor, "H N K"]:
        """r of every distance, from T - 1 down to 0 if causal, else to -(T - 1)."""
        n_heads, width = self.u.shape
        last = n_tokens - n_distances(n_tokens, self.causal)
        device = self.weight.device
        distances = torch.arange(n_tokens - 1, last - 1, -1, device=device, dtype=torch.float64)
        pairs = torch.arange(0, len(self.weight), 2, device=device, dtype=torch.float64)
        angles = distances[:, None] * self.base ** (-pairs / len(self.weight))
        waves = torch.cat((angles.sin(), angles.cos()), dim=-1).to(dtype)
        return (waves @ self.weight.to(dtype).T).reshape(-1, n_heads, width).transpose(0, 1)


def by_key(place: Float[Tensor, "B H T N"]) -> Float[Tensor, "B H T T"]:
    """Turn columns of distances into columns of keys: row i of the result is row i of `place` from column T - 1 - i on.

    With a column appended, entry (i, T - 1 - i + j) is at T - 1 + i N + j of the flattened matrix.
    """
    n_tokens, n_columns = place.shape[-2:]
    flat = nn.functional.pad(place, (0, 1)).flatten(-2)[..., n_tokens - 1 :][..., : n_tokens * n_columns]
    return flat.reshape(*flat.shape[:-1], n_tokens, n_columns)[..., :n_tokens]
