"""Inverse: at initialisation, the inverse of the weight beside it, or of all linear maps before it.

    layer     W = W_of⁻¹                                             in each layer
    layers    W_L = (W_of,L W_{L-1} W_of,L-1 … W_1 W_of,1)⁻¹          in the last layer L; in the others W is `init`

Behind orthogonal values, with attention at the identity, each sub-block (or the whole skipless stack) starts as the
identity map. The numbers of the other weights are drawn again from their addresses; a model whose weights `of` do not
start from `init` there is refused when it is filled.

    He & Hofmann 2024, arXiv:2311.01906, App. D, Fig. 15: `layer` is its "all-tied", `layers` its "LL-tied".
"""

from ablate.components.declare import Cost, Maker, Signal, Sizes, component, implements, part, word
from ablate.errors import InputError


@component("inverse", slots=("init",), source="He & Hofmann 2024, arXiv:2311.01906", shorthand="of", version=1)
class Config:
    """`of` is the weight to invert, beside this one; `init` fills that one (and, for `layers`, those in between)."""

    of: str = word("value", "query", "key", "projection", "up", "gate", "down")
    through: str = word("layer", "layers")
    init: Maker = part("init")

    def cost(self, sizes: Sizes) -> Cost:
        """Raise InputError outside the layers."""
        if sizes.layer is None:
            raise InputError("inverse is used outside the layers\n  = use it as the init of a weight in a block")
        cost: Cost = self.init()
        return cost

    @property
    def undoes(self) -> str | None:
        """The weight beside it that it inverts; None for `layers`, whose inverse is that of many maps."""
        return self.of if self.through == "layer" else None

    def propagate(self, x: Signal, sizes: Sizes, d_in: int, d_out: int) -> Signal:
        """Σ / s², with s the gain of orthogonal `init`; what is behind the inverted weight stands in its own channels.

        For `layers`, the last layer turns the stream as a fresh orthogonal matrix would: what it has in common with the
        embedding is left out. InputError for another `init`, whose inverse has no mean square.
        """
        fresh: Signal = self.init(x, d_in, d_out)
        square = fresh.mean_square / x.mean_square if x.mean_square else 0.0
        if square == 0 or fresh.largest is None or abs(fresh.largest**2 / square - 1) > 1e-6:
            raise InputError(
                "the inverse of a weight is forecast if it starts orthogonal: of others its mean square is not finite\n"
                "  = set init of both: orthogonal"
            )
        if self.undoes is not None:
            return x.times(square**-0.5)
        if sizes.layer != sizes.n_layers:
            return fresh
        gain = square ** (0.5 - sizes.n_layers)
        return x.through_weights(gain**2, gain**2, gain, orthogonal=True)


import torch
from torch import Tensor

from ablate.block.address import address
from ablate.components.declare import Draw


@implements(Config)
class Inverse:
    def __init__(self, config: Config, sizes: Sizes):
        if sizes.layer is None:
            raise InputError("inverse is used outside the layers\n  = use it as the init of a weight in a block")
        self.of, self.init = config.of, config.init()
        self.layer, self.n_layers, self.all = sizes.layer, sizes.n_layers, config.through == "layers"

    def fill_after(self, tensor: Tensor, d_in: int, d_out: int, draw: Draw, name: str) -> None:
        """Raise InputError for a weight that is not square, or singular."""
        if d_in != d_out:
            raise InputError(
                f"inverse: {draw.address} maps a width of {d_in} to one of {d_out}, and has no inverse\n"
                "  = choose another init there"
            )
        if self.all and self.layer < self.n_layers:
            self.init.fill(tensor, d_in, d_out, draw.stream(name))
            return
        inverse, info = torch.linalg.inv_ex(self.before(d_in, draw, name))
        tensor.copy_(inverse)
        if info.any() or not tensor.isfinite().all():
            inverted = f"the maps up to `{self.of}` in layer {self.layer}" if self.all else f"`{self.of}`"
            raise InputError(
                f"inverse: {draw.address} inverts {inverted}, which starts singular\n"
                "  = give both an invertible init, such as orthogonal with a gain above 0"
            )

    def before(self, width: int, draw: Draw, name: str) -> Tensor:
        """The product of the maps to invert, the first of them rightmost: [width, width]."""
        inside, _, own = draw.address.removeprefix(address(self.layer, "")).rpartition(".")
        product = torch.eye(width, dtype=torch.float64)
        for layer in range(1 if self.all else self.layer, self.layer + 1):
            for weight in (self.of, own) if layer < self.layer else (self.of,):
                other = draw.at(address(layer, f"{inside}.{weight}"))
                product = other.numbers(name, self.init, d_in=width, d_out=width) @ product
        return product
