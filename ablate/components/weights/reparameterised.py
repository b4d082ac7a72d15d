"""Reparameterised: a fixed matrix plus a trained one, each with a gain, so that training stays near initialisation.

    y = x Wᵀ + b        W = α W_0 + β ΔW        α is `skip`, β is `gain`; all matrices are [d_out, d_in]

W_0 is drawn once and never trained, with the random numbers of a `dense` weight of the same init and address; ΔW is
trained and starts at 0. W is computed once per forward pass.

β is a learning rate in disguise: with fixed β, gradient descent on ΔW moves W as if W were trained itself at β² times
the rate, and Adam (whose step does not see the scale of a gradient, but for eps) at β times the rate (arXiv:2311.01906,
App. A). What cannot learn, and what can:

    fixed β = 0                  nothing: ΔW is not there at all, and W = α W_0 for all of training
    trained β that starts at 0   with ΔW = 0 neither moves: ∂L/∂β = <ΔW, ∂L/∂W> and ∂L/∂ΔW = β ∂L/∂W are both 0.
                                 If `delta` starts ΔW elsewhere, β moves first
    trained β, not from 0        ΔW moves first, since ∂L/∂β is 0 until it has

    He & Hofmann 2024, arXiv:2311.01906, Eq. 6 (β = O(1/sqrt(L))); arXiv:2302.10322 for W_0 orthogonal.
"""

from ablate.block.arithmetic import parse
from ablate.block.equation import total, weighted
from ablate.components.declare import (
    Cost,
    Draw,
    GainMaker,
    Maker,
    Node,
    Signal,
    Sizes,
    arithmetic,
    component,
    fixed,
    flag,
    implements,
    part,
    scaling,
)


@component(
    "reparameterised", slots=("weight",), source="He & Hofmann 2024, arXiv:2311.01906", shorthand="gain", version=1
)
class Config:
    """`init` fills W_0, `delta` fills ΔW (none: by zeros); `bias` trains b; `rate` multiplies the rate of ΔW alone."""

    init: Maker = part("init")
    skip: GainMaker = scaling()
    gain: GainMaker = scaling()
    delta: Maker | None = part("init", optional=True)
    bias: bool = flag()
    rate: float = arithmetic(at_least=0.0)

    @staticmethod
    def effective(node: Node, sizes: Sizes) -> Node:
        """The node without terms whose gain is fixed at 0, and without a ΔW that starts at 0 by its init."""
        if node["delta"] == Node("zero"):
            node = node.replace({"delta": None})
        if fixed(node["gain"]) == 0:
            node = node.replace({"delta": None, "rate": parse(1)})
            if fixed(node["skip"]) == 1 and not node["bias"]:
                return Node("frozen", (("init", node["init"]),))
        return node.replace({"init": Node("zero")}) if fixed(node["skip"]) == 0 else node

    def cost(self, sizes: Sizes, d_in: int, d_out: int) -> Cost:
        """If neither ΔW nor a gain is trained, no gradient of W is needed."""
        inits = sum((init() for init in (self.init, self.delta) if init), Cost())
        trained = d_in * d_out * (self.gain.value != 0) + d_out * self.bias
        product = 2 * sizes.seq_len * d_in * d_out
        fixed = self.gain.value == 0 and self.skip.value is not None
        own = Cost(parameters=trained, flops=product, spared=product * fixed)
        return sum((inits, self.skip(1), self.gain(1), own), Cost())

    def propagate(self, x: Signal, sizes: Sizes, d_in: int, d_out: int) -> Signal:
        """α² of the signal of W_0, and β² of that of ΔW unless it starts at 0."""
        terms = [(self.init, self.skip(1)), *([(self.delta, self.gain(1))] if self.delta else [])]
        return x.forked(lambda x: [init(x, d_in, d_out).times(gain) for init, gain in terms])

    def equation(self, x: str, w: str) -> str:
        """Without terms whose gain is fixed at 0."""
        matrix = total(weighted(self.skip, w.replace("W", "W₀", 1)), weighted(self.gain, f"Δ{w}"))
        return f"{x} ({matrix}){' + b' if self.bias else ''}"


import torch
from jaxtyping import Float
from torch import Tensor, nn


@implements(Config)
class Reparameterised(nn.Module):
    start: Tensor

    def __init__(self, config: Config, sizes: Sizes, d_in: int, d_out: int):
        super().__init__()
        self.d_in, self.d_out = d_in, d_out
        self.init = config.init()
        self.delta_init = config.delta() if config.delta else None
        self.skip = config.skip(1)
        self.gain = config.gain(1)
        self.register_buffer("start", torch.zeros(d_out, d_in))
        learns = config.gain.value != 0
        self.delta = nn.Parameter(torch.zeros(d_out, d_in)) if learns else None
        self.bias = nn.Parameter(torch.zeros(d_out)) if config.bias else None
        self.rates = {"delta": config.rate} if learns else {}

    def initialise(self, draw: Draw) -> None:
        # Under the name "weight", so that it has the random stream of a dense weight.
        draw.weight("weight", self.start, self.init, d_in=self.d_in, d_out=self.d_out)
        if self.delta is not None and self.delta_init is not None:
            draw.weight("delta", self.delta, self.delta_init, d_in=self.d_in, d_out=self.d_out)

    @property
    def matrix(self) -> Float[Tensor, "O I"]:
        fixed: Tensor = self.skip(self.start)
        return fixed if self.delta is None else fixed + self.gain(self.delta)

    def forward(self, x: Float[Tensor, "*rest I"]) -> Float[Tensor, "*rest O"]:
        return nn.functional.linear(x, self.matrix, self.bias)
