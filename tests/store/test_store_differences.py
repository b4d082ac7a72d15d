"""Paired differences over training, against the same computed one by one from the rows."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import mean, stdev

import pytest
from tiny_spaces import write_world

import ablate
from ablate.report.page.differences import band
from ablate.store.pages import DifferenceCurve, differences
from ablate.store.query import query


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("differences")
    space = ablate.load_space(write_world(folder, steps=12, seeds=3))
    ablate.run(space, results=folder / "results", executor="inline", mirror=False)
    return folder / "results"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("metric", "over", "log"), [("eval_loss", "mean", False), ("kurtosis", "largest", True)])
def test_they_are_paired_by_seed_at_every_step(results: Path, metric: str, over: str, log: bool) -> None:
    trials = query(
        results, "SELECT trial_id, m.variant_id, t.seed FROM memberships m JOIN trials t USING (trial_id)"
    ).rows
    (baseline,) = query(results, "SELECT baseline FROM spaces").rows[0]
    named = {trial: (variant, seed) for trial, variant, seed in trials}
    values: dict[tuple[str, int, int], list[float]] = {}
    for trial, step, value in query(
        results, f"SELECT trial_id, step, value FROM metrics WHERE metric = '{metric}'"
    ).rows:
        values.setdefault((*named[trial], step), []).append(value)
    seeds = sorted({seed for _, seed in named.values()})
    courses = differences(results, {t: v for t, (v, _) in named.items()}, baseline, [(metric, over, log)])
    assert {course.variant for course in courses} == {v for v, _ in named.values()} - {baseline}
    for course in courses:
        steps = sorted({step for variant, _, step in values if variant == course.variant})
        assert course.steps == tuple(steps) and course.measured == len(steps) and len(steps) > 1
        for step, n, middle, sd in zip(course.steps, course.n, course.mean, course.sd, strict=True):
            each = []
            for seed in seeds:
                after, before = max(values[course.variant, seed, step]), max(values[baseline, seed, step])
                each.append(math.log(after / before) if log else after - before)
            assert n == len(seeds)
            assert (middle, sd) == (pytest.approx(mean(each), abs=1e-12), pytest.approx(stdev(each), abs=1e-12))


def test_a_band_is_students_interval_of_each_step() -> None:
    course = DifferenceCurve(
        variant="v",
        metric="m",
        over="mean",
        log=False,
        steps=(0, 1),
        n=(5, 1),
        mean=(1.0, 2.0),
        sd=(0.5, None),
        measured=2,
    )
    low, high = band(course)
    half = 2.7764451051977987 * 0.5 / math.sqrt(5)  # t(4) at 97.5 %
    assert (low[0], high[0]) == (pytest.approx(1 - half), pytest.approx(1 + half))
    assert math.isnan(low[1]) and math.isnan(high[1])
