"""σReparam: queries and keys whose weights are divided by their spectral norm, times a learned scalar each.

    Ŵ = (γ / σ(W)) W        for W^Q and W^K alike; σ(W) the largest singular value; γ starts at 1

Attention's entropy is bounded from below by a function of both spectral norms, which only γ can then raise. Since the
map is linear, q and k are scaled instead. σ is tracked by one power iteration per training pass, and its gradient flows
through W (`kernels/spectral.py`).

    Zhai et al. 2023, arXiv:2303.06296, Sec. 3.2; of every linear layer, as there: the weight `spectral`.
"""

from ablate.components.declare import Cost, Signal, Sizes, component, implements
from ablate.errors import InputError


@component("sigma_reparam", slots=("entropy",), source="Zhai et al. 2023, arXiv:2303.06296", stage=-1, version=1)
class Config:
    """Nothing to choose. Acts before every other regulation of queries and keys, since it acts on their weights."""

    def cost(self, sizes: Sizes, width: int) -> Cost:
        """Of a power iteration Wᵀ u needs no gradient, W v that of W only: 6·D² of 12·D² training FLOPs are spared."""
        numbers = sizes.d_model * (sizes.query_width + sizes.key_width)
        return Cost(parameters=2, flops=4 * numbers, spared=6 * numbers)

    def propagate(self, x: Signal, sizes: Sizes, width: int) -> Signal:
        """Σ / σ(W)² of queries or keys, as γ starts at 1."""
        return x.by_spectral_norm()

    def equation(self, x: str) -> str:
        return f"(γ / σ(W)) {x}"


from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ablate.kernels.spectral import SpectralNorm


@implements(Config)
class SigmaReparam(nn.Module):
    """The weights belong to attention: a plain tuple does not register them; a copy refers to the copied weights."""

    def __init__(self, config: Config, sizes: Sizes, width: int):
        super().__init__()
        self.query_gamma = nn.Parameter(torch.ones(()))
        self.key_gamma = nn.Parameter(torch.ones(()))
        self.query_sigma = SpectralNorm(sizes.d_model, sizes.query_width)
        self.key_sigma = SpectralNorm(sizes.d_model, sizes.key_width)
        self.weights: tuple[Any, ...] = ()

    def on_weights(self, query: Any, key: Any) -> None:
        """Keep references to the two weights; InputError unless each is just one trained matrix."""
        for name, weight in (("query", query), ("key", key)):
            trained = dict(weight.named_parameters())
            if set(trained) != {"weight"} or trained["weight"].ndim != 2:
                raise InputError(
                    f"sigma_reparam: the {name} weight is not a plain trained matrix without a bias\n"
                    f"  = give attention `{name}: dense`, or leave sigma_reparam out"
                )
        self.weights = (query, key)

    def initialise(self, draw: object) -> None:
        """Find the singular vectors of the weights, which are filled by now; InputError for a weight of zeros."""
        for sigma, weight in zip((self.query_sigma, self.key_sigma), self.weights, strict=True):
            if sigma.start(weight.weight) == 0:
                raise InputError(
                    "sigma_reparam: queries or keys start at 0, and cannot be divided by their norm\n"
                    "  = give both an init that is not zero, or leave sigma_reparam out"
                )

    def on_queries_keys(
        self, q: Float[Tensor, "B H T K"], k: Float[Tensor, "B H T K"]
    ) -> tuple[Float[Tensor, "B H T K"], Float[Tensor, "B H T K"]]:
        query, key = self.weights
        q_scale = self.query_gamma / self.query_sigma(query.weight)
        k_scale = self.key_gamma / self.key_sigma(key.weight)
        return q * q_scale.to(q.dtype), k * k_scale.to(k.dtype)
