"""The number of seeds that would decide an undecided comparison."""

from __future__ import annotations

from ablate import statistics
from ablate.statistics import Ranked
from ablate.verdict.hypothesis_test import Ruling, Tested
from ablate.verdict.summary import Metric

OTHERWISE = ("floor", "strata", "mann_whitney")
"""Methods for which no number of seeds is planned: the noise is told by other runs, or within strata, or not at all."""


def seeds_needed(test: Tested, metric: Metric, ruling: Ruling) -> int | None:
    """Return the total number of seeds that would decide, at the level of one test of the family in the next judgement;
    always more than there are.

    None where nothing can be planned from the results (as where one seed's lack of fit is the error, or a run of a
    factorial has no result), and where no affordable number is enough.
    """
    if ruling.next_level <= 0 or test.method in OTHERWISE:
        return None
    level = ruling.next_level / ruling.tests
    if test.ranks is not None:
        return _by_ranks(test.ranks, level)
    if test.estimate is None or test.sd is None:
        return None
    seeds = _by_signs(test, metric, level) if test.sd == 0 else _by_spread(test, metric, level)
    return None if seeds is None else max(seeds, test.n + 1)


def _by_ranks(ranks: Ranked, level: float) -> int | None:
    """Return the seeds needed for the observed tendency, never fewer than would decide if all further ones agreed.

    The tendency is ignored where all seeds go one way, for which Noether's number is too large, and where there are too
    few seeds to decide at all and its number is not affordable: from so few seeds it is hardly known.
    """
    least, telling = statistics.fewest_seeds(level, open=ranks.open), ranks.n - ranks.ties
    if least is None:
        return None
    planned: int | None = 0
    if 0 < ranks.tendency < 1:
        planned = statistics.seeds_for_ranks(ranks.tendency, alpha=level)
    if planned is None and telling >= least:
        return None
    return statistics.seeds_for_agreement(ranks, alpha=level, least=max(planned or 0, ranks.ties + least))


def _by_signs(test: Tested, metric: Metric, level: float) -> int | None:
    """Return the seeds that a one-sided or two-sided sign test needs, where differences do not vary."""
    if metric.margin is not None and abs(test.estimate or 0.0) < metric.margin:
        return statistics.seeds_for_signs(2 * level)
    return statistics.seeds_for_signs(level) if test.estimate else None


def _by_spread(test: Tested, metric: Metric, level: float) -> int | None:
    """Return the fewer of the seeds for a narrow interval and, beyond the margin, those for finding the difference."""
    if not test.df or test.estimate is None or test.sd is None or test.n < 2:
        return None
    sd = statistics.sd_upper(test.sd, test.n)
    for_power = statistics.seeds_for_power(test.estimate, sd, alpha=level)
    if metric.margin is None:
        return for_power
    narrow = statistics.seeds_for_margin(sd, metric.margin, confidence=1 - level)
    ways = [n for n in (narrow, for_power if abs(test.estimate) > metric.margin else None) if n is not None]
    return min(ways, default=None)
