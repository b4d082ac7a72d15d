"""The plan as a screen: the variants, how many trials are to run, and what they can detect."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping, Sequence

import numpy as np

from ablate.output import words
from ablate.output.words import listed, plural, ratio, significant, spoken
from ablate.plan.designs.design_matrix import MEAN, coded, columns, fitted_terms
from ablate.plan.plan import Factors, Plan, Variant
from ablate.report import footnotes, wording
from ablate.report.claims import short_date
from ablate.report.document import BulletList, Grid, Part, Prose, ReportDocument, StyledText, TableOf, Words
from ablate.report.forecasts import definitions, warnings, with_interval
from ablate.space.judge import Judge, Judged
from ablate.statistics import MOST_SEEDS, POWER, SD_LEVEL, Floor, power_of, seeds_for_signs
from ablate.verdict.contrasts import alias_rows
from ablate.verdict.hypothesis_test import absolute_margin
from ablate.verdict.judgement import Account, judgement_notes, judgement_of, metric_families
from ablate.verdict.power import CORRELATION, ClaimPower, Interval, claim_powers
from ablate.verdict.summary import Stamp

NOTED = "aliases in the estimates"
HEADINGS = ("cosine\nat the\nend", "gradient\nfirst/\nlast")
LISTED_IN_FULL = 3  # number of edits of a variant up to which the plan always lists them one by one
MOST_LEFT_OUT = 2
"""A variant that has all edits of another except up to this many is described as that one without these."""


def plan_screen(
    plan: Plan,
    known: Container[str],
    *,
    seconds: float | None = None,
    rules: Judge | None = None,
    floors: Sequence[Floor] = (),
    means: Mapping[str, float] | None = None,
    account: Account | None = None,
    titled: bool = True,
    failed: Mapping[str, str] | None = None,
    retry: str = "",
    told: Container[str] = (),
    mixed: Sequence[str] = (),
    stamps: Sequence[Stamp] = (),
) -> ReportDocument:
    """A row for each variant, and the number of trials that are to run or `known` (ids in the store).

    `failed` are the known without a result, by the kind of outcome; `retry` is the command that retries them. `seconds`
    is the expected time for the rest, or None. The `rules` of the judge, the noise `floors`, the baseline's `means`
    (for margins that are shares) and the `account` of earlier judgements give the power of the plan. Sentences on
    forecasts that were `told` before are left out. `stamps` are the dates of its claims, `mixed` the versions in which
    its trials differ.
    """
    failed = failed or {}
    kinds = [failed[trial.id] for trial in plan.trials if trial.id in failed]
    again = [f"failed trials are not rerun automatically; to retry them: {retry}"] if kinds and retry else []
    to_run = sum(trial.id not in known for trial in plan.trials)
    said = {"beware": warnings(plan), "remarks": definitions(plan)}
    ahead = {kind: [line for line in lines if line not in told] for kind, lines in said.items()}
    parts: list[Part] = [
        TableOf(_variants(plan, known, failed), titled=False),
        Prose(_totals(plan, to_run, seconds, kinds)),
        BulletList((*mixed, *footnotes.warnings(_beside_aliases(plan)), *again, *ahead["beware"]), "beware"),
        BulletList((*footnotes.information(plan.notes), *ahead["remarks"]), "remarks"),
        *map(TableOf, _aliases(plan.factors)),
    ]
    if rules is not None:
        given = (floors, means or {}, account or {})
        parts.append(BulletList(tuple(floor_lines(plan, rules, *given)), "power"))
        if rules.expect:
            parts.append(BulletList(tuple(claim_lines(claim_powers(plan, rules, *given), stamps, plan.space)), "power"))
    title = plan.question.strip() or plan.space if titled else ""
    about = " · ".join((plan.space, plan.design, *words.of_profile(plan.profile)))
    return ReportDocument(title=title, about=(about,), parts=tuple(parts))


def _variants(plan: Plan, known: Container[str], failed: Container[str]) -> Grid:
    rows, shown, forecasts = [], _edits_of(plan), dict(plan.forecasts)
    forecast = any(not each.refused for each in forecasts.values())
    edited = any(variant.edits for variant in plan.variants)  # a design that compares whole blocks applies none
    for variant in plan.variants:
        trials = [trial.id for trial in plan.trials if trial.variant == variant.id]
        name = [StyledText(variant.name, "strong")]
        name += [StyledText("  baseline", "faint")] * (variant.id == plan.baseline)
        name += [StyledText(f"\nsame as {other}", "faint") for other in variant.names[1:]]
        edits: Words = "\n".join(shown[variant.id]) or (StyledText("none", "faint"),)
        new = str(sum(trial not in known for trial in trials))
        size = (f"{variant.parameters:,}", f"{variant.flops / 1e6:,.1f} M")
        ahead = forecasts.get(variant.id) if forecast else None
        initial: tuple[str, ...] = ()
        if ahead is not None:
            cosine = with_interval(ahead.cosine, ahead.cosine_interval, relative=False)
            initial = (cosine, with_interval(ahead.gradient, ahead.gradient_interval, relative=True))
        lost = sum(trial in failed for trial in trials)
        known_ones = f"{sum(trial in known for trial in trials)}" + (f", {lost} failed" if lost else "")
        rows.append((tuple(name), *([edits] if edited else []), *size, *initial, new, known_ones))
    names = ("variant", "edits applied") if edited else ("variant",)
    after_name = ("parameters", "FLOPs per\nsequence", *(HEADINGS if forecast else ()), "to run", "known")
    return Grid(
        title="Variants",
        note="what is to be trained",
        heading=(*names, *after_name),
        rows=tuple(rows),
        numbers=tuple(range(len(names), len(names) + len(after_name))),
    )


def _aliases(designs: Sequence[tuple[str, Factors]]) -> Iterator[Grid]:
    tables = dict.fromkeys((factors.resolution, rows) for _, factors in designs if (rows := alias_rows(factors)))
    for resolution, rows in tables:
        note = f"resolution {resolution}" if resolution else "confounded effects"
        yield Grid(title="Aliases", note=note, heading=("effect", "its estimate also contains"), rows=rows)


def _beside_aliases(plan: Plan) -> list[str]:
    tabled = any(alias_rows(factors) for _, factors in plan.factors)
    return [note for note in plan.notes if not (tabled and note.startswith(NOTED))]


def _edits_of(plan: Plan) -> dict[str, tuple[str, ...]]:
    """The edits of each variant by its id: in full, or, if many, as another variant's except some."""
    shown: dict[str, tuple[str, ...]] = {}
    full: list[Variant] = []
    for variant in sorted(plan.variants, key=lambda variant: len(variant.edits), reverse=True):
        left = [(other, [edit for edit in other.edits if edit not in variant.edits]) for other in full]
        near = [(o, gone) for o, gone in left if len(gone) <= MOST_LEFT_OUT and set(variant.edits) <= set(o.edits)]
        if len(variant.edits) <= LISTED_IN_FULL or not near:
            shown[variant.id] = variant.edits
            full.append(variant)
            continue
        other, gone = min(near, key=lambda pair: len(pair[1]))
        shown[variant.id] = (f"all of {other.name}{f' except {words.listed(gone)}' if gone else ''}",)
    return shown


def _totals(plan: Plan, to_run: int, seconds: float | None, failed: Sequence[str]) -> Words:
    trials = StyledText(words.plural(len(plan.trials), "trial"), "strong")
    seeds = words.plural(len(plan.seeds), "seed")
    return trials, StyledText(f" over {seeds}: {_to_run(plan, to_run, seconds, failed)}")


def _to_run(plan: Plan, to_run: int, seconds: float | None, failed: Sequence[str]) -> str:
    if plan.open and plan.design.startswith("search"):
        time = "" if seconds is None else f"; training at most about {words.duration(seconds)}"
        return f"the reference; what else a search trains is decided as it goes{time}"
    more = " for now" if plan.open else ""
    follows = f"; {to_come(plan)}" if plan.open and to_come(plan) else ""
    if to_run == 0 and any(variant.setting.open for variant in plan.variants):
        return f"nothing to run until seconds per step are measured{follows}"
    of_known = f", of which {wording.failed(failed)}" if failed else ""
    if to_run == 0:
        known = f"{len(plan.trials)} known already{of_known}" if failed else "all known already"
        return f"{known}, nothing to run{more}{follows}"
    time = "time unknown until a trial is measured" if seconds is None else f"training about {words.duration(seconds)}"
    return f"{to_run} to run{more}, {len(plan.trials) - to_run} known already{of_known}; {time}{follows}"


# The trials that follow those a plan lists now: the verdict after tuning, further interim analyses.


def to_come(plan: Plan) -> str:
    return "; ".join(_to_come(plan))


def _to_come(plan: Plan) -> Iterator[str]:
    trained = [variant for variant in plan.variants if not variant.setting.salt]
    tuning = sum(trial.split == "tuning" for trial in plan.trials)
    seeds = plan.looks[-1] if plan.looks else len(plan.seeds)
    verdict = {(trial.variant, trial.seed) for trial in plan.trials if trial.split == "verdict"}
    verdict |= {(variant.id, seed) for variant in trained for seed in (range(seeds) if plan.looks else plan.seeds)}
    arm = any(variant.setting.salt for variant in plan.variants)
    unlisted = arm and not any(plan.variant(trial.variant).setting.salt for trial in plan.trials)
    beside = ", and those of the A/A arm" * unlisted
    if plan.open and tuning and not any(trial.split == "verdict" for trial in plan.trials):
        first = len(trained) * len(plan.seeds)
        yield f"{tuning} for tuning, then {'' if not plan.looks else 'at first '}{first} for the verdict{beside}"
    if plan.looks:
        looks = ", ".join(map(str, plan.looks))
        yield f"analyses at {looks} seeds; at most {plural(len(verdict) + tuning, 'trial')}{beside}"


# The power of each claim in words, on the plan: its chance of coming true, and of coming true by mistake.


def claim_lines(powers: Sequence[ClaimPower], stamps: Sequence[Stamp], here: str) -> Iterator[str]:
    """Yield the power of each claim of the space `here`, and when the claims were made; shared texts once."""
    known = [power for power in powers if not power.why]
    yield from map(_line, known)
    for tested in dict.fromkeys(_tested(power) for power in known if power.scale == CORRELATION):
        yield f"correlations are tested {tested}, apart from the rest, as if each seed drew its variants anew"
    for tested in dict.fromkeys(_tested(power) for power in known if power.scale != CORRELATION):
        yield f"claims are tested {tested}; their power is for the sd of the noise floor, its interval that of the sd"
    yield from _by_text(powers, [power.why for power in powers], "no power is known of")
    yield from _by_text(powers, [short_date(stamp, here) for stamp in stamps], "")


def _by_text(powers: Sequence[ClaimPower], texts: Sequence[str], of: str) -> Iterator[str]:
    for text in dict.fromkeys(filter(None, texts)):
        claims = [f"“{power.claim}”" for power, own in zip(powers, texts, strict=True) if own == text]
        noun = "claim" if len(claims) == 1 else "claims"
        yield f"{of} {noun} {listed(claims)}: {text}".lstrip()


def _tested(power: ClaimPower) -> str:
    over = f" over {power.tests} comparisons" if power.tests > 1 else ""
    return f"with {plural(power.n, 'seed')} at level {power.level:.2g}{over}"


def _line(power: ClaimPower) -> str:
    assert power.difference is not None and power.power is not None
    none = "none" if power.scale == CORRELATION else "no difference"
    nothing = "" if power.difference.at == 0 else f"{_share(power.if_nothing)} of the time at {none}, and "
    return (
        f"claim “{power.claim}” ({spoken(power.metric)}, {power.of}): {_powered(power)}; it comes true {nothing}"
        f"{_share(power.if_opposite)} of the time at {_opposite(power)}"
    )


def _powered(power: ClaimPower) -> str:
    assert power.difference is not None and power.power is not None
    size, chance = power.difference, power.power
    if power.scale == CORRELATION:
        return f"{_share(chance.at)} power for one of {size.at:g} at each seed"
    if size.at == 0:
        return f"{_interval(chance)} power at no difference"
    if size.low == size.high:
        what = "" if power.given else " (its margin)"
        return f"{_interval(chance)} power for a difference of {difference_in_words(size.at, power.scale)}{what}"
    between = f"[{difference_in_words(size.low, power.scale)}, {difference_in_words(size.high, power.scale)}]"
    return f"{100 * POWER:.0f} % power for a difference of {difference_in_words(size.at, power.scale)} {between}"


def _opposite(power: ClaimPower) -> str:
    assert power.opposite is not None and power.difference is not None
    if power.scale == CORRELATION:
        return "the opposite one"
    if power.difference.at == 0:
        return f"one of {difference_in_words(power.opposite, power.scale)}"
    return "one as large the other way"


def _interval(chance: Interval) -> str:
    return f"{_share(chance.at)} [{_share(chance.low)}, {_share(chance.high)}]"


def _share(chance: float | None) -> str:
    """Return a chance in percent, as exactly as it was simulated.

    >>> _share(0.5), _share(0.0004), _share(0.0), _share(1.0)
    ('50 %', 'less than 0.1 %', 'less than 0.1 %', 'more than 99.9 %')
    """
    assert chance is not None
    if chance < 0.001:
        return "less than 0.1 %"
    if chance > 0.999:
        return "more than 99.9 %"
    return f"{100 * chance:.2g} %" if chance < 0.1 else f"{100 * chance:.0f} %"


# The noise floor: the smallest difference that these seeds can detect, and the seeds that a margin needs.

PLANNED = (8, 12)  # seed counts for which the power of a factorial is reported, besides the plan's own


def floor_lines(
    plan: Plan, rules: Judge, floors: Sequence[Floor], means: Mapping[str, float], account: Account
) -> Iterator[str]:
    """Yield each judged metric's noise floor and the differences detectable above it; without one, how to get it.

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

    Its sd over seeds is 2σ√c, c its diagonal element of (XᵀX)⁻¹, were the edit to do the same at every seed. Trends,
    curvatures and levels of factors count as edits.
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
