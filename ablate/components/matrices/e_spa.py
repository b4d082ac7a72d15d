"""E-SPA: attention that starts as the map from exponentially decaying token similarities to those of the next layer.

    y = D softmax(s + B) v,    A = D softmax(B) = L(γ_l) L(γ_{l-1})⁻¹,    L(γ) L(γ)ᵀ = Σ(γ),  Σ(γ)_ij = exp(-γ |i - j|)

    A_11 = 1,   A_ii = ρ,   A_i1 = (e^-γ' - ρ e^-γ) e^(-γ'(i-2)),   A_ij = ρ (e^-γ' - e^-γ) e^(-γ'(i-j-1)),  j < i
    with γ = γ_{l-1},  γ' = γ_l,  ρ = a(γ')/a(γ),  a(γ) = √(1 - e^(-2γ))

    γ_0 = ∞,  a(γ_l) = a(γ_L)^(l/L):  tokens start uncorrelated, and end with the similarities of γ_L.
    after an MLP that maps a correlation c to C(c), from layer 2 on:  A = L(γ_l) L̂⁻¹,  L̂ L̂ᵀ = C(Σ(γ_{l-1}))

    He et al. 2023, arXiv:2302.10322: Theorem 3, Eq. 10 (D and B), App. C (γ_l), App. B (repetition), App. F, Eq. 26
    (skip), Sec. 3.4 (MLP), App. A (without a causal mask: L is the symmetric root).

A is exact if the scores s are 0: give `query` or `key` the init `zero`, and use no other bias unless it starts at 0.
The schedule assumes one attention per layer. D and B are not trained.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from ablate.block.sizes import PartMaker
from ablate.components.declare import Cost, Mixing, Sizes, arithmetic, component, implements, number, part
from ablate.errors import InputError
from ablate.signal.skipless import LayerStep, exponential_step


@component("e_spa", slots=("matrix",), source="He et al. 2023, arXiv:2302.10322", shorthand="decay", version=1)
class Config:
    """`decay` is γ_L; `skip` the α of a residual around it whose gain is √(1 - α²), 0 for none.

    `repetition` is r, the probability that two tokens of a sequence are the same (`repetition`: as measured on the
    text): norms are kept at 1 on average over such sequences; 0 for no correction. `mlp` is the activation of the MLP
    after each attention, whose kernel A then inverts; none: ignored, as in the paper. Its inputs must have mean square
    1, and it must have no skip.
    """

    of_own_mask: ClassVar[bool] = True

    decay: float = number(at_least=1e-6)
    skip: float = arithmetic(at_least=0.0, below=1.0)
    repetition: float = arithmetic(at_least=0.0, below=1.0)
    mlp: PartMaker | None = part("activation", optional=True)

    def step(self, sizes: Sizes) -> LayerStep:
        """The decay rates around this layer; InputError outside the layers, or if the skip is too large."""
        if sizes.layer is None:
            raise InputError(
                "e_spa follows a schedule over layers, but is used outside the layers\n  = use it inside a block"
            )
        return exponential_step(sizes.layer, sizes.n_layers, self.decay, self.skip)

    def matrix_of(self, sizes: Sizes) -> Callable[[int], Any]:
        """From a number of tokens to this layer's A, a float64 array."""
        from ablate.signal.skipless_matrices import exponential_matrix

        step = self.step(sizes)
        if self.mlp is not None:
            return self._behind_mlp(step, self.mlp.config, sizes)
        return partial(
            exponential_matrix,
            incoming=step.incoming,
            outgoing=step.outgoing,
            repetition=self.repetition,
            causal=sizes.causal,
        )

    def _behind_mlp(self, step: LayerStep, activation: Any, sizes: Sizes) -> Callable[[int], Any]:
        from ablate.signal.kernel_maps import correlations_through, curved
        from ablate.signal.skipless_matrices import exponential_through

        if self.skip or self.repetition:
            raise InputError(
                "e_spa can be corrected for an MLP, or for a skip and repeated tokens, but not for both\n"
                "  = set skip: 0 and repetition: 0, or mlp: none"
            )
        return partial(
            exponential_through,
            incoming=step.incoming,
            outgoing=step.outgoing,
            through=correlations_through(curved(activation, activation.spec.name)),
            causal=sizes.causal,
        )

    def cost(self, sizes: Sizes, width: int) -> Cost:
        """Raise InputError if there is no such matrix."""
        self.step(sizes)
        if self.mlp is not None:  # computed because it fails if an entry is negative
            self.matrix_of(sizes)(sizes.seq_len)
        return Cost()

    def propagate(self, sizes: Sizes) -> Mixing:
        from ablate.signal.skipless_matrices import row_scale_and_bias

        rows, bias = row_scale_and_bias(self.matrix_of(sizes)(sizes.seq_len), causal=sizes.causal)
        return Mixing(rows=rows, bias=bias)

    def equation(self, a: str) -> str:
        return f"ESPA({a})"

    def details(self) -> tuple[str, ...]:
        beside = f",  beside a skip of {self.skip}" if self.skip else ""
        repeated = f",  norms held for tokens that repeat with chance {self.repetition}" if self.repetition else ""
        before, undone = "L(γ_{l-1})", tuple[str, ...]()
        if self.mlp is not None:
            name = self.mlp.config.spec.name
            before, undone = "L̂_{l-1}", (f"L̂_l L̂_lᵀ = C(Σ(γ_l)),  C the map of {name},  L̂_0 = I",)
        return (
            "ESPA(A) = D A,  B added to the scores of A",
            f"D softmax(B) = L(γ_l) {before}⁻¹{beside}{repeated}",
            "L(γ) L(γ)ᵀ = Σ(γ),  Σ(γ)_ij = exp(-γ |i - j|)",
            *undone,
            f"a(γ_l) = a(γ_L)^(l/L),  a(γ)² = 1 - exp(-2γ),  γ_L = {self.decay:g}",
        )


from ablate.kernels.prescribed import PrescribedAttention


@implements(Config)
class ESPA(PrescribedAttention):
    def __init__(self, config: Config, sizes: Sizes, width: int):
        super().__init__(config.matrix_of(sizes), causal=sizes.causal)
