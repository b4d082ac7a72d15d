"""Separation: how well a score tells the models that failed from those that did not.

    AUC = P(score of one that failed > score of one that did not) + ½ P(equal)

½ for a score that knows nothing, 1 for one that orders them all rightly. With X of m failed, Y of n others, and
ψ(x, y) = 1, ½ or 0 where x is larger, equal or smaller:

    AUC = mean ψ(X_i, Y_j),   Var = S²(mean_j ψ(X_i, Y_j)) / m + S²(mean_i ψ(X_i, Y_j)) / n,   S² with one less

The interval is normal on the scale of log(AUC / (1 - AUC)), so that it stays within 0 and 1.

    DeLong, DeLong & Clarke-Pearson 1988, Biometrics 44(3):837 (variance); Pepe 2003, The Statistical Evaluation of
    Medical Tests, Sec. 5.2.4 (interval).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, nan, sqrt
from statistics import NormalDist

import numpy as np

from ablate.errors import InputError
from ablate.statistics.paired import Floats


@dataclass(frozen=True, slots=True)
class Separation:
    """The `auc` with its interval from `low` to `high`, of n models that `failed` and n `others`.

    The interval is NaN where every pair is ordered alike: DeLong's variance is 0 there, and says nothing.
    """

    auc: float
    low: float
    high: float
    failed: int
    others: int


def separation(scores: Sequence[float], failed: Sequence[bool], confidence: float = 0.95) -> Separation:
    """Compute the AUC of scores, of which infinite ones are the largest; InputError for fewer than two of a kind.

    >>> separation([3.0, 2.0, 1.0, 0.0], [True, False, True, False]).auc
    0.75
    """
    values, bad = np.asarray(scores, dtype=float), np.asarray(failed, dtype=bool)
    if np.isnan(values).any():
        raise InputError("a score is not a number\n  = leave out what has no score, and say how many those are")
    ranks = _psi(values[bad], values[~bad])
    m, n = ranks.shape
    if min(m, n) < 2:
        raise InputError(f"{m} failed and {n} did not: an AUC needs two of each\n  = train more models")
    auc = float(ranks.mean())
    error = sqrt(ranks.mean(1).var(ddof=1) / m + ranks.mean(0).var(ddof=1) / n)
    if not error:
        return Separation(auc, nan, nan, m, n)
    middle = log(auc / (1 - auc))
    half = NormalDist().inv_cdf((1 + confidence) / 2) * error / (auc * (1 - auc))
    return Separation(auc, _logistic(middle - half), _logistic(middle + half), m, n)


def _psi(larger: Floats, smaller: Floats) -> Floats:
    """ψ of each pair, [m, n]."""
    return np.asarray((larger[:, None] > smaller) + 0.5 * (larger[:, None] == smaller))


def _logistic(x: float) -> float:
    return 1 / (1 + exp(-x)) if x > 0 else exp(x) / (1 + exp(x))
