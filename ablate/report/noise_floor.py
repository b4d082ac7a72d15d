"""The smallest difference that a plan would find above the noise, and the seeds that a margin needs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ablate.output.words import plural, ratio, significant, spoken
from ablate.plan.designs.design_matrix import MEAN, coded, columns, fitted_terms
from ablate.plan.plan import Factors, Plan
from ablate.space.judge import Judge, Judged
from ablate.statistics import MOST_SEEDS, POWER, SD_LEVEL, Floor, power_of, seeds_for_signs
from ablate.verdict.hypothesis_test import absolute_margin
from ablate.verdict.judgement import Account, judgement_notes, judgement_of, metric_families

PLANNED = (8, 12)
"""Seed counts for which the power of a factorial is reported, besides the plan's own."""


def floor_lines(
    plan: Plan, rules: Judge, floors: Sequence[Floor], means: Mapping[str, float], account: Account
) -> Iterator[str]:
    """Yield each judged metric's noise floor and what the plan's seeds can detect above it; without one, how to get it.

    The level is that of the family's first test by Holm, a/m, where a is the level that the `account` gives to these
    seeds. `means` are the baseline's, for margins that are shares of them.
    """
    judgements = {name: judgement_of(plan, rules, names, account) for names in metric_families(rules) for name in names}
    each = tuple(dict.fromkeys(judgements.values()))
    yield from judgement_notes(each, several=len(rules.metrics) > 1)
    levels = {name: judgement.level / judgement.tests for name, judgement in judgements.items() if judgement.tested}
    known = {floor.metric: floor for floor in floors}
    for name, judged in rules.metrics.items():
        level, tests = levels.get(name, 0.0), judgements[name].tests
        if name in known and level > 0:
            yield _floor(known[name])
            yield _seen(known[name], plan, level, tests)
            yield from _narrow(known[name], judged, level, means.get(name))
    searched = plan.design.startswith("search")
    seeds = plan.looks[-1] if plan.looks else len(plan.seeds)
    best = max(levels, key=lambda name: levels[name], default=None)
    if seeds > 1 and best is not None and levels[best] > 0:
        for factors in dict.fromkeys(factors for _, factors in plan.factors if factors.effects):
            yield _power(factors, seeds, levels[best], judgements[best].tests)
    lacking = [] if searched else [spoken(name) for name in rules.metrics if name not in known]
    if lacking:
        yield (
            f"no noise floor yet for {', '.join(lacking)} with this recipe, scale and corpus: what these seeds can "
            f"detect is unknown; {_way_to_a_floor(plan)}"
        )


def _power(factors: Factors, seeds: int, level: float, tests: int) -> str:
    """Return the power for an effect of one edit as large as the noise of a run, σ; for the edit estimated worst.

    Its sd over seeds is 2σ√c, with c its diagonal element of (XᵀX)⁻¹, were the edit to do the same at every seed.
    Trends, curvatures and levels of factors count as edits.
    """
    levels = coded(factors, list(dict(reversed(factors.runs)).values()))
    terms = fitted_terms(factors, levels)
    x = columns(levels, [MEAN, *terms])
    shares = np.linalg.inv(x.T @ x).diagonal()[1:]
    shown = zip(terms[: len(factors.effects)], shares, strict=False)
    worst = max(float(share) for term, share in shown if len(term) == 1)
    power = {n: 100 * power_of(1.0, 2 * math.sqrt(worst), n, level) for n in sorted({seeds, *PLANNED})}
    more = ", ".join(f"{value:.0f} % with {n}" for n, value in power.items() if n > seeds)
    over = f" over {tests} comparisons" if tests > 1 else ""
    of = "an edit or a factor" if factors.varied else "an edit"
    return (
        f"an effect of {of} as large as the noise of a run is found {power[seeds]:.0f} % of the time with "
        f"{plural(seeds, 'seed')}{f' ({more})' if more else ''} at level {level:.2g}{over}; less often where the "
        "effect itself varies over seeds"
    )


def _way_to_a_floor(plan: Plan) -> str:
    salted = {variant.id for variant in plan.variants if variant.setting.salt}
    if pairs := len({trial.seed for trial in plan.trials if trial.variant in salted}):
        return f"its A/A arm ({plural(pairs, 'pair')}) will give one"
    name = plan.variant(plan.baseline).name
    return (
        f"to measure it, add noise: {{seeds: 6}}, which trains {name} again with another initialisation, once for all "
        "spaces that share this"
    )


def _floor(floor: Floor) -> str:
    low, high = floor.sd_interval()
    what = "the differences have sd" if floor.scale == "linear" else "the log ratios have sd"
    if floor.edits:
        each = f", at most {floor.n} of one variant, on which the interval is based" if floor.edits > 1 else ""
        return (
            f"spread of {spoken(floor.metric)} over seeds (trained before: {floor.whose}): {what} "
            f"{significant(floor.sd)} [{significant(low)}, {significant(high)}], "
            f"n = {plural(floor.pairs, 'pair')}{each}"
        )
    return (
        f"noise floor of {spoken(floor.metric)} (A/A, {floor.whose}): {what} {significant(floor.sd)} "
        f"[{significant(low)}, {significant(high)}], n = {plural(floor.n, 'pair')}"
    )


def _seen(floor: Floor, plan: Plan, level: float, tests: int) -> str:
    seeds = plan.looks[-1] if plan.looks else len(plan.seeds)
    if seeds < 2:
        return f"{spoken(floor.metric)}: one seed has no spread to judge by, so nothing can be detected"
    if floor.sd == 0:
        return _signs(floor, seeds, level)
    at, low, high = (difference_in_words(value, floor.scale) for value in floor.visible(seeds, level))
    between = " between two variants" if plan.factors else ""
    over = f" over {tests} comparisons" if tests > 1 else ""
    late = ", if only the last analysis were made" if plan.looks else ""
    return (
        f"{spoken(floor.metric)}: {plural(seeds, 'seed')} detect a difference of {at} [{low}, {high}]{between} "
        f"with {100 * POWER:.0f} % power at level {level:.2g}{over}{late}; the interval is that of the sd"
    )


def _signs(floor: Floor, seeds: int, level: float) -> str:
    """If the floor does not vary, the sign test decides, by the number of seeds."""
    least = seeds_for_signs(level)
    outcome = "find any difference" if math.isfinite(floor.visible(seeds, level)[0]) else "find nothing"
    what = "differences" if floor.edits else "A/A arms"
    return (
        f"{spoken(floor.metric)}: {what} do not vary, so the sign test decides: {plural(seeds, 'seed')} {outcome} at "
        f"level {level:.2g}, which needs {least}"
    )


def _narrow(floor: Floor, judged: Judged, level: float, mean: float | None) -> Iterator[str]:
    name = spoken(floor.metric)
    relative = not isinstance(judged.margin, float) and judged.margin.endswith("%") and judged.scale == "linear"
    if judged.margin == "none":
        return
    if relative and mean is None:
        yield f"{name}: a margin of {judged.margin} has no value until the baseline has a mean"
        return
    margin = absolute_margin(judged.margin, log=judged.scale == "log", baseline_mean=mean)
    if margin is None:
        return
    needed = floor.seeds_for_margin(margin, level)
    seeds = plural(needed, "seed") if needed is not None else f"more than {MOST_SEEDS} seeds"
    within = difference_in_words(margin, floor.scale)
    if floor.sd == 0:
        yield f"{name}: to find equivalence within {within} by the sign test takes {seeds}"
        return
    yield (
        f"{name}: to narrow the interval to half the margin of {within} takes {seeds}, "
        f"planned from the upper {100 * SD_LEVEL:.0f} % confidence limit of the sd"
    )


def difference_in_words(value: float, scale: str) -> str:
    return f"a factor {ratio(value)}" if scale == "log" else significant(value)
