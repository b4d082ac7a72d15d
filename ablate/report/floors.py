"""What a plan can see above the noise: the least difference it would find, and the seeds that a margin takes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from ablate.plan.plan import Plan
from ablate.report.asked import family_size
from ablate.report.margins import absolute_margin
from ablate.report.wording import plural, ratio, significant, spoken
from ablate.space.documents import Judge, Judged
from ablate.statistics import MOST_SEEDS, POWER, SD_LEVEL, Floor, seeds_for_signs


def floor_lines(plan: Plan, rules: Judge, floors: Sequence[Floor], means: Mapping[str, float]) -> Iterator[str]:
    """For each judged metric its noise floor and what can be seen above it with the plan's seeds, tested as it will be.

    The level is that of the family's first test by Holm, α/m. `means` are the baseline's, for margins that are shares
    of them. A metric without a floor is named in a line that says how to get one.
    """
    tests = max(1, family_size(plan, metrics=len(rules.metrics) if rules.family == "page" else 1))
    level = (1 - rules.confidence) / tests
    known = {floor.metric: floor for floor in floors}
    for name, judged in rules.metrics.items():
        if name in known:
            yield _floor(known[name])
            yield _seen(known[name], plan, level, tests)
            yield from _narrow(known[name], judged, level, means.get(name))
    searched = plan.design.startswith("search")
    lacking = [] if searched else [spoken(name) for name in rules.metrics if name not in known]
    if lacking:
        yield (
            f"no noise floor yet of {', '.join(lacking)} for this recipe, scale and corpus: what these seeds can see "
            f"is not known; {_way_to_a_floor(plan)}"
        )


def _way_to_a_floor(plan: Plan) -> str:
    salted = {variant.id for variant in plan.variants if variant.setting.salt}
    if pairs := len({trial.seed for trial in plan.trials if trial.variant in salted}):
        return f"its A/A arm ({plural(pairs, 'pair')}) will give one"
    name = plan.variant(plan.baseline).name
    return f"noise: {{seeds: 6}} trains {name} again with another initialisation, once for all spaces that share them"


def _floor(floor: Floor) -> str:
    low, high = floor.sd_interval()
    what = "the differences have sd" if floor.scale == "linear" else "the log ratios have sd"
    return (
        f"noise floor of {spoken(floor.metric)} (A/A, {floor.whose}): {what} {significant(floor.sd)} "
        f"[{significant(low)}, {significant(high)}], n = {plural(floor.n, 'pair')}"
    )


def _seen(floor: Floor, plan: Plan, level: float, tests: int) -> str:
    seeds = plan.looks[-1] if plan.looks else len(plan.seeds)
    if seeds < 2:
        return f"{spoken(floor.metric)}: one seed has no spread to judge by, so nothing can be seen"
    if floor.sd == 0:
        return _signs(floor, seeds, level)
    at, low, high = (_size(floor, value) for value in floor.visible(seeds, level))
    between = " between two variants" if plan.factors else ""
    over = f" over {tests} comparisons" if tests > 1 else ""
    late = ", were it looked only at the last" if plan.looks else ""
    return (
        f"{spoken(floor.metric)}: {plural(seeds, 'seed')} find a difference of {at} [{low}, {high}]{between} "
        f"{100 * POWER:.0f} % of the time at level {level:.2g}{over}{late}; the interval is that of the sd"
    )


def _signs(floor: Floor, seeds: int, level: float) -> str:
    """Of a floor that does not vary: then differences may not either, and the sign test decides by their number."""
    least = seeds_for_signs(level)
    found = "find any difference" if math.isfinite(floor.visible(seeds, level)[0]) else "find nothing"
    return (
        f"{spoken(floor.metric)}: A/A arms do not vary, so the sign test decides: {plural(seeds, 'seed')} {found} at "
        f"level {level:.2g}, which takes {least}"
    )


def _narrow(floor: Floor, judged: Judged, level: float, mean: float | None) -> Iterator[str]:
    name = spoken(floor.metric)
    relative = not isinstance(judged.margin, float) and judged.margin.endswith("%") and judged.scale == "linear"
    if judged.margin == "none":
        return
    if relative and mean is None:
        yield f"{name}: a margin of {judged.margin} is no number before the baseline has a mean"
        return
    margin = absolute_margin(judged.margin, log=judged.scale == "log", baseline_mean=mean)
    if margin is None:
        return
    needed = floor.seeds_for_margin(margin, level)
    said = plural(needed, "seed") if needed is not None else f"more than {MOST_SEEDS} seeds"
    if floor.sd == 0:
        yield f"{name}: to find equivalence within {_size(floor, margin)} by the sign test takes {said}"
        return
    yield (
        f"{name}: a half-width of half the margin of {_size(floor, margin)} takes {said}, "
        f"from the {100 * SD_LEVEL:.0f} % upper limit of the sd"
    )


def _size(floor: Floor, value: float) -> str:
    return f"a factor {ratio(value)}" if floor.scale == "log" else significant(value)
