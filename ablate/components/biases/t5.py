"""T5's relative positions: a trained number for each head and each bucket of distances, added to the scores.

    s_ij += w_h,b(i - j)        b(n) = n for n < E;  E + ⌊(N - E) log(n / E) / log(M / E)⌋ up to N - 1 for n >= E

If attention is causal, all N buckets are of the past: E = ⌊N/2⌋ for single distances, the others of logarithmically
growing width up to M, beyond which all distances share the last. Otherwise past and future have N/2 buckets each.

    Raffel et al. 2020, arXiv:1910.10683, Sec. 2.1; the buckets as in the code released with it: N = 32, M = 128.

There all layers share one set of numbers; here each attention has its own.
"""

from bisect import bisect_left
from typing import Any

from ablate.components.declare import Cost, Draw, Maker, Node, Sizes, component, fixed, implements, number, part
from ablate.errors import InputError


@component("t5", slots=("bias",), source="Raffel et al. 2020, arXiv:1910.10683", version=1)
class Config:
    """`buckets` is N, `max_distance` M, both whole; `init` fills the numbers (none: the model's own init)."""

    buckets: float = number(at_least=2.0, at_most=1024.0, whole=True)
    max_distance: float = number(at_least=2.0, at_most=1e6, whole=True)
    init: Maker | None = part("init", optional=True)

    def edges(self, causal: bool) -> tuple[int, ...]:
        """The distances at which the buckets of one direction begin; InputError if there are none."""
        here = int(self.buckets) if causal else int(self.buckets) // 2
        if here < 2 or (not causal and self.buckets % 2):
            raise InputError(
                f"t5 cannot split {self.buckets:g} buckets into past and future\n  = choose an even number, at least 4"
            )
        if self.max_distance <= here // 2:
            raise InputError(
                f"t5 with max_distance {self.max_distance:g}: distances below {here // 2} already have buckets of "
                "their own\n  = choose a larger max_distance, or fewer buckets"
            )
        return edges(here, int(self.max_distance))

    def cost(self, sizes: Sizes, width: int) -> Cost:
        self.edges(sizes.causal)
        return Cost(parameters=int(self.buckets) * sizes.n_heads)

    @staticmethod
    def effective(node: Node, sizes: Sizes) -> Node:
        """The least M that has the same buckets within the context."""
        buckets, largest = int(fixed(node["buckets"]) or 0), int(fixed(node["max_distance"]) or 0)
        here = buckets if sizes.causal else buckets // 2
        least = here // 2 + 1

        def met(most: int) -> list[int]:
            return [edge for edge in edges(here, most) if edge < sizes.seq_len]

        if here >= 2 and largest >= least:  # another is refused
            longer = range(least, largest + 1)
            largest = longer[bisect_left(longer, True, key=lambda most: met(most) == met(largest))]
        return node.replace({"max_distance": float(largest)})

    @property
    def sampled(self) -> bool:
        """A forecast draws the numbers, unless they start at 0."""
        import numpy as np

        from ablate.signal.propagation import Signal

        assert self.init is not None, "the model's own stands in for it"
        filled: Signal = self.init(Signal.root(np.eye(1)), int(self.buckets), 1)
        return filled.mean_square > 0

    def propagate(self, sizes: Sizes) -> Any:
        """The bias of each head, [H, T, T], drawn alike in every forecast: normal, of the mean square of its init.

        Every second head has the numbers of the one before with the other sign; [1, T, T] where they start at 0.
        """
        import numpy as np

        from ablate.signal.propagation import Signal

        assert self.init is not None, "the model's own stands in for it"
        buckets, length = int(self.buckets), sizes.seq_len
        filled: Signal = self.init(Signal.root(np.eye(1)), buckets, sizes.n_heads)
        std = (filled.mean_square / buckets) ** 0.5
        apart = np.subtract.outer(np.arange(length), np.arange(length))
        begins = self.edges(sizes.causal)
        place = np.digitize(np.abs(apart), begins) - 1 + (0 if sizes.causal else len(begins)) * (apart < 0)
        if not std:
            return np.zeros((1, length, length))
        drawn = np.random.default_rng(sizes.layer or 0).normal(scale=std, size=((sizes.n_heads + 1) // 2, buckets))
        both = np.stack([drawn, -drawn], axis=1).reshape(-1, buckets)
        return both[: sizes.n_heads, place]

    def equation(self) -> str:
        return "w_h,b(i - j)"


def edges(buckets: int, max_distance: int) -> tuple[int, ...]:
    """The least distance in each bucket, computed in whole numbers, so that no rounding misplaces a distance.

    Bucket E + k begins at the least n with n^m >= M^k E^(m-k), m = N - E, which is log(n/E)/log(M/E) >= k/m.

    >>> edges(8, 32)
    (0, 1, 2, 3, 4, 7, 12, 20)
    """
    exact = buckets // 2
    rest = buckets - exact
    return tuple(range(exact)) + tuple(
        _least_root(max_distance**step * exact ** (rest - step), rest) for step in range(rest)
    )


def _least_root(power: int, degree: int) -> int:
    """The least whole n with n^degree >= power."""
    low, high = 0, 1 << -(-power.bit_length() // degree)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if middle**degree >= power else (middle, high)
    return high


import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ablate.kernels.mask import cached_constant


@implements(Config)
class T5(nn.Module):
    tables = frozenset({"weight"})

    def __init__(self, config: Config, sizes: Sizes, width: int):
        super().__init__()
        self.causal = sizes.causal
        self.edges = config.edges(sizes.causal)
        self.init = config.init() if config.init else None
        self.weight = nn.Parameter(torch.empty(sizes.n_heads, int(config.buckets)))

    def initialise(self, draw: Draw) -> None:
        """Fill the numbers as a linear map from one-hot buckets to heads."""
        n_heads, buckets = self.weight.shape
        draw.weight("weight", self.weight, self.init, d_in=buckets, d_out=n_heads)

    def bias(self, q: Float[Tensor, "B H T K"], k: Float[Tensor, "B H S K"], scale: float) -> Float[Tensor, "1 H T S"]:
        """In float32 at least."""
        wide = torch.promote_types(q.dtype, torch.float32)
        return self.weight.to(wide)[:, places(self.edges, q.shape[-2], k.shape[-2], self.causal, q.device)][None]


@cached_constant
def places(
    edges: tuple[int, ...], n_queries: int, n_keys: int, causal: bool, device: torch.device
) -> Int[Tensor, "T S"]:
    """b(i - j), shared by all layers: buckets of the past, including distance 0, then those of the future."""
    tokens = torch.arange(max(n_queries, n_keys), device=device)
    past = tokens[:n_queries, None] - tokens[:n_keys]
    begins = torch.tensor(edges, device=device)
    if causal:
        return torch.bucketize(past.clamp(min=0), begins, right=True) - 1
    return torch.bucketize(past.abs(), begins, right=True) - 1 + len(edges) * (past < 0)
