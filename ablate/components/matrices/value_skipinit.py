"""Value-SkipInit: a skip around the values: each token keeps its own, and learns to mix in those of others.

y = (α I + β A) v        A the softmax of the scores; the paper starts at α = 1, β = 0, both trained

He et al. 2023, arXiv:2302.10322, Eq. 7; gains for each head as in arXiv:2311.01906, Eq. 4 and Sec. 4.1.
"""

from ablate.block.equation import total, weighted
from ablate.components.declare import Cost, GainMaker, Mixing, Same, Sizes, component, implements, scaling


@component(
    "value_skipinit",
    slots=("matrix",),
    source="He et al. 2023, arXiv:2302.10322",
    same=Same(when={"skip": 0.0, "gain": 1.0}, name="softmax"),
    version=1,
)
class Config:
    """`skip` is α, `gain` is β: one number, or one per head. A gain fixed at 0 computes no attention at all."""

    skip: GainMaker = scaling(per=("scalar", "head"))
    gain: GainMaker = scaling(per=("scalar", "head"))

    @property
    def attends(self) -> bool:
        return self.gain.value != 0

    def cost(self, sizes: Sizes, width: int) -> Cost:
        return sum((gain(sizes.n_heads) for gain in (self.skip, self.gain)), Cost())

    def propagate(self, sizes: Sizes) -> Mixing:
        return Mixing(*(gain(sizes.n_heads) for gain in (self.skip, self.gain)))

    def equation(self, a: str) -> str:
        return total(weighted(self.skip, "I"), weighted(self.gain, a))


from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn


@implements(Config)
class ValueSkipInit(nn.Module):
    def __init__(self, config: Config, sizes: Sizes, width: int):
        super().__init__()
        self.skip = config.skip(sizes.n_heads) if config.skip.value != 0 else None
        self.gain = config.gain(sizes.n_heads) if config.gain.value != 0 else None

    def forward(
        self,
        attend: Callable[[Tensor, Tensor, Tensor], Tensor],
        q: Float[Tensor, "B H T K"],
        k: Float[Tensor, "B H T K"],
        v: Float[Tensor, "B H T K"],
    ) -> Float[Tensor, "B H T K"]:
        if self.gain is None:
            # Not zeros: a gain fixed at 0 also passes a gradient of 0 back to v.
            return 0 * v if self.skip is None else self.skip(v)
        mixed: Tensor = self.gain(attend(q, k, v))
        return mixed if self.skip is None else mixed + self.skip(v)
