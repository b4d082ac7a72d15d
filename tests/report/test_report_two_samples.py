"""Comparisons that are not paired by seed, through the judge: one number of degrees of freedom in all that is told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from report_fixtures import LOSS, finals, losses, path, rules
from test_report_tables import render

from ablate import statistics
from ablate.report.screens.result import result_screen
from ablate.statistics import seeds_for_power, welch
from ablate.verdict.judge import judge

pytestmark = pytest.mark.fast

FEW = (2.215, 2.225, 2.21)
MORE = (2.20, 2.21, 2.19, 2.205, 2.195, 2.21, 2.20, 2.19, 2.20)


def judged(before, after, *, margin=0.5):
    """Two variants that see other batches; of the shorter list the other seeds ended with an error."""
    seeds = max(len(before), len(after))
    plan = path("a", seeds=seeds)
    plan = replace(plan, comparisons=tuple(replace(one, unpaired=("recipe.batch",)) for one in plan.comparisons[:1]))
    ends = {f"v{i}": [*losses(*of), *["bug"] * (seeds - len(of))] for i, of in enumerate((before, after))}
    summary = judge(plan, rules(eval_loss=LOSS.model_copy(update={"margin": margin})), finals(ends))
    return summary, summary.effects[0]


@pytest.mark.parametrize(("before", "after"), [(FEW, MORE), (MORE, FEW)])
def test_verdict_interval_equivalence_and_p_have_the_degrees_of_freedom_of_the_smaller_side(before, after):
    summary, effect = judged(before, after, margin=0.02)
    x, y = np.array(before), np.array(after)
    error = np.sqrt(x.var(ddof=1) / x.size + y.var(ddof=1) / y.size)
    difference, t = y.mean() - x.mean(), scipy.stats.t(2)
    assert (effect.method, effect.df, effect.n, effect.verdict) == ("welch", 2.0, 3, "undecided")
    assert effect.p == pytest.approx(2 * t.sf(abs(difference) / error))
    assert effect.p_equivalent == pytest.approx(t.sf((0.02 - abs(difference)) / error))
    wide = t.isf(0.04 / 2) * error, t.isf(0.04) * error
    assert effect.adjusted_low == pytest.approx(difference - max(wide))
    assert effect.adjusted_high == pytest.approx(difference + max(wide))
    assert effect.adjusted_low < 0 < effect.adjusted_high
    plain = scipy.stats.ttest_ind(y, x, equal_var=False)
    assert plain.pvalue < 0.04 < effect.p, "the twin: by Welch's own degrees of freedom it would be found"
    assert f"not paired by seed: Welch's t over {x.size} and {y.size} runs, with 2 degrees" in effect.note
    said = " ".join(render(result_screen(summary, {}), 100).split())
    assert (
        "2 degrees of freedom, those of the smaller side alone, since fewer than 5 runs say little of its noise" in said
    )


@pytest.mark.parametrize("seeds", [4, 9])
def test_sides_of_one_size_have_those_of_welch_and_no_more_is_said(seeds):
    _, effect = judged(MORE[:seeds], tuple(1.01 * value for value in reversed(MORE[:seeds])))
    assert effect.df == pytest.approx(welch(MORE[:seeds], [1.01 * value for value in MORE[:seeds]]).df)
    assert effect.df > seeds - 1 and "degree" not in effect.note


def found(difference, sd, other, n, level, times=20_000):
    """How often n values of each side show a difference at that level."""
    rng = np.random.default_rng(n)
    x, y = sd * rng.standard_normal((times, n)), difference + other * rng.standard_normal((times, n))
    return float((scipy.stats.ttest_ind(x, y, axis=1, equal_var=False).pvalue < level).mean())


def test_seeds_that_are_asked_for_find_the_difference():
    """The larger side is the noisier; the twin takes the error of these sizes for that of both sides at the smaller."""
    rng = np.random.default_rng(3)
    before = 2.3 + 0.01 * rng.standard_normal(4)
    after = 2.32 + 0.04 * rng.standard_normal(16)
    _, effect = judged(before, after, margin="none")
    assert effect.verdict == "undecided"
    level, sds = 0.2 * 0.04, (before.std(ddof=1), after.std(ddof=1))
    assert effect.sd == pytest.approx(np.hypot(*sds))
    assert effect.seeds_needed == seeds_for_power(effect.estimate, statistics.sd_upper(np.hypot(*sds), 4), alpha=level)
    of_one = seeds_for_power(effect.estimate, float(np.hypot(*sds)), alpha=level)
    twin = seeds_for_power(effect.estimate, float(np.sqrt(sds[0] ** 2 + sds[1] ** 2 * 4 / 16)), alpha=level)
    assert found(effect.estimate, *sds, of_one, level) >= 0.8
    assert found(effect.estimate, *sds, twin, level) < 0.5
