"""Danger score: one number of a forecast that is the larger, the likelier a model is to fail.

    danger = -ln(1 - c) + |ln √(g_0/g_L)| + |ln √(q_L/q_0)| + ½ ln(1 + z) + ½ ln(1 + s)        in e-folds, ≥ 0

    collapse    c  the mean cosine of two tokens behind the last layer; the term is 0 below 0
    gradient    g  the mean square of the gradient in front of the first layer, over that behind the last
    growth      q  the mean square of the stream behind the last layer, over that in front of the first
    logits      z  the mean square of the logits
    scores      s  the variance of the scores of attention, in the layer where it is largest: of what its softmax is
                   taken of, without masks and biases

Each term is the logarithm of how many times one of the numbers is away from where nothing is lost: tokens that are not
alike, gradients and streams of one size at both ends, logits and scores that are small. They count the same, which is
the plainest choice and no law; `spaces/danger.yaml` is the experiment that judges it. All are of the initial state: no
rate, clipping or text enters.

    collapse: Dong et al. 2021, arXiv:2103.03404, and He et al. 2023, arXiv:2302.10322, Fig. 1; gradient and growth:
    Kedia et al. 2024, arXiv:2403.09635, Sec. 3; scores: Zhai et al. 2023, arXiv:2303.06296, Sec. 3.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from math import inf, isfinite, isnan, log, log1p

from ablate.theory.initial_state import InitialModel

LEAST = 1e-6
"""The least 1 - c: how far apart tokens are beyond this is rounding, of float32 at the latest."""
DEFINITION = (
    "danger score: -ln(1 - cosine at the end) + |ln of the gradient's ratio| + |ln of growth| + ½ ln(1 + logits²) "
    "+ ½ ln(1 + largest variance of scores); 1 - cosine counts as at least 1e-6, and scores are what the softmax of "
    "attention is taken of, without masks and biases; larger: likelier to fail; it orders models, and is no probability"
)
"""What the score is, as screens say it."""


@dataclass(frozen=True, slots=True)
class DangerScore:
    """The terms of a score, each in e-folds and ≥ 0, infinite for a forecast that overflows."""

    collapse: float
    gradient: float
    growth: float
    logits: float
    scores: float

    @property
    def total(self) -> float:
        """The sum of the terms."""
        return float(sum(astuple(self)))

    @property
    def largest(self) -> str:
        """The name of the largest term, the first of equal ones."""
        terms = {name: float(getattr(self, name)) for name in TERMS}
        return max(terms, key=terms.__getitem__)


TERMS = tuple(DangerScore.__dataclass_fields__)
"""The names of the terms, in the order of the equation."""


def danger_score(forecast: InitialModel) -> DangerScore:
    """Score a forecast. Logits that are not forecast, and attention that there is not, add nothing.

    One token has no cosine, and no collapse. Whatever is not finite, or a gradient or stream of zeros, is infinite.
    """
    cosine = forecast.streams[-1].correlation
    alone = len(forecast.streams[-1].kernel) == 1
    variances = [attention.score_variance for attention in forecast.attention]
    return DangerScore(
        collapse=0.0 if alone else inf if isnan(cosine) else log(1 / max(LEAST, 1 - max(cosine, 0.0))),
        gradient=_distance(forecast.gradient_ratio),
        growth=_distance(forecast.growth),
        logits=0.0 if isnan(forecast.logits) else log1p(forecast.logits) / 2,
        scores=log1p(max(variances, default=0.0)) / 2,
    )


def _distance(square: float) -> float:
    """Return |ln √q|, infinite for 0 and for what is not finite."""
    return abs(log(square)) / 2 if isfinite(square) and square > 0 else inf
