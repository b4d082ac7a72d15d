"""DeepScaleLM: values and projection at the scale that gives attention an output of variance 1 in this layer.

W_ij ~ N(0, sqrt((1 - p) / r_n) / d_in)        r_n: the correlation between tokens that enters layer n

r = r_0 (1 - p),  s = 1;  for each layer:  r_n = r,  then with every residual λx + β·branch
r ← (λ² r s + β² (1 - p)) / (λ² s + β²),  s ← λ² s + β²        after attention
r ← (λ² r s + β² g(r)) / (λ² s + β²),     s ← λ² s + β²        after an MLP with ReLU
g(r) = (1 - p) (r + (sqrt(1 - r²) - r acos r) / π)

Attention, a mean over tokens, has r_n times the variance of its values, and dropout divides by 1 - p.

Kedia et al. 2024, arXiv:2403.09635, Sec. 3.5 and App. M; the paper's other weights are `normal`.
"""

from ablate.components.declare import Cost, Signal, Sizes, arithmetic, component, implements, number
from ablate.errors import InputError


@component("deep_scale", slots=("init",), source="Kedia et al. 2024, arXiv:2403.09635", version=1)
class Config:
    """`correlation` is r_0 of the embeddings, `dropout` p, `skip` λ and `gain` β of the residuals around.

    r_0 is `repetition` as measured on the corpus, pi**2/(6*log(vocabulary)**2) by Zipf's law, or a number. Tables
    without repetition (positions) lower it by their share: repetition/2 with two tables of equal variance.
    """

    correlation: float = arithmetic(above=0.0, at_most=1.0)
    dropout: float = number(at_least=0.0, below=1.0)
    skip: float = arithmetic()
    gain: float = arithmetic()

    def __post_init__(self) -> None:
        if self.skip == self.gain == 0:
            raise InputError("deep_scale has skip 0 and gain 0\n  = give the skip and gain of the residuals around it")

    def cost(self, sizes: Sizes) -> Cost:
        layer_of(sizes)
        return Cost()

    def propagate(self, x: Signal, sizes: Sizes, d_in: int, d_out: int) -> Signal:
        """√((1 - p) / r_n) Σ, for the r_n of this layer."""
        from ablate.signal.moments import deep_scale_std, layer_correlations

        layer = layer_of(sizes)
        entering = layer_correlations(layer, self.correlation, self.dropout, self.skip, self.gain)[-1]
        variance = deep_scale_std(entering, self.dropout, d_in) ** 2
        return x.through_weights(d_in * variance, d_out * variance)


def layer_of(sizes: Sizes) -> int:
    """Raise InputError outside the layers."""
    if sizes.layer is None:
        raise InputError(
            "deep_scale fills the values and projection of a layer, but this weight is outside the layers\n"
            "  = make it the init of those two weights in the block, and give the model another init"
        )
    return sizes.layer


import torch
from torch import Tensor

from ablate.signal.moments import deep_scale_std, layer_correlations


@implements(Config)
class DeepScale:
    def __init__(self, config: Config, sizes: Sizes):
        layer = layer_of(sizes)
        self.dropout = config.dropout
        self.correlation = layer_correlations(layer, config.correlation, config.dropout, config.skip, config.gain)[-1]

    def fill(self, tensor: Tensor, d_in: int, d_out: int, generator: torch.Generator) -> None:
        tensor.normal_(0.0, deep_scale_std(self.correlation, self.dropout, d_in), generator=generator)
