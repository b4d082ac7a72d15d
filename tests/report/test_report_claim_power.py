"""The power that a plan prints for its claims, against how often the public `judge` finds each on simulated runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from designed_fixtures import designed, ends
from report_fixtures import path
from scipy import stats

from ablate.plan.comparisons import claim_steps
from ablate.report.screens.plan import claim_lines
from ablate.space.judge import Expected, Judge, Judged
from ablate.statistics import Floor, power_of
from ablate.statistics.planning import DOWN, INSIDE, UNDECIDED, UP, SimulatedFamily
from ablate.verdict.judge import judge
from ablate.verdict.power import claim_powers
from ablate.verdict.summary import Stamp

SD = 0.02
FLOOR = Floor(metric="eval_loss", scale="linear", n=6, sd=SD, whose="pre_ln")


def claim(of, *verdicts, by=None):
    return Expected(claim="it is so", of=of, metric="eval_loss", verdict=verdicts, by=by)


def ruled(*claims, margin="none", better="lower", family="metric"):
    metrics = {"eval_loss": Judged(margin=margin, scale="linear", better=better)}
    return Judge(metrics=metrics, against="pre_ln", confidence=0.95, expect=claims, family=family)


def power_of_claim(plan, rules, floor=FLOOR, means=None):
    (power,) = claim_powers(plan, rules, [floor] if floor else [], means or {}, {})
    return power


def test_one_comparison_has_the_power_of_the_paired_t_test():
    plan = path("a", seeds=6)
    found = power_of_claim(plan, ruled(claim("op", "better"), margin="none"))
    exact = power_of(found.difference.at, SD, 6, 0.04 / found.tests)
    assert found.tests == 1
    assert exact == pytest.approx(0.8, abs=0.015)
    at = power_of_claim(plan, ruled(claim("op", "better", by=0.03)))
    assert at.power.at == pytest.approx(power_of(0.03, SD, 6, 0.04), abs=0.015)
    low, high = FLOOR.sd_interval()
    assert at.power.low == pytest.approx(power_of(0.03, high, 6, 0.04), abs=0.015)
    assert at.power.high == pytest.approx(power_of(0.03, low, 6, 0.04), abs=0.015)
    assert at.if_nothing == pytest.approx(0.02, abs=0.005)
    assert at.if_opposite == 0.0


def test_equivalence_has_the_power_of_the_two_one_sided_tests():
    """At no difference: E over s of P(|d̄| < margin - t·s/√n), by quadrature here."""
    n, margin = 6, 0.03
    found = power_of_claim(path("a", seeds=n), ruled(claim("op", "equivalent"), margin=margin))
    ratios = np.sqrt(stats.chi2.ppf((np.arange(20_000) + 0.5) / 20_000, n - 1) / (n - 1))
    room = (margin - stats.t.ppf(0.96, n - 1) * ratios * SD / np.sqrt(n)) / (SD / np.sqrt(n))
    exact = np.where(room > 0, 2 * stats.norm.cdf(room) - 1, 0).mean()
    assert found.power.at == pytest.approx(exact, abs=0.015)
    assert (found.difference.at, found.opposite) == (0.0, margin)
    assert found.if_opposite <= 0.045


def test_steps_are_holms():
    """Of three t, the second is compared with the bound of the second step only if the first exceeded its own."""
    family = SimulatedFamily(np.eye(3), 5, 0.05, 3)
    t = np.array([stats.t.ppf(1 - 0.05 / 2 / k, 4) for k in (3, 2, 1)]) + 1e-6
    family.__dict__["_noise"] = np.zeros((2, 3)), np.ones((2, 3))
    run = 1 / np.sqrt(2)
    found = family.verdicts(t * run, 1.0, None)
    assert found.tolist() == [[UP, UP, UP]] * 2
    assert family.verdicts(np.array([t[0] - 1e-3, t[1], -t[2]]) * run, 1.0, None)[0].tolist() == [UNDECIDED] * 3
    stopped = family.verdicts(np.array([-9.0, t[1] - 1e-3, t[2]]) * run, 1.0, None)[0]
    assert stopped.tolist() == [DOWN, UNDECIDED, UNDECIDED]
    assert family.verdicts([0.0, 0.0, 0.0], 1.0, 20.0)[0].tolist() == [INSIDE] * 3


PATH = "{path: {from: pre_ln, to: op}}"
CASES = {
    "the smallest difference that is seen": ("compare", 5, ruled(claim("op", "better"))),
    "a size that is given": ("compare", 5, ruled(claim("op", "worse", by=0.05))),
    "where more is better": ("compare", 6, ruled(claim("op", "better", by=0.05), better="higher")),
    "within a margin": ("compare", 8, ruled(claim("op", "equivalent"), margin=0.04)),
    "within a margin or better": ("compare", 6, ruled(claim("op", "equivalent", "better"), margin=0.03)),
    "sign flips": ("compare", 12, ruled(claim("op", "better", by=0.025))),
    "an edit of a path": ("path", 6, ruled(claim("+qk_norm", "better", by=0.05))),
    "a main effect": ("factorial", 6, ruled(claim("+qk_norm", "worse", by=0.03))),
    "an interaction": ("factorial", 8, ruled(claim("+qk_norm × -layer_norm", "better", by=0.06))),
    "a trend": (
        "{factorial: {from: pre_ln, vary: {model.layers: [4, 8, 16]}}}",
        8,
        ruled(claim("model.layers: trend", "worse")),
    ),
}


def stated(**form):
    return Expected(claim="it is so", metric="eval_loss", **form)


CASES |= {
    "an order around the baseline": ("compare", 6, ruled(stated(order="op < pre_ln < sas"))),
    "an order along a path": (PATH, 8, ruled(stated(order="pre_ln+2 < pre_ln+1 < pre_ln", by=0.04))),
    "equivalents": ("compare", 10, ruled(stated(equivalent=("pre_ln", "op", "sas")), margin=0.04)),
}


@pytest.mark.full
@pytest.mark.parametrize("case", CASES)
def test_the_power_is_that_of_judge(case):
    """Within 5 points at the difference, at none, and at the opposite one; seeds share noise, each run has its own."""
    design, seeds, rules = CASES[case]
    plan = designed(design, seeds=seeds)
    told = power_of_claim(plan, rules, means={"eval_loss": 3.0})
    seen = [simulated(plan, rules, difference) for difference in (told.difference.at, 0.0, told.opposite)]
    assert [told.power.at, told.if_nothing, told.if_opposite] == pytest.approx(seen, abs=0.05)
    weak = simulated(plan, rules, told.difference.at, sd=2 * SD)
    assert abs(weak - told.power.at) > 0.05 or told.difference.at == 0.0, "it would be noticed"


def simulated(plan, rules, difference, *, sd=SD, times=800):
    """How often a claim comes true by `judge`, where its comparison differs by so much towards what it says."""
    (expected,) = rules.expect
    step, *_ = claim_steps(expected, {n: v.id for v in plan.variants for n in v.names}, plan.comparisons, "lower")
    if expected.variants:
        means = difference * means_of_several(plan, expected)
    else:
        upwards = (expected.verdicts[-1] == "better") == (rules.metrics["eval_loss"].better == "higher")
        means = difference * (1 if upwards else -1) * means_of(plan, step.comparison)
    random, true = np.random.default_rng(7), 0
    for _ in range(times):
        noise = random.normal(size=(len(plan.variants), len(plan.seeds))) * sd / np.sqrt(2)
        table = 3.0 + means[:, None] + 0.5 * random.normal(size=len(plan.seeds)) + noise
        summary = judge(plan, rules, ends(plan, {"eval_loss": table}))
        true += summary.expectations[0].outcome == "as expected"
    return true / times


def means_of_several(plan, expected):
    """Means that rise by 1 from each variant of an order to the next; of equivalents the last differs by 1."""
    names = [variant.name for variant in plan.variants]
    if expected.equivalent:
        return np.array([float(name == expected.variants[-1]) for name in names])
    base = float(expected.variants.index("pre_ln"))
    return np.array([float(expected.variants.index(n)) if n in expected.variants else base for n in names])


@pytest.mark.full
def test_the_power_of_a_correlation_is_that_of_judge():
    plan, seeds, times = designed("compare", seeds=5), 5, 800
    claimed = stated(correlation="peak_kurtosis", verdict="positive", by=0.7)
    told = power_of_claim(plan, ruled(claimed), floor=None)
    assert (told.power.low, told.power.high, told.why) == (told.power.at, told.power.at, "")
    for correlation, chance in ((0.7, told.power.at), (0.0, told.if_nothing), (-0.7, told.if_opposite)):
        random, true = np.random.default_rng(3), 0
        for _ in range(times):
            x = random.normal(size=(len(plan.variants), seeds))
            y = correlation * x + np.sqrt(1 - correlation**2) * random.normal(size=x.shape)
            summary = judge(plan, ruled(claimed), ends(plan, {"eval_loss": y + 9, "peak_kurtosis": x + 9}))
            true += summary.expectations[0].outcome == "as expected"
        assert true / times == pytest.approx(chance, abs=0.05)


def test_joint_power_is_less_than_that_of_each_step():
    plan = designed("compare", seeds=6)
    whole = power_of_claim(plan, ruled(stated(order="op < pre_ln < sas", by=0.03)))
    steps = [power_of_claim(plan, ruled(claim(of, "worse", by=0.03))).power.at for of in ("op", "sas")]
    assert 0.2 < whole.power.at < min(steps) - 0.05
    assert whole.if_nothing < 0.01


def test_a_claim_on_a_metric_without_a_better_side_has_the_power_of_its_direction():
    plan = designed("compare", seeds=6)
    for word, sided, twin in (("lower", "better", "worse"), ("higher", "worse", "better")):
        neither = power_of_claim(plan, ruled(claim("op", word, by=0.03), better="none"))
        assert replace(neither, claim="") == replace(power_of_claim(plan, ruled(claim("op", sided, by=0.03))), claim="")
        assert neither.power.at > neither.if_opposite
        other = power_of_claim(plan, ruled(claim("op", twin, by=0.03), better="higher"))
        assert neither.power == other.power


def means_of(plan, comparison):
    """Means of variants for which this comparison is 1, and of a factorial's effects no other is different from 0."""
    rows = {variant.id: place for place, variant in enumerate(plan.variants)}
    means = np.zeros(len(rows))
    if comparison.after:
        means[rows[comparison.after]] = 1.0
        return means
    factors = dict(plan.factors)[comparison.terms]
    if factors.varied:  # a straight line in the levels, from -1/2 to +1/2
        for variant, (level,) in factors.runs:
            means[rows[variant]] = (level - 1) / 2
        return means
    edits = comparison.change.split(" × ")
    for variant, levels in factors.runs:
        signs = [levels[factors.edits.index(edit)] for edit in edits]
        means[rows[variant]] = np.prod(signs) / 2.0 ** len(edits)
    return means


def test_what_has_no_power_says_why():
    plan = path("a", seeds=5)
    assert "no noise floor" in power_of_claim(plan, ruled(claim("op", "better")), floor=None).why
    assert "until the baseline has a mean" in power_of_claim(plan, ruled(claim("op", "equivalent"), margin="1%")).why
    assert "until the baseline has a mean" in power_of_claim(plan, ruled(claim("op", "better", by="2%"))).why
    assert power_of_claim(plan, ruled(claim("op", "better", by="2%")), means={"eval_loss": 3.0}).difference.at == 0.06
    assert "one seed" in power_of_claim(path("a", seeds=1), ruled(claim("op", "better"))).why


def test_what_the_plan_says(golden):
    """Every form of a claim, with its power and its date: as the plan prints it."""
    claims = [
        claim("op", "better").model_copy(update={"claim": "op is better"}),
        claim("sas", "worse", by="2%").model_copy(update={"claim": "sas is worse"}),
        claim("op", "equivalent", "better").model_copy(update={"claim": "op keeps up"}),
        stated(order="op < pre_ln < sas").model_copy(update={"claim": "from op to sas"}),
        stated(equivalent=("pre_ln", "op")).model_copy(update={"claim": "both are the same"}),
        stated(correlation="peak_kurtosis", verdict="positive").model_copy(update={"claim": "they go together"}),
        Expected(claim="less of them", of="op", metric="peak_kurtosis", verdict="better"),
    ]
    rules = ruled(*claims, margin="1%")
    peak = Judged(margin="none", scale="log", better="lower")
    rules = rules.model_copy(update={"metrics": {**rules.metrics, "peak_kurtosis": peak}})
    plan, dates = designed("compare", seeds=5), [Stamp(stamped="not dated")] * 6
    late = Stamp(stamped="after results", known_at=1.7e9, known_in="other")
    powers = claim_powers(plan, rules, [FLOOR], {"eval_loss": 3.0}, {})
    lines = claim_lines(powers, [*dates, late], plan.space)
    golden(Path(__file__).parent / "claims" / "plan.txt", "".join(f"{line}\n" for line in lines))
