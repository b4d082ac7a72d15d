"""QK-Norm: bound the attention logits by normalising queries and keys within each head.

    q' = norm_q(q)        k' = norm_k(k)        over the head axis K; one norm for all heads, one each for q and k

With an RMSNorm at gain 1, |q'·k'| <= K, so the logits at scale 1/sqrt(K) stay within sqrt(K), and larger queries or
keys no longer sharpen attention. It acts before positions.

    Henry et al. 2020, arXiv:2010.04245     l2 norm, one learned scale for all heads
    Dehghani et al. 2023, arXiv:2302.05442  LayerNorm on q and k (ViT-22B)
    He et al. 2024, arXiv:2405.19279        RMSNorm on q and k (OP block, "Post-QK")
"""

from ablate.components.declare import Cost, Maker, Signal, Sizes, component, implements, part


@component(
    "qk_norm", slots=("entropy",), source="Henry et al. 2020, arXiv:2010.04245", shorthand="norm", stage=0, version=1
)
class Config:
    """`norm` is used twice: for queries and for keys."""

    norm: Maker = part("norm")

    def cost(self, sizes: Sizes, width: int) -> Cost:
        return sum((self.norm(width), self.norm(width)), Cost())

    def propagate(self, x: Signal, sizes: Sizes, width: int) -> Signal:
        out: Signal = self.norm(x, width)
        return out

    def equation(self, x: str) -> str:
        text: str = self.norm(x)
        return text


from jaxtyping import Float
from torch import Tensor, nn


@implements(Config)
class QKNorm(nn.Module):
    def __init__(self, config: Config, sizes: Sizes, width: int):
        super().__init__()
        self.query = config.norm(width)
        self.key = config.norm(width)

    def on_queries_keys(
        self, q: Float[Tensor, "B H T K"], k: Float[Tensor, "B H T K"]
    ) -> tuple[Float[Tensor, "B H T K"], Float[Tensor, "B H T K"]]:
        return self.query(q), self.key(k)
