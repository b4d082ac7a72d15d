"""E-SPA: attention that starts as the matrix which takes exponentially decaying token similarities one layer further.

    y = D softmax(s + B) v,    A = D softmax(B) = L(γ_l) L(γ_{l-1})⁻¹,    L(γ) L(γ)ᵀ = Σ(γ),  Σ(γ)_ij = exp(-γ |i - j|)

    A_11 = 1,   A_ii = ρ,   A_i1 = (e^-γ' - ρ e^-γ) e^(-γ'(i-2)),   A_ij = ρ (e^-γ' - e^-γ) e^(-γ'(i-j-1)),  j < i
    with γ = γ_{l-1},  γ' = γ_l,  ρ = a(γ')/a(γ),  a(γ) = √(1 - e^(-2γ))

    γ_0 = ∞,  a(γ_l) = a(γ_L)^(l/L):  tokens start apart, and no depth brings them closer than γ_L does.

    He et al. 2023, arXiv:2302.10322: Theorem 3, Eq. 10 (D and B), App. C (γ_l), App. B (repetition), App. F, Eq. 26
    (skip), App. A (without a causal mask: L is the symmetric root).

A is exact where the scores s are 0: give `query` the init `zero`, and no other bias. The schedule counts one attention
a layer. D and B are not trained.

Dimension key: T time.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from ablate.components.declare import Cost, Sizes, arithmetic, component, implements, number
from ablate.errors import InputError
from ablate.signal.skipless import Step, exponential_step


@component("e_spa", slots=("matrix",), source="He et al. 2023, arXiv:2302.10322", shorthand="decay")
class Config:
    """`decay` is γ_L; `skip` the α of a residual around it whose gain is √(1 - α²), 0 for none.

    `repetition` is r, the chance that two tokens of a sequence are the same: norms are held at 1 on average over such
    sequences; 0 for no correction, `repetition` for what was measured on the text.
    """

    decay: float = number(at_least=1e-6)
    skip: float = arithmetic(at_least=0.0, below=1.0)
    repetition: float = arithmetic(at_least=0.0, below=1.0)

    def step(self, sizes: Sizes) -> Step:
        """Decay rates around this layer's attention; InputError outside the layers, or beside too large a skip."""
        if sizes.layer is None:
            raise InputError("e_spa stands in no layer, and follows a schedule over them\n  = use it inside the block")
        return exponential_step(sizes.layer, sizes.n_layers, self.decay, self.skip)

    def matrix_of(self, sizes: Sizes) -> Callable[[int], Any]:
        """From a number of tokens to this layer's A, a float64 array."""
        from ablate.signal.skipless_exponential import exponential_matrix

        step = self.step(sizes)
        return partial(
            exponential_matrix,
            incoming=step.incoming,
            outgoing=step.outgoing,
            repetition=self.repetition,
            causal=sizes.causal,
        )

    def cost(self, sizes: Sizes, width: int) -> Cost:
        """Nothing to train, no products; InputError where there is no such matrix."""
        self.step(sizes)
        return Cost()

    def equation(self, a: str) -> str:
        """E-SPA(A), which `details` defines."""
        return f"ESPA({a})"

    def details(self) -> tuple[str, ...]:
        """D A, where A's scores have the bias B, and what the two are."""
        beside = f",  beside a skip of {self.skip}" if self.skip else ""
        repeated = f",  norms held for tokens that repeat with chance {self.repetition}" if self.repetition else ""
        return (
            "ESPA(A) = D A,  B added to the scores of A",
            f"D softmax(B) = L(γ_l) L(γ_{{l-1}})⁻¹{beside}{repeated}",
            "L(γ) L(γ)ᵀ = Σ(γ),  Σ(γ)_ij = exp(-γ |i - j|)",
            f"a(γ_l) = a(γ_L)^(l/L),  a(γ)² = 1 - exp(-2γ),  γ_L = {self.decay:g}",
        )


from ablate.kernels.prescribed import PrescribedAttention


@implements(Config)
class ESPA(PrescribedAttention):
    """Attention with the bias B and the row factors D of its layer."""

    def __init__(self, config: Config, sizes: Sizes, width: int):
        super().__init__(config.matrix_of(sizes), causal=sizes.causal)
