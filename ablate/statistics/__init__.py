"""Statistics of a few noisy runs: numbers in, numbers out; nothing here knows what a block or a trial is.

    paired.py          a difference over seeds: interval, p, equivalence
    flips.py           the test of sign flips
    by_t.py            a difference judged by t, whatever its error is from
    strata.py          the mean over strata
    mann_whitney.py    two samples by ranks
    welch.py           two samples that are not paired
    known_noise.py     runs too few to tell their own noise, against a floor
    worst_rank.py      the test by ranks, where runs were lost
    adjust.py          p-values adjusted for multiple comparisons
    sequential.py      levels of interim analyses as seeds are added
    alpha_spending.py  levels for judging a question again
    factorial.py       effects of edits tried together, and their analysis of variance
    blocked.py         least squares with seeds as blocks
    sphericity.py      whether all contrasts of a table vary equally over seeds
    planning.py        seeds, power and the smallest visible difference
    floor.py           the noise floor: how much differences vary, of edits or of the initialisation alone
    size_noise.py      noise that depends on size, and the error of sums over sizes
    scaling_law.py     a law of loss against training compute
    ladder.py          two treatments over a ladder of sizes: speed-ups and their trend
    next_size.py       the next size of a ladder: losses predicted, cost, and the chance of a verdict
    spread.py          standard deviations and their limits
    magnitude.py       the power of two by which numbers are divided before they are squared
    family.py          how often each verdict of a family is found, simulated
    proportions.py     Wilson's interval
    separation.py      how well a score tells what failed from what did not: the AUC and its interval
    bisection.py       the zero of an increasing function

Of SciPy only `special` is loaded (the distributions): the rest takes longer to import than anything here to compute.
"""

from ablate.statistics.adjust import benjamini_hochberg, holm
from ablate.statistics.by_t import ByT
from ablate.statistics.factorial import Analysis, AnovaLine, Estimate, analyse
from ablate.statistics.floor import Floor, floor_of, floor_of_edits
from ablate.statistics.known_noise import AgainstFloor, KnownNoise, against_floor
from ablate.statistics.ladder import SpeedUp, Trend, speed_ups, trend
from ablate.statistics.mann_whitney import MannWhitney, least_p, mann_whitney
from ablate.statistics.next_size import NextSize, next_size
from ablate.statistics.paired import Paired, of_differences, paired
from ablate.statistics.planning import (
    MOST_SEEDS,
    POWER,
    power_of,
    seeds_for_margin,
    seeds_for_power,
    seeds_for_signs,
    seeds_per_arm,
    visible_difference,
)
from ablate.statistics.proportions import wilson
from ablate.statistics.scaling_law import Law, SizeLadder, fit_law
from ablate.statistics.separation import Separation, separation
from ablate.statistics.sequential import Boundaries, boundaries
from ablate.statistics.sphericity import Sphericity, sphericity
from ablate.statistics.spread import SD_LEVEL, sd_interval, sd_upper, spread
from ablate.statistics.strata import Stratified, stratified
from ablate.statistics.welch import Welch, welch
from ablate.statistics.worst_rank import Ranked, fewest_seeds, seeds_for_agreement, seeds_for_ranks, worst_rank

__all__ = [
    "MOST_SEEDS",
    "POWER",
    "SD_LEVEL",
    "AgainstFloor",
    "Analysis",
    "AnovaLine",
    "Boundaries",
    "ByT",
    "Estimate",
    "Floor",
    "KnownNoise",
    "Law",
    "MannWhitney",
    "NextSize",
    "Paired",
    "Ranked",
    "Separation",
    "SizeLadder",
    "SpeedUp",
    "Sphericity",
    "Stratified",
    "Trend",
    "Welch",
    "against_floor",
    "analyse",
    "benjamini_hochberg",
    "boundaries",
    "fewest_seeds",
    "fit_law",
    "floor_of",
    "floor_of_edits",
    "holm",
    "least_p",
    "mann_whitney",
    "next_size",
    "of_differences",
    "paired",
    "power_of",
    "sd_interval",
    "sd_upper",
    "seeds_for_agreement",
    "seeds_for_margin",
    "seeds_for_power",
    "seeds_for_ranks",
    "seeds_for_signs",
    "seeds_per_arm",
    "separation",
    "speed_ups",
    "sphericity",
    "spread",
    "stratified",
    "trend",
    "visible_difference",
    "welch",
    "wilson",
    "worst_rank",
]
