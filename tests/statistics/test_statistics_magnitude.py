"""Numbers of any size: what is computed of x·2^k has the bits of what is computed of x, times 2^k."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from fractions import Fraction

import numpy as np
import pytest

from ablate import statistics
from ablate.statistics import SizeLadder, fit_law, floor_of, floor_of_edits, next_size, sphericity, spread, welch
from ablate.statistics.spread import divided, log_ratio, logarithms, magnitude, times

pytestmark = [pytest.mark.fast, pytest.mark.filterwarnings("error")]

POWERS = (1000, -600)
RANDOM = np.random.default_rng(0)
X, Y = 2.3 + 0.05 * RANDOM.standard_normal(5), 2.4 + 0.1 * RANDOM.standard_normal(9)
TABLE = 2.3 + 0.05 * RANDOM.standard_normal((8, 4))
LEVELS = np.array([[2 * (i >> j & 1) - 1 for j in range(3)] for i in range(8)])
COMPUTE = (1e15, 1e16, 1e17, 1e18)


def multiplied(values, k):
    """Numbers, or tuples of numbers, times 2^k."""
    if isinstance(values, tuple):
        return tuple(multiplied(one, k) for one in values)
    return None if values is None else math.ldexp(values, k)


@pytest.mark.parametrize("numbers", [[0.0], [1.0], [0.75, -3.0], [4.0, 1e-320], [-1.7e308], [5e-324]])
def test_the_magnitude_is_the_power_of_two_above_the_largest(numbers):
    k, largest = magnitude(numbers), Fraction(max(map(abs, numbers)))
    assert k == 0 if not largest else Fraction(2) ** (k - 1) <= largest < Fraction(2) ** k
    assert magnitude([math.nan], numbers) == k and magnitude(numbers[0], numbers) == k
    assert np.abs(divided(numbers, k)).max() < 1
    assert [times(float(one), k) for one in divided(numbers, k)][numbers.index(max(numbers, key=abs))] in numbers


def test_what_is_beyond_the_numbers_of_float64_is_infinite():
    assert (times(1.0, 1024), times(-3.0, 1023), times(1.0, -1080)) == (math.inf, -math.inf, 0.0)


@pytest.mark.parametrize("x", [1e-300, 0.3, 1.0, 2.0, 2.31, 1e300])
def test_logarithms_are_those_of_the_quotient_and_of_any_two_numbers(x):
    assert float(logarithms(x)) == pytest.approx(math.log(x), rel=4e-16, abs=1e-16)
    assert float(logarithms(x, 7)) == pytest.approx(math.log(x) - 7 * math.log(2), rel=1e-15)
    assert log_ratio(x, 1e300) == pytest.approx(math.log(1e300) - math.log(x), rel=1e-15, abs=1e-15)
    assert log_ratio(x, x * (1 + 2**-40)) == pytest.approx(2**-40, rel=1e-3)


@pytest.mark.parametrize("k", POWERS)
def test_spreads_floors_and_samples_have_the_same_bits(k):
    scale = math.ldexp(1.0, k)
    assert spread(X * scale) == spread(X) * scale == pytest.approx(np.std(X, ddof=1) * scale)
    pairs = [list(zip(X, Y, strict=False)), list(zip(Y, Y[::-1], strict=True))]
    larger = [[(x * scale, y * scale) for x, y in edit] for edit in pairs]
    assert floor_of_edits("loss", larger).sd == pytest.approx(floor_of_edits("loss", pairs).sd * scale, rel=1e-15)
    assert floor_of("loss", X * scale, Y[:5] * scale).sd == floor_of("loss", X, Y[:5]).sd * scale
    assert floor_of("loss", X * scale, Y[:5] * scale, log=True).sd == floor_of("loss", X, Y[:5], log=True).sd
    found, own = welch(X * scale, Y * scale), welch(X, Y)
    assert (found.p, found.df) == (own.p, own.df)
    assert (found.sd, found.error, found.low, found.tost_high) == multiplied(
        (own.sd, own.error, own.low, own.tost_high), k
    )
    assert welch(X * scale, Y * scale, log=True) == welch(X, Y, log=True)


@pytest.mark.parametrize("k", POWERS)
def test_a_factorial_has_the_same_f_and_p_where_its_sums_of_squares_are_beyond_float64(k):
    effects = [(0,), (1,), (2,), (0, 1)]
    own, found = (statistics.analyse(LEVELS, effects, math.ldexp(1.0, power) * TABLE) for power in (0, k))
    for one, other in zip(found.estimates, own.estimates, strict=True):
        assert (one.estimate, one.error, one.low, one.high, one.over_seeds) == multiplied(
            (other.estimate, other.error, other.low, other.high, other.over_seeds), k
        )
        assert one.p == other.p
    assert [replace(line, sum_of_squares=0.0) for line in found.lines] == [
        replace(line, sum_of_squares=0.0) for line in own.lines
    ]
    assert {line.sum_of_squares for line in found.lines} == {math.inf if k > 0 else 0.0}
    assert found.sphericity == own.sphericity is not None


@pytest.mark.parametrize("k", [*POWERS, 300])
def test_sphericity_is_of_proportions(k):
    contrasts = TABLE[:3] - TABLE[3:6]
    assert sphericity(contrasts * math.ldexp(1.0, k)) == sphericity(contrasts)


def ladders(law, scale):
    """A baseline and a treatment, with seeds in common."""
    random, both = np.random.default_rng(8), []
    shared = 0.003 * random.standard_normal((4, 5))
    for less in (1.0, 0.98):
        losses = []
        for c, noise in zip(COMPUTE, shared, strict=True):
            loss = less * ((1.7 if law == "saturating" else 0.0) + 20 * c**-0.06)
            losses.append(tuple((scale * loss * np.exp(noise + 0.001 * random.standard_normal(5))).tolist()))
        both.append(SizeLadder(compute=COMPUTE, losses=tuple(losses)))
    return both


LOSSES = {"factor", "factor_low", "factor_high", "irreducible", "irreducible_low", "irreducible_high", "baseline",
          "baseline_low", "baseline_high", "treatment", "treatment_low", "treatment_high"}  # fmt: skip
"""What of a law and of the next size is a loss."""


@pytest.mark.parametrize("k", [*POWERS, -3])
@pytest.mark.parametrize("law", ["power", "saturating"])
def test_a_ladder_has_the_same_laws_and_speed_ups(law, k):
    own, found = ([of(law, scale) for of in (laws, speed_ups, next_ones)] for scale in (1.0, math.ldexp(1.0, k)))
    for one, other in zip((row for rows in found for row in rows), (row for rows in own for row in rows), strict=True):
        assert one == {name: multiplied(value, k) if name in LOSSES else value for name, value in other.items()}


def laws(law, scale):
    return [asdict(fit_law(one, kind=law)) for one in ladders(law, scale)]


def speed_ups(law, scale):
    found = statistics.trend(*ladders(law, scale), kind=law)
    return [*map(asdict, statistics.speed_ups(*ladders(law, scale), kind=law)), {"p": found.p, "slope": found.slope}]


def next_ones(law, scale):
    return [asdict(next_size(*ladders(law, scale), compute=1e19, n=3, kind=law))]


def test_losses_below_one_have_a_law():
    """Their logarithms are below zero; that loss falls with compute is another question."""
    ladder = ladders("power", 0.1)[0]
    assert max(map(max, ladder.losses)) < 1
    assert fit_law(ladder).exponent == pytest.approx(0.06, rel=0.05)
    rising = replace(ladder, losses=ladder.losses[::-1])
    with pytest.raises(ValueError, match="falls with compute"):
        fit_law(rising)
