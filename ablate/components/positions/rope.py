"""RoPE: rotate queries and keys by angles that grow with position, so that their products depend only on distances.

    q'_t = R_t q_t,  k'_t = R_t k_t        (R_t q)·(R_s k) = q·R_{s-t} k
    R_t turns the pair (x_{2i}, x_{2i+1}) by t * base^(-2i/R),        t = 0, 1, …,  i = 0, …, P - 1

The first R = share * K channels of a head are turned, P = R/2 pairs; the others carry no position.
R must be even. Angles are computed in float64: in float32 they lose digits as positions grow.

    Su et al. 2021, arXiv:2104.09864, Eq. 15 and 34 (neighbouring channels form the pairs); a share of the channels:
    Black et al. 2022, GPT-NeoX-20B, arXiv:2204.06745 (a quarter).
"""

from ablate.block.equation import number as written
from ablate.components.declare import Cost, Node, Signal, Sizes, component, fixed, implements, number
from ablate.errors import InputError


@component(
    "rope",
    slots=("position",),
    source="Su et al. 2021, arXiv:2104.09864",
    shorthand="base",
    added={"share": 1.0},
    version=1,
)
class Config:
    """`base` sets the slowest rotation; the paper's is 10000. `share` is that of the channels which are turned."""

    base: float = number(above=0.0)
    share: float = number(above=0.0, at_most=1.0)

    def cost(self, sizes: Sizes, width: int) -> Cost:
        """Raise InputError unless whole pairs of channels are turned."""
        self.turned(width)
        return Cost()

    @staticmethod
    def effective(node: Node, sizes: Sizes) -> Node:
        """A single pair turns by t whatever the base."""
        one_pair = (fixed(node["share"]) or 0) * sizes.d_head == 2
        return node.replace({"base": 1.0}) if one_pair else node

    def turned(self, width: int) -> int:
        """The number of channels of a head that are turned; InputError unless these are whole pairs."""
        if self.share == 1 and width % 2:
            raise InputError(
                f"rope rotates pairs of channels, but a head has {width}\n  = choose an even width per head"
            )
        turned = self.share * width
        if turned % 2:
            raise InputError(
                f"rope.share is {written(self.share)}, which turns {written(turned)} of a head's {width} channels\n"
                "  = choose a share that makes pairs of channels, such as 1/2 of a width that is a multiple of 4"
            )
        return int(turned)

    def propagate(self, x: Signal, sizes: Sizes, width: int) -> Signal:
        """Σ_ij times the mean of cos((i - j) θ) over the channels' angles, of queries and of keys.

        Of pairs equally far apart the turns of query and key cancel, which the product of two kernels leaves out.
        """
        turned = self.turned(width)
        angles = [self.base ** (-2 * k / turned) for k in range(turned // 2)]
        return x.turned(angles, 1 - turned / width)

    def equation(self, x: str) -> str:
        return f"RoPE({x})"

    def details(self) -> tuple[str, ...]:
        turned = "d_k" if self.share == 1 else f"({written(self.share)}d_k)"
        which = "" if self.share == 1 else f" of the first {written(self.share)}d_k"
        angle = f"t·{written(self.base)}^(-2i/{turned})"
        return (f"RoPE(x_t) = R_t x_t, which turns the channels (2i, 2i+1){which} by {angle}",)


import torch
from jaxtyping import Complex, Float
from torch import Tensor, nn


@implements(Config)
class RoPE(nn.Module):
    def __init__(self, config: Config, sizes: Sizes, width: int):
        super().__init__()
        self.turned = config.turned(width)
        self.base = config.base

    def forward(
        self, q: Float[Tensor, "B H T K"], k: Float[Tensor, "B H T K"]
    ) -> tuple[Float[Tensor, "B H T K"], Float[Tensor, "B H T K"]]:
        # Not a buffer, which .to(bfloat16) would round: a few small operations, shared by q and k.
        wide = torch.promote_types(q.dtype, torch.float32)
        cosine, sine = (part.to(wide) for part in self.rotation(q.shape[-2], self.turned, q.device))
        rotation = torch.complex(cosine, sine)
        return self.partly(q, rotation, wide), self.partly(k, rotation, wide)

    def partly(
        self, x: Float[Tensor, "B H T K"], rotation: Complex[Tensor, "T P"], wide: torch.dtype
    ) -> Float[Tensor, "B H T K"]:
        """Turn the first channels, and keep the others."""
        if self.turned == x.shape[-1]:
            return turn(x.to(wide), rotation).to(x.dtype)
        first, others = x[..., : self.turned], x[..., self.turned :]
        return torch.cat((turn(first.to(wide), rotation).to(x.dtype), others), dim=-1)

    def rotation(self, n_positions: int, width: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """Cosine and sine of every angle, each [T, P], in float64."""
        pairs = torch.arange(0, width, 2, device=device, dtype=torch.float64)
        times = torch.arange(n_positions, device=device, dtype=torch.float64)
        angles = times[:, None] * self.base ** (-pairs / width)
        return angles.cos(), angles.sin()


def turn(x: Float[Tensor, "B H T K"], rotation: Complex[Tensor, "T P"]) -> Float[Tensor, "B H T K"]:
    """Rotate pairs of neighbouring channels, as complex numbers: a fifth of the time of four real products on a CPU."""
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * rotation).flatten(-2)
