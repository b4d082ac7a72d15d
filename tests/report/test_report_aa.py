"""A/A: where nothing differs but the initialisation, how often is anything called better or worse?

Through the judge itself, over plans of real spaces. A sweep is one table: a single false claim in it counts. The bound
of 5.7 % is that of 10,000 sweeps at a true rate of 5 % (three standard errors); with fewer, a bound as unlikely.
`test_report_vectorised` has them through a computation of its own, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import pytest
from designed_fixtures import DESIGNS, LOOKS, designed, rules, sweeps
from scipy.stats import binom
from vectorised_judge import pooled_p

from ablate.plan.plan import Plan
from ablate.space.judge import Judge
from ablate.verdict.experiment import Final
from ablate.verdict.judge import judge
from ablate.verdict.summary import Summary

FEW, MANY = 250, 10_000
METRICS = ("eval_loss", "peak_kurtosis", "token_correlation")


def bound(times: int) -> float:
    """The greatest rate that 5 % comes to but once in 5,000 series of so many; 5.7 % of 10,000."""
    return float(binom.ppf(0.9998, times, 0.05)) / times if times < MANY else 0.057


def rate(found: Iterable[bool]) -> float:
    return float(np.mean(list(found)))


def any_claim(summary: Summary) -> bool:
    return any(effect.verdict in ("better", "worse") for effect in summary.effects)


def false_rate(
    plan: Plan,
    ruled: Judge,
    times: int,
    *names: str,
    claims: Callable[[Summary], bool] = any_claim,
    varies: float = 1.0,
) -> float:
    found = sweeps(plan, times, *names, rng=times, varies=varies)
    return rate(claims(judge(plan, ruled, finals)) for finals in found)


def family_rate(design: str, times: int) -> float:
    plan = designed(design, seeds=4)
    summary = judge(plan, rules(), next(sweeps(plan, 1)))
    assert all(effect.p is not None for effect in summary.effects)  # every comparison is made
    return false_rate(plan, rules(), times)


@pytest.mark.parametrize("design", [pytest.param(d, marks=() if d == "compare" else pytest.mark.full) for d in DESIGNS])
def test_nothing_is_found_where_nothing_is(design):
    assert family_rate(design, FEW) <= bound(FEW)


@pytest.mark.slow
@pytest.mark.parametrize("design", DESIGNS)
def test_nothing_is_found_where_nothing_is_in_ten_thousand_sweeps(design):
    assert family_rate(design, MANY) <= bound(MANY)


@pytest.mark.full
@pytest.mark.parametrize("varies", [pytest.param(0.0, marks=pytest.mark.full), 3.0])
def test_nor_in_a_factorial_however_much_effects_vary_over_seeds(varies):
    assert false_rate(designed("factorial", seeds=4), rules(), FEW, varies=varies) <= bound(FEW)


@pytest.mark.full
@pytest.mark.parametrize("design", ["factorial", pytest.param("fractional", marks=pytest.mark.full)])
def test_one_error_for_all_effects_would_make_false_claims(design):
    """The twin: the same sweeps, held against what runs do at one seed beyond their mean and that of the seed."""
    plan = designed(design, seeds=4)
    assert false_rate(plan, rules(), FEW, varies=3.0) <= bound(FEW)
    cell = {(trial.variant, trial.seed): trial.id for trial in plan.trials}

    def pooled(finals: dict[str, Final]) -> bool:
        values = [[finals[cell[v.id, s]]["metrics"]["eval_loss"] for s in plan.seeds] for v in plan.variants]
        p = pooled_p(plan, np.array([values]))
        return bool(p.min() < 0.05 / p.shape[1])

    assert rate(map(pooled, sweeps(plan, FEW, rng=FEW, varies=0.0))) <= bound(FEW)
    assert rate(map(pooled, sweeps(plan, FEW, rng=FEW, varies=3.0))) > bound(FEW)


@pytest.mark.full
@pytest.mark.parametrize("design", ["compare", pytest.param("factorial", marks=pytest.mark.full)])
def test_looking_again_and_again_finds_nothing_either(design):
    assert false_rate(designed(design, looks=LOOKS), rules(), FEW) <= bound(FEW)


@pytest.mark.slow
@pytest.mark.parametrize("design", DESIGNS)
def test_looking_again_and_again_finds_nothing_in_ten_thousand_sweeps_either(design):
    assert false_rate(designed(design, looks=LOOKS), rules(), MANY) <= bound(MANY)


@pytest.mark.full
@pytest.mark.parametrize("looks", [(), pytest.param((4, 8), marks=pytest.mark.full)])
def test_nor_on_a_page_of_several_metrics(looks):
    plan = designed("compare", seeds=4, looks=looks)
    assert false_rate(plan, rules(*METRICS, family="page"), FEW, *METRICS) <= bound(FEW)


@pytest.mark.slow
@pytest.mark.parametrize("looks", [(), LOOKS])
@pytest.mark.parametrize("design", ["path", "factorial"])
def test_nor_on_a_page_of_several_metrics_in_ten_thousand_sweeps(design, looks):
    plan = designed(design, seeds=4, looks=looks)
    assert false_rate(plan, rules(*METRICS, family="page"), MANY, *METRICS) <= bound(MANY)


@pytest.mark.parametrize("seeds", [10, pytest.param(20, marks=pytest.mark.full)])
def test_nor_by_flipping_signs(seeds):
    plan = designed("{compare: [pre_ln, op]}", seeds=seeds)
    summary = judge(plan, rules(), next(sweeps(plan, 1)))
    assert {effect.method for effect in summary.effects} == {"sign_flip"}
    assert false_rate(plan, rules(), FEW) <= bound(FEW)


# What would go wrong without each of the corrections: the same sweeps, not corrected, err more often than is allowed.


@pytest.mark.parametrize(
    "design", ["compare", *(pytest.param(one, marks=pytest.mark.full) for one in ("path", "factorial"))]
)
def test_without_the_correction_for_many_comparisons_there_would_be_false_claims(design):
    plan = designed(design, seeds=4)
    uncorrected = false_rate(plan, rules(), FEW, claims=lambda summary: any(e.p < 0.05 for e in summary.effects))
    assert uncorrected > bound(FEW)


@pytest.mark.full
def test_without_the_boundaries_of_looks_there_would_be_false_claims():
    plan = designed("{compare: [pre_ln, op]}", looks=LOOKS)

    def ever(finals: dict[str, Final]) -> bool:
        at = [replace(plan, looks=(), seeds=plan.seeds[:n], trials=plan.trials[: 2 * n]) for n in LOOKS]
        return any(any_claim(judge(one, rules(), finals)) for one in at)

    every = list(sweeps(plan, FEW, rng=FEW))
    assert rate(map(ever, every)) > bound(FEW)
    assert rate(any_claim(judge(plan, rules(), finals)) for finals in every) <= bound(FEW)


@pytest.mark.full
def test_metric_by_metric_a_page_of_three_errs_more_often_than_as_one_family():
    plan = designed("compare", seeds=4)
    times = 2 * FEW
    apart = false_rate(plan, rules(*METRICS), times, *METRICS)
    assert apart > bound(times) >= false_rate(plan, rules(*METRICS, family="page"), times, *METRICS)
