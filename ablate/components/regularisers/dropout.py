"""Dropout: in training each number is set to 0 with probability p, else divided by 1 - p; none in evaluation.

    y = m x / (1 - p),  m ~ Bernoulli(1 - p) anew for every number        in training
    y = x                                                                 in evaluation

    Srivastava et al. 2014, JMLR 15 (1929); at the end of each branch as in arXiv:1706.03762, Sec. 5.4.

The masks come from PyTorch's own generator, which a trial seeds separately from its weights and its data.
"""

from ablate.components.declare import Cost, Signal, Sizes, Transparent, component, implements, number


@component(
    "dropout",
    slots=("part",),
    modifier=True,
    shorthand="p",
    source="Srivastava et al. 2014, JMLR 15",
    transparent=Transparent(when={"p": 0.0}, keep=None),
    version=1,
)
class Config:
    """`p` is the probability of being dropped."""

    p: float = number(at_least=0.0, below=1.0)

    def cost(self, sizes: Sizes) -> Cost:
        return Cost()

    def propagate(self, x: Signal, sizes: Sizes) -> Signal:
        """Σ_ii / (1 - p), as in training."""
        return x.dropped(self.p)

    def equation(self, x: str) -> str:
        return f"Dropout_{self.p:g}({x})" if self.p else x


from jaxtyping import Float
from torch import Tensor, nn


@implements(Config)
class Dropout(nn.Module):
    def __init__(self, config: Config, sizes: Sizes):
        super().__init__()
        self.p = config.p

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Draws nothing where p is 0."""
        return nn.functional.dropout(x, self.p) if self.training and self.p else x
