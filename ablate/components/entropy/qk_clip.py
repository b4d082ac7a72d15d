"""QK-Clip: after each step, the weights of queries and keys of a head whose logits became too large are scaled down.

    s_h = max of the head's scaled products q·k over all pairs that the step's batch saw, before maps and biases
    γ_h = min(1, τ / s_h)        W^Q_h ← γ_h^α W^Q_h,    W^K_h ← γ_h^(1-α) W^K_h

The same products would then be at most τ. Where H heads of queries share G of keys, which the paper leaves open, the
key takes the smallest of their factors γ_h^(1-α), and each query the rest: every head is scaled by just its own γ_h.

    Kimi Team 2025, Kimi K2, arXiv:2507.20534, Sec. 2.1 and Alg. 1 (MuonClip; τ = 100, α = 1/2).

Weights with a bias are refused, as are norms of queries, keys or their weights: behind one, scaling changes nothing.
Layers that share their weights scale them one after another. The products are computed in the type of attention, so a
maximum is off by up to 2⁻⁸ of itself in bfloat16. The forward pass, its gradient and heads below τ stay as they are.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from ablate.block.equation import number as written
from ablate.components.declare import AcrossRanks, Cost, Kept, Signal, Sizes, component, implements, number
from ablate.errors import InputError


@component(
    "qk_clip", slots=("entropy",), source="Kimi Team 2025, arXiv:2507.20534", shorthand="tau", stage=-1, version=1
)
class Config:
    """`tau` is τ, the largest logit allowed; `alpha` the share of the queries in the scaling, as a power."""

    watches: ClassVar[bool] = True

    tau: float = number(above=0.0)
    alpha: float = number(at_least=0.0, at_most=1.0)

    def cost(self, sizes: Sizes, width: int) -> Cost:
        """One more product of queries and keys, in training alone, without a gradient."""
        return Cost(flops=2 * sizes.seq_len**2 * sizes.query_width).forward_only()

    def propagate(self, x: Signal, sizes: Sizes, width: int) -> Signal:
        """Σ: nothing is clipped before a step."""
        return x

    def equation(self, x: str) -> str:
        query, key = (f"γ_h^{written(power)} {w}_h" for power, w in ((self.alpha, "W^Q"), (1 - self.alpha, "W^K")))
        return f"W^Q_h ← {query},  W^K_h ← {key},  γ_h = min(1, {written(self.tau)} / max {x}_h)"


import torch
from jaxtyping import Float
from torch import Tensor, nn


@implements(Config)
class QKClip(nn.Module):
    """The weights belong to attention, as those of sigma_reparam do: a plain tuple keeps them."""

    def __init__(self, config: Config, sizes: Sizes, width: int):
        super().__init__()
        self.tau, self.alpha = config.tau, config.alpha
        self.heads, self.shared_by = sizes.n_heads, sizes.query_width // sizes.key_width
        self.weights: tuple[Any, ...] = ()
        self.kept, self.largest = Kept(), None

    def on_weights(self, query: Any, key: Any) -> None:
        """Keep references to the two weights; InputError unless each is just one trained matrix."""
        for name, weight in (("query", query), ("key", key)):
            trained = dict(weight.named_parameters())
            if set(trained) != {"weight"} or trained["weight"].ndim != 2:
                raise InputError(
                    f"qk_clip: the {name} weight is not a plain trained matrix without a bias\n"
                    f"  = give attention `{name}: dense`, or leave qk_clip out"
                )
        self.weights = (query, key)

    def watch(self, largest: Float[Tensor, "H"]) -> None:
        self.kept.keep(largest=largest)

    def losses(self) -> Mapping[str, Tensor]:
        """No loss: this counts the pass that just ran as one of the step."""
        if kept := self.kept.take():
            largest = kept["largest"]
            self.largest = largest if self.largest is None else torch.maximum(self.largest, largest)
        return {}

    def after_step(self, across: AcrossRanks) -> Mapping[str, Tensor]:
        """Scale the weights, and return the largest logit of all heads and the number of heads scaled."""
        query, key = (weight.weight for weight in self.weights)
        mine = query.new_full((self.heads,), -torch.inf) if self.largest is None else self.largest
        self.largest = None
        largest = across.largest(mine.double())
        gamma = torch.where(largest > self.tau, self.tau / largest, 1.0)
        by_key = gamma.pow(1 - self.alpha).view(-1, self.shared_by).amin(1)
        scale(key, by_key)
        scale(query, gamma / by_key.repeat_interleave(self.shared_by))
        return {"largest_logit": largest.max(), "clipped_heads": (gamma < 1).sum()}


def scale(weight: Float[Tensor, "O D"], by: Float[Tensor, "heads"]) -> None:
    """Multiply the rows of each head, in place, in float32 at least; those of a factor 1 keep their bits."""
    wide = torch.promote_types(weight.dtype, torch.float32)
    factors = by.to(wide).repeat_interleave(len(weight) // len(by))
    weight.copy_(weight.to(wide) * factors[:, None])
