"""The judge beside a computation of its own that takes many tables at once, and by that one: how often tables err."""

from __future__ import annotations

import re

import numpy as np
import pytest
from designed_fixtures import DESIGNS, LOOKS, designed, ends, rules, sweeps, tables
from vectorised_judge import FIRST, answers, contrasts, distinct, pooled_p

from ablate.report.screens.plan import floor_lines
from ablate.space.judge import Judged
from ablate.verdict.contrasts import family_size
from ablate.verdict.judge import judge

MANY = 20_000
MARGIN = Judged(margin=0.012, scale="linear", better="lower")  # type: ignore[arg-type]
NUMBERS = (
    "estimate",
    "low",
    "high",
    "tost_low",
    "tost_high",
    "p",
    "p_adjusted",
    "p_equivalent",
    "p_equivalent_adjusted",
)


def compared(design: str, *, seeds: int, times: int) -> tuple[float, int]:
    """The greatest distance of any number from the judge's, in parts of those above 1, and how many verdicts differ."""
    plan = designed(design, seeds=seeds)
    assert len(distinct(contrasts(plan))[0]) == family_size(plan)
    shifts = np.random.default_rng(seeds).normal(0, 0.01, len(plan.variants))
    values = tables(plan, times, random=np.random.default_rng(times), shifts=shifts)
    expected = answers(plan, values, margin=0.012)
    far, other = 0.0, 0
    for i, table in enumerate(values):
        summary = judge(plan, rules(judged=MARGIN), ends(plan, {"eval_loss": table}))
        for name in NUMBERS:
            got = np.array([getattr(effect, name) for effect in summary.effects])
            ought = getattr(expected, name)[i]
            far = max(far, float((np.abs(got - ought) / np.maximum(1, np.abs(ought))).max()))
        other += sum(e.verdict != verdict for e, verdict in zip(summary.effects, expected.verdict[i], strict=True))
    return far, other


@pytest.mark.parametrize("seeds", [4, pytest.param(12, marks=pytest.mark.full)])
@pytest.mark.parametrize("design", DESIGNS)
def test_the_judge_agrees_with_it(design, seeds):
    far, other = compared(design, seeds=seeds, times=5)
    assert far <= 1e-12 and other == 0


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [3, 5, 8, 12])
@pytest.mark.parametrize("design", DESIGNS)
def test_the_judge_agrees_with_it_on_two_hundred_tables(design, seeds, capsys):
    far, other = compared(design, seeds=seeds, times=200)
    with capsys.disabled():
        print(f"\n{design}, {seeds} seeds: 200 tables within {far:.1e}, {other} other verdicts")
    assert far <= 1e-12 and other == 0


@pytest.mark.slow
@pytest.mark.parametrize("varies", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("seeds", [5, 8])
@pytest.mark.parametrize("design", DESIGNS)
def test_of_twenty_thousand_tables_one_in_twenty_errs_at_most(design, seeds, varies, capsys):
    """With all of α spent at once. Single intervals, of main effects and all others, cover in 94 to 96 %."""
    plan = designed(design, seeds=seeds)
    found = answers(plan, tables(plan, MANY, random=np.random.default_rng(7), varies=varies), level=0.05)
    covered = ((found.low <= 0) & (found.high >= 0)).mean(axis=0)
    pooled = ""
    if plan.factors:
        p = pooled_p(plan, tables(plan, MANY, random=np.random.default_rng(7), varies=varies))
        false = float((p.min(axis=1) < 0.05 / p.shape[1]).mean())
        pooled = f"; one error for all: {false:.1%}"
        if varies == 3:
            assert false > 0.057
    with capsys.disabled():
        print(
            f"\n{design}, {seeds} seeds, edits vary by {varies:g}: {found.false.mean():.2%} false, "
            f"intervals cover {covered.min():.1%} to {covered.max():.1%}{pooled}"
        )
    assert found.false.mean() <= 0.057
    assert covered.min() >= 0.94 and covered.max() <= 0.96


@pytest.mark.slow
@pytest.mark.parametrize(("looks", "times", "bound"), [((), 2_000, 0.064), (LOOKS, 1_000, 0.069)])
@pytest.mark.parametrize("varies", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("design", DESIGNS)
def test_through_the_judge_itself(design, varies, looks, times, bound, capsys):
    """The bounds are 5 % and 2.75 standard errors, of 2,000 tables and of 1,000."""
    plan = designed(design, seeds=5, looks=looks)
    found = np.mean(
        [
            any(effect.verdict in ("better", "worse") for effect in judge(plan, rules(), finals).effects)
            for finals in sweeps(plan, times, rng=times, varies=varies)
        ]
    )
    with capsys.disabled():
        print(f"\n{design}, {f'looks at {looks}' if looks else '5 seeds'}, edits vary by {varies:g}: {found:.2%} false")
    assert found <= bound


def printed_power(plan) -> float:
    """What `plan` says: the share of times that an effect of an edit as large as the noise of a run is found."""
    (line,) = [line for line in floor_lines(plan, rules(), [], {}) if "as large as the noise of a run" in line]
    return float(re.search(r"is found (\d+) % of the time", line)[1]) / 100


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [5, 8, 12])
@pytest.mark.parametrize("design", ["factorial", "fractional", "plackett_burman", "d_optimal"])
def test_power_is_within_five_points_of_that_printed(design, seeds, capsys):
    """With Holm's first step alone, as it is planned, and an edit that does the same at every seed."""
    plan = designed(design, seeds=seeds)
    sums = contrasts(plan)
    first, _ = distinct(sums)
    ((_, factors),) = plan.factors
    ids = [variant.id for variant in plan.variants]
    mains = [i for i, comparison in enumerate(plan.comparisons) if comparison.kind == "main"]
    errors = np.sqrt((sums**2).sum(axis=1))
    edit = max(mains, key=lambda i: errors[i])
    place = factors.edits.index(plan.comparisons[edit].change)
    levels = dict(factors.runs)
    shifts = [0.01 * (id in levels and levels[id][place] > 0) for id in ids]
    found = answers(plan, tables(plan, MANY, random=np.random.default_rng(3), shifts=shifts, varies=0.0))
    had = float((found.p[:, edit] < FIRST / len(first)).mean())
    with capsys.disabled():
        print(f"\n{design}, {seeds} seeds: power printed {printed_power(plan):.0%}, had {had:.1%}")
    assert abs(had - printed_power(plan)) <= 0.05
