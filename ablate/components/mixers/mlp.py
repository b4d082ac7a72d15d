"""MLP: each token separately through a wider layer and a nonlinearity, optionally gated.

y = down(act(α * up(x)))                      α is `input_scale`
y = down(act(α * up(x)) ⊙ gate(x))            gated

Vaswani et al. 2017, arXiv:1706.03762, Eq. 2; gated: Shazeer 2020, arXiv:2002.05202, Eq. 5 and 6; α, which brings
the inputs of the nonlinearity to order 1 if no norm does: Brock et al. 2021, arXiv:2102.06171, as used by
arXiv:2405.19279, App. C.
"""

from ablate.block.equation import grouped
from ablate.components.declare import Cost, Maker, Signal, Sizes, arithmetic, component, implements, part, width
from ablate.components.inverted import refuse_inverted, turned_back, undoes


@component("mlp", slots=("part",), source="Vaswani et al. 2017, arXiv:1706.03762", version=1)
class Config:
    """`hidden` is the width M; a weight in `gate` makes the MLP gated; `input_scale` is α."""

    activation: Maker = part("activation")
    hidden: int = width()
    input_scale: float = arithmetic()
    up: Maker = part("weight")
    gate: Maker | None = part("weight", optional=True)
    down: Maker = part("weight")

    def cost(self, sizes: Sizes) -> Cost:
        up, down = self.up(sizes.d_model, self.hidden), self.down(self.hidden, sizes.d_model)
        gate = self.gate(sizes.d_model, self.hidden) if self.gate else Cost()
        total: Cost = up + gate + down + self.activation()
        return total

    def propagate(self, x: Signal, sizes: Sizes) -> Signal:
        """Up, activation, gate, down. InputError for a weight that inverts another, but for a down that inverts up."""
        refuse_inverted(up=self.up, gate=self.gate, **({} if undoes(self.down) == "up" else {"down": self.down}))

        def hidden(x: Signal) -> Signal:
            up: Signal = self.up(x, sizes.d_model, self.hidden)
            up = turned_back(x, up) if undoes(self.down) == "up" else up
            inner: Signal = self.activation(up.times(self.input_scale))
            return inner.gated(self.gate(x, sizes.d_model, self.hidden)) if self.gate else inner

        return x.forked(lambda x: [self.down(hidden(x), self.hidden, sizes.d_model)])

    def equation(self, x: str) -> str:
        return f"MLP({x})"

    def details(self) -> tuple[str, ...]:
        up = self.up("X", "W^U")
        hidden = self.activation(up if self.input_scale == 1 else f"{self.input_scale} {grouped(up)}")
        if self.gate:
            hidden = f"({grouped(hidden)} ⊙ {grouped(self.gate('X', 'W^G'))})"
        return (f"MLP(X) = {self.down(grouped(hidden), 'W^D')}",)


from jaxtyping import Float
from torch import Tensor, nn


@implements(Config)
class MLP(nn.Module):
    def __init__(self, config: Config, sizes: Sizes):
        super().__init__()
        self.input_scale = config.input_scale
        self.up = config.up(sizes.d_model, config.hidden)
        self.gate = config.gate(sizes.d_model, config.hidden) if config.gate else None
        self.activation = config.activation()
        self.down = config.down(config.hidden, sizes.d_model)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        scaled: Float[Tensor, "B T M"] = self.up(x) if self.input_scale == 1 else self.input_scale * self.up(x)
        hidden = self.activation(scaled)
        y: Tensor = self.down(hidden if self.gate is None else hidden * self.gate(x))
        return y
