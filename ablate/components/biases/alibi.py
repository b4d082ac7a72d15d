"""ALiBi: attention falls off with distance, at a different rate in each head.

    s_ij += -m_h |i - j|        m_h = 2^(-8h/H),  h = 1, …, H, where H is a power of 2

For other numbers of heads: the slopes of the next lower power of 2, then every second slope of the next higher one.

    Press et al. 2022, arXiv:2108.12409, Sec. 3 and Fig. 3; slopes for any H as in the authors' code.
"""

from typing import Any

from ablate.components.declare import Cost, Sizes, component, implements


@component("alibi", slots=("bias",), source="Press et al. 2022, arXiv:2108.12409", version=1)
class Config:
    def cost(self, sizes: Sizes, width: int) -> Cost:
        return Cost()

    def propagate(self, sizes: Sizes) -> Any:
        """The bias of each head, [H, T, T]."""
        import numpy as np

        places = np.arange(sizes.seq_len)
        apart = np.abs(places[:, None] - places)
        return -np.array(slopes(sizes.n_heads))[:, None, None] * apart

    def equation(self) -> str:
        return "-m_h |i - j|"


def slopes(n_heads: int) -> tuple[float, ...]:
    """m_1, …, m_H.

    >>> slopes(2)
    (0.0625, 0.00390625)
    >>> slopes(3)
    (0.0625, 0.00390625, 0.25)
    """
    whole = 1 << (n_heads.bit_length() - 1)
    first = tuple(2.0 ** (-8 * h / whole) for h in range(1, whole + 1))
    between = tuple(2.0 ** (-8 * h / (2 * whole)) for h in range(1, 2 * whole + 1, 2))
    return first + between[: n_heads - whole]


import torch
from jaxtyping import Float
from torch import Tensor, nn

from ablate.kernels.bias import with_mask
from ablate.kernels.mask import cached_constant


@implements(Config)
class ALiBi(nn.Module):
    def __init__(self, config: Config, sizes: Sizes, width: int):
        super().__init__()
        self.slopes = slopes(sizes.n_heads)
        self.causal = sizes.causal

    @with_mask
    def bias(self, q: Float[Tensor, "B H T K"], k: Float[Tensor, "B H S K"], scale: float) -> Float[Tensor, "1 H T S"]:
        """In float32 at least, shared by all layers; if causal, it contains the mask."""
        wide = torch.promote_types(q.dtype, torch.float32)
        return table(self.slopes, q.shape[-2], k.shape[-2], self.causal, q.device, wide)


@cached_constant
def table(
    slopes: tuple[float, ...], n_queries: int, n_keys: int, causal: bool, device: torch.device, dtype: torch.dtype
) -> Float[Tensor, "1 H T S"]:
    """-m_h |i - j|; -∞ where j > i if causal."""
    queries = torch.arange(n_queries, device=device, dtype=dtype)
    keys = torch.arange(n_keys, device=device, dtype=dtype)
    past = queries[:, None] - keys
    distances = past.masked_fill(past < 0, torch.inf) if causal else past.abs()
    slope = torch.tensor(slopes, device=device, dtype=dtype)
    return -slope[:, None, None] * distances[None, None]
