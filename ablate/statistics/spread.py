"""Spread: the standard deviation of a few values with its limits, noise over sizes, the interval of a proportion."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtri, ndtri, psi, zeta

# The magnitude of numbers: the power of two by which they are divided before they are squared.
#
# Squares of numbers above 1e154 overflow, and those below 1e-162 vanish. Division by a power of two is exact: what is
# proportional to the numbers, their squares or ratios has the bits that it has without it wherever that neither
# overflows nor vanishes. So results are the same in any unit of measurement.

Floats = NDArray[np.float64]

LN2 = math.log(2)


def magnitude(*numbers: ArrayLike) -> int:
    """The k for which the largest |x| lies from 2^(k-1) up to below 2^k; 0 where all are 0. NaN is ignored.

    >>> magnitude([3.0, -5.0], 0.1), magnitude(0.0)
    (3, 0)
    """
    largest = max(float(np.fmax.reduce(np.abs(np.ravel(one)), initial=0.0)) for one in numbers)
    return math.frexp(largest)[1]


def divided(numbers: ArrayLike, k: int) -> Floats:
    """x/2^k."""
    return np.asarray(np.ldexp(np.asarray(numbers, dtype=np.float64), -k))


def times(number: float, k: int) -> float:
    """x·2^k, infinite where that is beyond the numbers of float64."""
    try:
        return math.ldexp(number, k)
    except OverflowError:
        return math.copysign(math.inf, number)


def logarithms(numbers: ArrayLike, k: int = 0) -> Floats:
    """log(x/2^k) of numbers above zero: with their magnitude as k, to the same bits for 2x as for x."""
    parts, powers = np.frexp(np.asarray(numbers, dtype=np.float64))
    return np.asarray(np.log(parts) + (powers - k) * LN2)


def log_ratio(before: float, after: float) -> float:
    """log(after/before) of two numbers above zero, without forming a quotient that may overflow.

    >>> round(log_ratio(1e-200, 1e300) / math.log(10), 6)
    500.0
    """
    (x, k), (y, j) = math.frexp(before), math.frexp(after)
    return math.log(y / x) + (j - k) * LN2


ROUNDING = 1e-12  # differences that vary by less than this share of the original values count as constant

SD_LEVEL = 0.8  # one-sided level of the upper limit of the standard deviation from which studies are planned


def spread(values: Floats, *, of: float = 0.0) -> float:
    """The standard deviation of two or more values; 0 if it is rounding error of these or of numbers to `of`."""
    k = magnitude(values)
    sd = times(float(divided(values, k).std(ddof=1)), k)
    return sd if sd > ROUNDING * max(of, float(np.abs(values).max())) else 0.0


def sd_upper(sd: float, n: int, level: float = SD_LEVEL) -> float:
    """The upper confidence limit s·√((n-1)/χ²(n-1, 1-level)) of a standard deviation of n ≥ 2 normal values."""
    return sd * math.sqrt((n - 1) / float(chdtri(n - 1, level)))


def sd_interval(sd: float, n: int, level: float = 0.95) -> tuple[float, float]:
    """The two-sided confidence interval of a standard deviation, from n ≥ 2 normal values, by χ².

    s·√((n-1)/χ²(n-1, (1+level)/2))  to  s·√((n-1)/χ²(n-1, (1-level)/2))
    """
    return sd_upper(sd, n, (1 - level) / 2), sd_upper(sd, n, (1 + level) / 2)


# Noise over sizes: how losses of a few seeds vary at each size, and the error of sums of their means.
#
# Every size has a variance of its own, s² with n-1 degrees of freedom. Two things are made of these:
#
#     weights   from a straight line of log σ² over log compute, which a few seeds allow: its slope is shrunk towards 0
#               by its own error, slope·max(0, 1 - error²/slope²), and log s² is freed of its bias, ψ(df/2) - log(df/2)
#     errors    of a sum Σ c·mean, from the variances themselves: Σ c²·s²/n, whatever the weights in c. Degrees of
#               freedom are (Σ v)²/Σ v²/df over its terms v                                       Satterthwaite 1946
#
# Weights of 1/s² would follow the luck of each size: with three seeds, the size whose losses happen to be close would
# get all weight, and the error would be taken from the same closeness. The line follows that luck too, but less. The
# rest of it is calibrated: sum/error is compared with its own simulated distribution (parametric bootstrap of a t), for
# which means and variances are drawn about the line, and weights made anew. Where the line is not true, Student's t at
# Satterthwaite's degrees of freedom is the better judge, so the larger of both critical values counts. By Student alone
# a slope of 0 is called in up to 8.5 % of ladders of three seeds.

DRAWS = 9_999  # the number of simulated ladders


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseLine:
    """The line of log σ² over log compute: its `level` at the weighted `centre` of the sizes, and its `slope`."""

    centre: float
    level: Floats
    slope: Floats

    def variance(self, x: Floats) -> Floats:
        """σ² at log compute x, [..., places]."""
        return np.exp(self.level[..., None] + self.slope[..., None] * (x - self.centre))


def noise_line(variances: Floats, df: Floats, x: Floats) -> NoiseLine:
    """Fit the line to variances [..., sizes], of which each has `df` degrees of freedom, at log compute x."""
    logs = np.log(variances) - (psi(df / 2) - np.log(df / 2))
    weights = 1 / zeta(2, df / 2)  # 1 over the variance of log s², which is the trigamma function
    centre = float((weights * x).sum() / weights.sum())
    apart = weights * (x - centre)
    across = float((apart * (x - centre)).sum())
    slope = np.asarray((logs * apart).sum(axis=-1) / across)
    kept = np.maximum(0.0, 1 - 1 / np.maximum(across * slope**2, 1e-300))
    return NoiseLine(centre=centre, level=np.asarray((logs * weights).sum(axis=-1) / weights.sum()), slope=slope * kept)


def satterthwaite(terms: Floats, df: Floats) -> tuple[Floats, Floats]:
    """The standard error and the degrees of freedom of sums whose terms [..., terms] have these variances."""
    total = terms.sum(axis=-1)
    return np.sqrt(total), total**2 / (terms**2 / df).sum(axis=-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeNoise:
    """Simulated noise of two values at each size, in units of their standard deviations and free of correlation.

    `means` [..., draws, 2, sizes] are those over n seeds; `variances` [..., draws, 3, sizes] are the entries of their
    covariance matrix: of the first, of the second, and between them.
    """

    means: Floats
    variances: Floats

    def correlated(self, sd: Floats, other_sd: Floats, correlation: Floats) -> tuple[Floats, ...]:
        """Means, other means, variances, other variances and covariances, at these sds [..., sizes]."""
        sd, other_sd, r = sd[..., None, :], other_sd[..., None, :], correlation[..., None, None]
        rest = np.sqrt(1 - r**2)
        first, second = self.means[..., 0, :], self.means[..., 1, :]
        v, w, c = (self.variances[..., i, :] for i in range(3))
        return (
            sd * first,
            other_sd * (r * first + rest * second),
            sd**2 * v,
            other_sd**2 * (r**2 * v + rest**2 * w + 2 * r * rest * c),
            sd * other_sd * (r * v + rest * c),
        )


def simulated(
    n: Floats, other_n: Floats, *, paired: bool, random: np.random.Generator, shape: tuple[int, ...]
) -> SizeNoise:
    """Draw the noise of ladders with n seeds at each size; two values of one seed where they are `paired`.

    A covariance matrix of normal values is T·Tᵀ/df, with T lower triangular: √χ²(df) and √χ²(df-1) on its diagonal, a
    standard normal number below (Bartlett 1933).
    """
    size = (*shape, n.size)
    df, other_df = n - 1, other_n - 1
    means = np.stack([random.standard_normal(size) / np.sqrt(n), random.standard_normal(size) / np.sqrt(other_n)], -2)
    squares = random.chisquare(df, size)
    if not paired:
        other = random.chisquare(other_df, size)
        return SizeNoise(means=means, variances=np.stack([squares / df, other / other_df, np.zeros(size)], -2))
    below = random.standard_normal(size)
    rest = np.where(df > 1, random.chisquare(np.maximum(df - 1, 1), size), 0.0)
    return SizeNoise(means=means, variances=np.stack([squares, below**2 + rest, np.sqrt(squares) * below], -2) / df)


def critical(t: Floats, level: float) -> Floats:
    """The value that a share `level` of simulated |t| [..., draws, statistics] stay below."""
    ordered = np.sort(np.abs(t), axis=-2)
    at = min(int(np.ceil(level * (t.shape[-2] + 1))) - 1, t.shape[-2] - 1)
    return np.asarray(ordered[..., at, :])


def wilson(successes: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval of a proportion (1927); it is valid at 0 of n and n of n, and (0, 1) at n = 0.

    ValueError for more successes than n, or fewer than none.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n}")
    if n == 0:
        return 0.0, 1.0
    z = float(ndtri(0.5 + confidence / 2))
    share, shrink = successes / n, 1 + z * z / n
    centre = (share + z * z / (2 * n)) / shrink
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / shrink
    return (0.0 if successes == 0 else centre - half), (1.0 if successes == n else centre + half)
