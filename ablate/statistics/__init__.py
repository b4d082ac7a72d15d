"""Statistics of a few noisy runs: numbers in, numbers out; nothing here knows what a block or a trial is.

    paired.py          a difference over seeds: interval, p by t or by sign flips, equivalence
    t_tests.py         a difference judged by t: of two samples, against a floor of known noise, over strata
    ranks.py           tests by ranks: two samples, and pairs where runs were lost
    multiple_testing.py  p-values adjusted for several comparisons, levels of interim analyses, α left for judging
                         again
    factorial.py       effects of edits tried together, and their analysis of variance
    contrasts.py       least squares with seeds as blocks, and whether all contrasts of a table vary equally over
                       seeds
    planning.py        seeds, power and the smallest visible difference, of a noise floor and of simulated families
    scaling_law.py     a law of loss against training compute
    ladder.py          two treatments over a ladder of sizes: speed-ups and their trend
    next_size.py       the next size of a ladder: losses predicted, cost, and the chance of a verdict
    spread.py          standard deviations and their limits, noise over sizes and the error of sums over these,
                       Wilson's interval, and powers of two that keep squares finite

Of SciPy only `special` is loaded (the distributions): the rest takes longer to import than anything here to compute.
"""

from ablate.statistics.contrasts import Sphericity, sphericity
from ablate.statistics.factorial import Analysis, AnovaLine, Estimate, analyse
from ablate.statistics.ladder import SpeedUp, Trend, speed_ups, trend
from ablate.statistics.multiple_testing import Boundaries, benjamini_hochberg, boundaries, holm
from ablate.statistics.next_size import NextSize, next_size
from ablate.statistics.paired import Paired, of_differences, paired
from ablate.statistics.planning import (
    MOST_SEEDS,
    POWER,
    Floor,
    floor_of,
    floor_of_edits,
    power_of,
    seeds_for_margin,
    seeds_for_power,
    seeds_for_signs,
    visible_difference,
)
from ablate.statistics.ranks import (
    MannWhitney,
    Ranked,
    fewest_seeds,
    least_p,
    mann_whitney,
    seeds_for_agreement,
    seeds_for_ranks,
    worst_rank,
)
from ablate.statistics.scaling_law import Law, SizeLadder, fit_law
from ablate.statistics.spread import SD_LEVEL, sd_interval, sd_upper, spread, wilson
from ablate.statistics.t_tests import AgainstFloor, ByT, KnownNoise, Stratified, Welch, against_floor, stratified, welch

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
