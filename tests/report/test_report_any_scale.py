"""Judged numbers may be of any size: a table in other units, or multiplied by any factor, has the same verdicts."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from designed_fixtures import DESIGNS, LOOKS, designed, sweeps
from report_fixtures import finals as ends_of
from report_fixtures import path
from test_report_ladder import experiment
from test_report_levels import KINDS, SWEEP, page_record
from test_report_tables import render

from ablate.plan.plan import Plan
from ablate.report.page import verdicts
from ablate.report.screens.result import result_screen
from ablate.space.judge import Judge, Judged
from ablate.verdict.experiment import Experiment, Final
from ablate.verdict.judge import judge
from ablate.verdict.summary import Summary

POWERS = (2.0**1000, 2.0**-600)
FACTORS = (1e300, 1e-200, *POWERS)
METRICS = ("eval_loss", "token_correlation", "peak_kurtosis")
"""On the linear scale, with a margin in per cent and with one in its own units; and on the log scale."""


def rules(factor: float = 1.0) -> Judge:
    margins = {"eval_loss": "1%", "token_correlation": 0.012 * factor, "peak_kurtosis": "1%"}
    return Judge(
        metrics={
            name: Judged(margin=margin, scale="log" if name == "peak_kurtosis" else "linear", better="lower")  # type: ignore[arg-type]
            for name, margin in margins.items()
        },
        against="pre_ln",
        confidence=0.95,
    )


@dataclass(frozen=True)
class World:
    """An experiment, and how its trials ended."""

    design: Plan | Experiment
    finals: Mapping[str, Final]

    def judged(self, factor: float = 1.0) -> Summary:
        """The verdicts on all of its numbers multiplied."""
        finals = {
            trial: Final(status=end["status"], step=end["step"], metrics=times(end["metrics"], factor))
            for trial, end in self.finals.items()
        }
        return judge(self.design, rules(factor), finals)


def times(metrics: Mapping[str, float], factor: float) -> dict[str, float]:
    return {name: value * factor for name, value in metrics.items()}


def of(design: str, *, seeds: int = 4, lost: tuple[tuple[int, int], ...] = (), **given: Any) -> World:
    """A plan with noise over seeds, and variants that differ by several times as much, by as much, or by nothing."""
    plan = designed(design, seeds=seeds, **given)
    gone = np.zeros((len(plan.variants), len(plan.seeds)), dtype=bool)
    for cell in lost:
        gone[cell] = True
    shifts = [(0.0, 0.1, 0.015, 0.001)[i % 4] for i in range(len(plan.variants))]
    (finals,) = sweeps(plan, 1, *METRICS, rng=seeds, shifts=shifts, sd=0.005, lost=gone)
    return World(plan, finals)


def unusable(world: World) -> World:
    """One run of a variant that is not the baseline ended with nothing that can be judged."""
    trial = world.design.trials[-1].id  # type: ignore[union-attr]
    return World(
        world.design,
        {**world.finals, trial: Final(status="finished", step=20, metrics=dict.fromkeys(METRICS, math.nan))},
    )


def constant(seeds: int) -> World:
    """Differences that are the same at every seed."""
    values = 2.0 + np.arange(seeds) / 64
    return World(path("a", "b", seeds=seeds), ends_of({
        id: [dict.fromkeys(METRICS, float(value)) for value in values + shift]
        for id, shift in (("v0", 0.0), ("v1", 1 / 32), ("v2", 1 / 32))
    }))  # fmt: skip


def two_samples(before: int, after: int) -> World:
    """Variants that see other batches; of the shorter side the other seeds ended with an error."""
    seeds, rng = max(before, after), np.random.default_rng(before)
    plan = path("a", seeds=seeds)
    plan = replace(plan, comparisons=tuple(replace(one, unpaired=("recipe.batch",)) for one in plan.comparisons))
    ends = {
        id: [dict.fromkeys(METRICS, float(level + 0.01 * rng.standard_normal())) for _ in range(n)]
        + ["bug"] * (seeds - n)
        for id, n, level in (("v0", before, 2.3), ("v1", after, 2.4))
    }
    return World(plan, ends_of(ends))


def ladder(law: str, *, unpaired: tuple[str, ...] = ()) -> World:
    asked = experiment(law=law, unpaired=unpaired)
    rng, ends = np.random.default_rng(5), {}
    for variant in asked.variants:
        for trial in asked.trials[variant.id].values():
            loss = 20 * (variant.compute or 0.0) ** -0.05 * math.exp(0.004 * rng.standard_normal())
            loss *= 0.99 if variant.id.startswith("new") else 1.0
            ends[trial] = Final(status="finished", step=10, metrics=dict.fromkeys(METRICS, loss))
    return World(asked, ends)


WORLDS = {
    **{f"{design}, {seeds} seeds": lambda design=design, seeds=seeds: of(design, seeds=seeds)
       for design in DESIGNS for seeds in (1, 4, 12)},
    "trends": lambda: of(SWEEP, seeds=5),
    "levels": lambda: of(KINDS, seeds=5),
    "levels, 1 seed": lambda: of(SWEEP, seeds=1),
    "looks": lambda: of("path", looks=LOOKS),
    "looks at a factorial": lambda: of("factorial", looks=LOOKS[:3]),
    "by ranks": lambda: of("path", seeds=12, lost=((1, 0), (1, 3), (2, 3))),
    "a sum with open seeds": lambda: of("leave_one_out", seeds=14, lost=((1, 0),)),
    "a factorial by ranks": lambda: of("factorial", seeds=12, lost=((1, 0), (2, 3))),
    "a factorial without a run": lambda: of("factorial", seeds=4, lost=tuple((1, seed) for seed in range(4))),
    "an unusable number": lambda: unusable(of("path", seeds=9)),
    "no spread, few": lambda: constant(4),
    "no spread": lambda: constant(8),
    "two samples of one size": lambda: two_samples(6, 6),
    "two samples": lambda: two_samples(3, 8),
    "ladder": lambda: ladder("power"),
    "ladder, not paired": lambda: ladder("power", unpaired=("recipe.batch",)),
}  # fmt: skip


@cache
def world(name: str) -> tuple[World, Summary]:
    made = WORLDS[name]()
    return made, made.judged()


SCALED = {"estimate", "low", "high", "tost_low", "tost_high", "adjusted_low", "adjusted_high", "margin", "sd"}
"""What of an effect on the linear scale is in the units of the metric."""
SHOWN = re.compile(r": \S+ \[[^]]*\]")
"""A difference with its interval in a note, in those units too."""


def rows(summary: Summary, factor: float = 1.0) -> list[dict[str, Any]]:
    """Everything that is told of a summary, in the units that its numbers have before they are multiplied."""

    def back(value: float | None, log: bool = False) -> float | None:
        return value if value is None or log else value / factor

    told: list[dict[str, Any]] = []
    for effect in summary.effects:
        log = effect.scale == "log"
        of_effect = {name: back(value, log) if name in SCALED else value for name, value in asdict(effect).items()}
        told.append({**of_effect, "note": effect.note if log else SHOWN.sub("", effect.note)})
    for line in summary.anova:
        told.append({"term": line.term, "df": line.df, "f": line.f, "p": line.p, "u": line.u})
    for arm in summary.arms:
        for name, level in arm.levels.items():
            told.append({"mean": back(level.mean), "sd": back(level.sd, name == "peak_kurtosis"), "n": level.n})
    for one in summary.ladders:
        told.append({"why": one.why, "b": one.exponent, "low": one.exponent_low, "high": one.exponent_high,
                     "bent": one.curvature_p, "factor": back(one.factor), "floor": back(one.irreducible)})  # fmt: skip
        for size in one.sizes:
            told.append({name: back(value) if name in ("loss", "baseline_loss") else value
                         for name, value in asdict(size).items()})  # fmt: skip
    told.append({"front": summary.front, "notes": summary.notes})
    return told


def differing(found: list[dict[str, Any]], expected: list[dict[str, Any]], *, exact: bool) -> list[str]:
    """What is not the same; numbers to eight digits, or every bit."""
    assert len(found) == len(expected)
    pairs = [(name, one[name], other[name]) for one, other in zip(found, expected, strict=True) for name in other]
    return [f"{name}: {got} for {ought}" for name, got, ought in pairs if not same(got, ought, exact=exact)]


def same(got: Any, ought: Any, *, exact: bool) -> bool:
    if exact or not isinstance(ought, float) or not isinstance(got, float):
        return bool(got == ought) or (isinstance(ought, float) and math.isnan(ought) and math.isnan(got))
    return got == pytest.approx(ought, rel=1e-8, abs=1e-12)


@pytest.mark.filterwarnings("error")
@pytest.mark.sampled(20)
@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("name", WORLDS)
def test_multiplied_numbers_have_the_same_verdicts(name, factor):
    made, summary = world(name)
    assert not differing(rows(made.judged(factor), factor), rows(summary), exact=factor in POWERS)
    assert all(one.why == "" for one in summary.ladders)


@pytest.mark.filterwarnings("error")
@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", WORLDS)
def test_by_any_factor(name):
    """One of any size for each, and one that is a power of two."""
    made, summary = world(name)
    random = np.random.default_rng(list(name.encode()))
    for factor, exact in ((10.0 ** random.uniform(-250, 300), False), (2.0 ** int(random.integers(-800, 1000)), True)):
        assert not differing(rows(made.judged(factor), factor), rows(summary), exact=exact), factor


@pytest.mark.parametrize("name", ["path, 4 seeds", "path, 12 seeds", "two samples of one size", "factorial, 4 seeds"])
def test_squares_of_the_numbers_themselves_would_overflow_or_vanish(name, monkeypatch):
    """The twin: without the division by their magnitude nothing is decided, or nothing seems to vary."""
    made, summary = world(name)
    for module in ("spread", "t_tests", "factorial", "contrasts", "paired"):
        monkeypatch.setattr(import_module(f"ablate.statistics.{module}"), "magnitude", lambda *numbers: 0)
    linear = [e.verdict for e in summary.effects if e.scale == "linear"]
    with np.errstate(all="ignore"):
        small = made.judged(1e-200)
        assert all(e.sd == 0 for e in small.effects if e.scale == "linear") and "no spread" in small.effects[0].note
        large = [e.verdict for e in made.judged(1e300).effects if e.scale == "linear"]
    assert large.count("undecided") > linear.count("undecided")


@pytest.mark.parametrize("power", [990, 300, -600])
def test_ratios_that_hardly_vary_are_told_from_those_that_do_not(power):
    """Of numbers of 2^990 the logarithm is 686, whose rounding error is more than these ratios vary."""
    noise = 1e-11 * np.array([[0.0, 0.0, 0.0, 0.0], [2.0, 1.0, 2.5, 1.5]])
    ends = {f"v{i}": [dict.fromkeys(METRICS, 2.5 * (1.0 + float(one))) for one in row] for i, row in enumerate(noise)}
    made = World(path("a", seeds=4), ends_of(ends))
    (effect,) = (e for e in made.judged(2.0**power).effects if e.scale == "log" and e.kind == "edit")
    assert effect.estimate == pytest.approx(1.75e-11, rel=1e-4) and "no spread" not in effect.note
    assert effect.sd == pytest.approx(np.std([2.0, 1.0, 2.5, 1.5], ddof=1) * 1e-11, rel=1e-4)


@pytest.mark.parametrize(("factor", "power"), [(1e300, "e+29"), (1e-200, "e-20")])
def test_screens_and_pages_show_the_same_digits(factor, power):
    made, summary = world("factorial, 4 seeds")
    plain, shown = (render(result_screen(one, {}), 250) for one in (summary, made.judged(factor)))
    digits = [re.findall(r"\[[^]]*\] \(better\)", text)[0] for text in (plain, shown)]
    assert power in digits[1] and "000000" not in shown
    assert [round(float(n), 3) for n in re.findall(r"[-+.\de]+\d", digits[0])] == pytest.approx(
        [float(n) / factor for n in re.findall(r"[-+.\de]+\d", digits[1])], abs=6e-4
    )
    assert "sum of squares: inf or 0" in shown and "sum of squares: inf or 0" not in plain
    scaled = made.judged(factor)
    grid = verdicts.anova(page_record(made.design, scaled), "", scaled.metrics[0])
    assert grid is not None and "nan" not in str(grid.rows)
