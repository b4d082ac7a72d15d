"""Shaped attention: attention minus its value at initialisation, plus a skip around the values.

    y = (α I + β A - γ C) v        A the softmax of the scores, C the same at zero query-key product
    C_ij = 1/i for j <= i          causal and without a bias; with one, C is the softmax of the bias alone; under a mask
                                   both are over the keys that it shows

    Noci et al. 2023, arXiv:2306.17759; as in arXiv:2311.01906, Eq. 5, with gains for each head that start at 1.

With queries that start at zero A is C, so y = v if α = 1 and β = γ, up to the rounding of A v and C v, which are
computed in different ways: about 1e-7 in float32 and 8e-3 in bfloat16 for values of about 1.
"""

from ablate.block.equation import total, weighted
from ablate.components.declare import Cost, GainMaker, Mixing, Node, Same, Sizes, component, fixed, implements, scaling


@component(
    "shaped",
    slots=("matrix",),
    source="Noci et al. 2023, arXiv:2306.17759",
    same=Same(when={"skip": 0.0, "gain": 1.0, "centre": 0.0}, name="softmax"),
    version=1,
)
class Config:
    """`skip` is α, `gain` is β, `centre` is γ: one number, or one per head. A term with gain 0 is omitted."""

    skip: GainMaker = scaling(per=("scalar", "head"))
    gain: GainMaker = scaling(per=("scalar", "head"))
    centre: GainMaker = scaling(per=("scalar", "head"))

    @staticmethod
    def effective(node: Node, sizes: Sizes) -> Node:
        """Value SkipInit where nothing is taken off."""
        if fixed(node["centre"]) != 0:
            return node
        return Node("value_skipinit", (("skip", node["skip"]), ("gain", node["gain"])))

    @property
    def attends(self) -> bool:
        return self.gain.value != 0

    @property
    def centred(self) -> bool:
        """True if C v is computed."""
        return self.centre.value != 0

    def cost(self, sizes: Sizes, width: int) -> Cost:
        return sum((gain(sizes.n_heads) for gain in (self.skip, self.gain, self.centre)), Cost())

    def propagate(self, sizes: Sizes) -> Mixing:
        return Mixing(*(gain(sizes.n_heads) for gain in (self.skip, self.gain, self.centre)))

    def equation(self, a: str) -> str:
        centre = weighted(self.centre, "C")
        less = centre[1:] if centre.startswith("-") else f"-{centre}" if centre else ""
        return total(weighted(self.skip, "I"), weighted(self.gain, a), less)


from jaxtyping import Float
from torch import Tensor, nn

from ablate.kernels.attend import Attend


@implements(Config)
class Shaped(nn.Module):
    def __init__(self, config: Config, sizes: Sizes, width: int):
        super().__init__()
        self.skip = config.skip(sizes.n_heads) if config.skip.value != 0 else None
        self.gain = config.gain(sizes.n_heads) if config.gain.value != 0 else None
        self.centre = config.centre(sizes.n_heads) if config.centre.value != 0 else None

    def forward(
        self,
        attend: Attend,
        q: Float[Tensor, "B H T K"],
        k: Float[Tensor, "B H T K"],
        v: Float[Tensor, "B H T K"],
    ) -> Float[Tensor, "B H T K"]:
        """β A v - γ C v comes first: 0 up to rounding if A is C and β = γ."""
        mixed = None if self.gain is None else self.gain(attend(q, k, v))
        if self.centre is not None:
            centre = self.centre(attend.uniform(q, k, v))
            mixed = -centre if mixed is None else mixed - centre
        if mixed is None:
            mixed = 0 * v  # not zeros: v needs a gradient, of 0
        y: Tensor = mixed if self.skip is None else mixed + self.skip(v)
        return y
