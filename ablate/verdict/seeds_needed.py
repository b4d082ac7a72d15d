"""How many seeds would decide what is undecided."""

from __future__ import annotations

from ablate import statistics
from ablate.statistics import Ranked
from ablate.verdict.hypothesis_test import Ruling, Tested
from ablate.verdict.summary import Metric


def seeds_needed(test: Tested, metric: Metric, ruling: Ruling) -> int | None:
    """How many seeds in all would decide, at the level that one test of a family would then be held against; more than
    there are.

    None where nothing can be planned from what there is (as where runs of one seed stand for an error, or one of a
    factorial has no result), and where no affordable number would do.
    """
    if ruling.next_level <= 0:
        return None
    level = ruling.next_level / ruling.tests
    if test.ranks is not None:
        return _by_ranks(test.ranks, level)
    if test.estimate is None or test.sd is None:
        return None
    found = _by_signs(test, metric, level) if test.sd == 0 else _by_spread(test, metric, level)
    return None if found is None else max(found, test.n + 1)


def _by_ranks(ranks: Ranked, level: float) -> int | None:
    """Those that the tendency seen takes, and never fewer than could decide if all further ones agreed.

    The tendency is left out where all seeds lean one way, of which Noether's number asks too much, and where there are
    fewer seeds than can decide at all and it takes more than can be afforded: of so few it is hardly known.
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
    """Where differences do not vary: a sign test for one side, or for two."""
    if metric.margin is not None and abs(test.estimate or 0.0) < metric.margin:
        return statistics.seeds_for_signs(2 * level)
    return statistics.seeds_for_signs(level) if test.estimate else None


def _by_spread(test: Tested, metric: Metric, level: float) -> int | None:
    """A difference beyond the margin is decided by finding it, which can take far fewer than a narrow interval."""
    if not test.df or test.estimate is None or test.sd is None or test.n < 2:
        return None
    sd = statistics.sd_upper(test.sd, test.n)
    found = statistics.seeds_for_power(test.estimate, sd, alpha=level)
    if metric.margin is None:
        return found
    narrow = statistics.seeds_for_margin(sd, metric.margin, confidence=1 - level)
    ways = [n for n in (narrow, found if abs(test.estimate) > metric.margin else None) if n is not None]
    return min(ways, default=None)
