"""U-SPA: attention that starts as the map from uniform token similarities to those of the next layer.

    y = D softmax(s + B) v,    A = D softmax(B) = L(ρ_l) L(ρ_{l-1})⁻¹,    L(ρ) L(ρ)ᵀ = Σ(ρ) = (1 - ρ) I + ρ 11ᵀ

    ρ_l = ρ_0 + (ρ_L - ρ_0) (l/L)^p;  beside a skip α:  A = L((ρ_l - α² ρ_{l-1}) / (1 - α²)) L(ρ_{l-1})⁻¹
    after an MLP that maps a correlation c to C(c), from layer 2 on:  A = L(ρ_l) L(C(ρ_{l-1}))⁻¹

    He et al. 2023, arXiv:2302.10322: Sec. 3.2 and App. I (L), Eq. 10 (D and B), App. C (ρ_l), Sec. 3.4 (skip, MLP),
    App. B (ρ_0), App. A (without a causal mask: L is the symmetric root).

A is exact if the scores s are 0: give `query` or `key` the init `zero`, and use no other bias unless it starts at 0.
The schedule assumes one attention per layer. D and B are not trained.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from ablate.block.sizes import PartMaker
from ablate.components.declare import Cost, Mixing, Sizes, arithmetic, component, implements, number, part
from ablate.errors import InputError
from ablate.signal.skipless import LayerStep, uniform_step


@component("u_spa", slots=("matrix",), source="He et al. 2023, arXiv:2302.10322", shorthand="correlation", version=1)
class Config:
    """`correlation` is ρ_L; `skip` the α of a residual around it whose gain is √(1 - α²), 0 for none.

    `initial` is ρ_0: 0 for tokens that are all different, r if two are the same with probability r (`repetition`: as
    measured on the text). `power` is p. `mlp` is the activation of the MLP after each attention, whose kernel A then
    inverts; none: ignored, as in the paper. Its inputs must have mean square 1, and it must have no skip.
    """

    of_own_mask: ClassVar[bool] = True

    correlation: float = number(at_least=0.0, below=1.0)
    skip: float = arithmetic(at_least=0.0, below=1.0)
    initial: float = arithmetic(at_least=0.0, below=1.0)
    power: float = number(above=0.0)
    mlp: PartMaker | None = part("activation", optional=True)

    def step(self, sizes: Sizes) -> LayerStep:
        """The correlations around this layer; InputError outside the layers, or if there is no such A."""
        if sizes.layer is None:
            raise InputError(
                "u_spa follows a schedule over layers, but is used outside the layers\n  = use it inside a block"
            )
        step = uniform_step(sizes.layer, sizes.n_layers, self.correlation, self.initial, self.skip, self.power)
        if self.mlp is None:
            return step
        from ablate.signal.kernel_maps import correlations_through, curved
        from ablate.signal.skipless_matrices import uniform_through

        if self.skip:
            raise InputError(
                "u_spa can be corrected for a skip or for an MLP, not for both\n  = set skip: 0 or mlp: none"
            )
        activation = curved(self.mlp.config, self.mlp.config.spec.name)
        return uniform_through(step, sizes.layer, correlations_through(activation))

    def matrix_of(self, sizes: Sizes) -> Callable[[int], Any]:
        """From a number of tokens to this layer's A, a float64 array."""
        from ablate.signal.skipless_matrices import uniform_matrix

        step = self.step(sizes)
        return partial(uniform_matrix, incoming=step.incoming, outgoing=step.outgoing, causal=sizes.causal)

    def cost(self, sizes: Sizes, width: int) -> Cost:
        """Raise InputError if there is no such matrix."""
        self.step(sizes)
        return Cost()

    def propagate(self, sizes: Sizes) -> Mixing:
        from ablate.signal.skipless_matrices import row_scale_and_bias

        rows, bias = row_scale_and_bias(self.matrix_of(sizes)(sizes.seq_len), causal=sizes.causal)
        return Mixing(rows=rows, bias=bias)

    def equation(self, a: str) -> str:
        return f"USPA({a})"

    def details(self) -> tuple[str, ...]:
        beside = f",  beside a skip of {self.skip}" if self.skip else ""
        before = "ρ_{l-1}" if self.mlp is None else "C(ρ_{l-1})"
        grown = "l/L" if self.power == 1 else f"(l/L)^{self.power:g}"
        beside += "" if self.mlp is None else f",  C the map of {self.mlp.config.spec.name},  C(ρ₀) = ρ₀"
        return (
            "USPA(A) = D A,  B added to the scores of A",
            f"D softmax(B) = L(ρ_l) L({before})⁻¹{beside}",
            "L(ρ) L(ρ)ᵀ = (1 - ρ) I + ρ 11ᵀ",
            f"ρ_l = ρ₀ + (ρ_L - ρ₀) {grown},  ρ₀ = {self.initial},  ρ_L = {self.correlation:g}",
        )


from ablate.kernels.prescribed import PrescribedAttention


@implements(Config)
class USPA(PrescribedAttention):
    def __init__(self, config: Config, sizes: Sizes, width: int):
        super().__init__(config.matrix_of(sizes), causal=sizes.causal)
