"""Table experiment: a table of runs read as variants, the comparisons between them, and the ends of their runs.

Every mistake in the table is reported at once, each at its line.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from statistics import fmean

from ablate.output.words import listed, plural
from ablate.plan.plan import Comparison
from ablate.report.effect_tables import GROUPS
from ablate.session.table_columns import TableQuestion, TableRun, is_once, read_metrics, read_states
from ablate.session.table_runs import TableRunEnd, TableRuns, read_runs
from ablate.source.problems import Problems, quote
from ablate.space.judge import Judge, Judged
from ablate.statistics import KnownNoise, least_p
from ablate.statistics.multiple_testing import SHARE_LEFT, spent
from ablate.store.foreign_tables import RUN, Table
from ablate.verdict.experiment import Experiment, Final, Finals, Seed, Treatment

NOT_THERE = "not_in_the_table"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableExperiment:
    experiment: Experiment
    rules: Judge
    finals: Finals


def read_experiment(table: Table, question: TableQuestion, *, judgement: int = 1) -> TableExperiment:
    """Read a table as the experiment of this `judgement`; InputError with every mistake in it."""
    problems = Problems()
    if not table.rows:
        problems.add(f"{table.name} has no rows", notes=("a row is a run: its variant, its seed, its metrics",))
        problems.raise_if_any()
    columns_there = has_columns(table, question, problems)
    metrics = read_metrics(table, question, problems)
    if not 0.5 < question.confidence < 1:
        notes = ("give one between 0.5 and 1, such as 0.95",)
        problems.add(f"the confidence cannot be {question.confidence:g}", notes=notes)
    states = read_states(table, question, problems)
    check_strata(question, metrics, problems)
    if not columns_there:
        problems.raise_if_any()
    runs = read_runs(table, question, metrics, states, problems)
    variants = tuple(dict.fromkeys(run.variant for run in runs.ends))
    check_variants(table, question, variants, problems)
    if question.path and question.groups:
        problems.add("--path and --groups are two designs", notes=("--path judges steps, --groups all pairs",))
    if not len(problems) and question.in_pairs:
        check_partners(table, question, variants, runs, problems)
    if question.ranks and not len(problems):
        check_ranks(question, metrics, variants, runs, judgement, problems)
    strata: Mapping[Seed, str] = {}
    if question.within is not None and not len(problems):
        stratified = in_strata(runs, metrics, question, question.baseline or variants[0])
        runs, strata = stratified.runs, stratified.strata
        if question.inference == ALIKE:  # the strata are partners, whatever their runs are
            question = replace(question, unpaired=False, pair=question.within)
    noise = {} if len(problems) else noise_of(table, question, metrics, runs, problems)
    problems.raise_if_any()
    rules = Judge(
        metrics=metrics,
        against=question.baseline or variants[0],
        confidence=question.confidence,
        family=question.family,
    )
    experiment, finals = _experiment(table, question, runs, variants, noise, strata)
    return TableExperiment(experiment=experiment, rules=rules, finals=finals)


def _experiment(
    table: Table,
    question: TableQuestion,
    runs: TableRuns,
    variants: tuple[str, ...],
    noise: Mapping[str, KnownNoise],
    strata: Mapping[Seed, str],
) -> tuple[Experiment, Finals]:
    seeds = tuple(sorted({run.seed for run in runs.ends}))
    trials: dict[str, dict[Seed, str]] = {
        variant: {} if not question.in_pairs else {seed: json.dumps([variant, seed]) for seed in seeds}
        for variant in variants
    }
    for run in runs.ends:
        trials[run.variant][run.seed] = json.dumps([run.variant, run.seed])
    absent: Final = {"status": NOT_THERE, "step": 0, "metrics": {}}
    finals = {id: absent for of in trials.values() for id in of.values()}
    finals |= {trials[run.variant][run.seed]: end.final for run, end in runs.ends.items()}
    order = in_order(question, variants) if question.path else variants
    experiment = Experiment(
        space=table.name,
        question="",
        design=f"{_design(question)}, variants by {question.by}, {_unit(question)}",
        baseline=question.baseline or variants[0],
        variants=tuple(
            Treatment(id=variant, name=variant, edits=order[1 : order.index(variant) + 1] if question.path else ())
            for variant in order
        ),
        comparisons=tuple(_comparisons(order, question.baseline or variants[0], question)),
        seeds=seeds,
        trials=trials,
        notes=tuple(_notes(table, question, runs, variants[0])),
        elsewhere=True,
        noise=noise,
        strata=strata,
        by_ranks=question.ranks,
    )
    return experiment, finals


def _unit(question: TableQuestion) -> str:
    if question.inference == ALIKE:
        return f"paired by {question.within}"
    paired = f"paired by {question.pair}" if question.in_pairs else "not paired"
    return paired if question.within is None else f"{paired}, within each {question.within}"


def _design(question: TableQuestion) -> str:
    return "path" if question.path else GROUPS if question.groups else "compare"


def _comparisons(order: Sequence[str], baseline: str, question: TableQuestion) -> Iterator[Comparison]:
    unpaired = () if question.in_pairs else ("runs without partners",)
    others = [variant for variant in order if variant != baseline]
    for before, after in pairwise(order) if question.path else ():
        change = f"{before} → {after}"
        yield Comparison(kind="edit", change=change, detail="", before=before, after=after, unpaired=unpaired)
    for variant in others:
        yield Comparison(kind="baseline", change=variant, detail="", before=baseline, after=variant, unpaired=unpaired)
    for before, after in combinations(others, 2) if question.groups else ():
        change = f"{after} against {before}"
        yield Comparison(kind="edit", change=change, detail="", before=before, after=after, unpaired=unpaired)


def _notes(table: Table, question: TableQuestion, runs: TableRuns, first: str) -> Iterator[str]:
    there = question.pair in table.columns
    seeds = f"; its column {question.pair} is called seed here" if there and question.pair != "seed" else ""
    rows = "" if len(runs.ends) == len(table.rows) else f", in {plural(len(table.rows), 'row')}"
    many = plural(len(runs.ends), "run")
    if question.inference == ALIKE:
        many = f"{len(runs.ends):,} means, of a variant in a {question.within} each,"
    yield f"{many} of {table.name}{rows}{seeds}"
    if question.baseline is None:
        yield f"the baseline is {first}, the first in the table; --baseline names another"
    yield from runs.notes


# The noise that single runs of a table are judged by: that of a variant with several runs, or a given number


def noise_of(
    table: Table, question: TableQuestion, metrics: Mapping[str, Judged], runs: TableRuns, problems: Problems
) -> dict[str, KnownNoise]:
    group, sd = question.floor, question.sd
    if group is not None and sd is not None:
        problems.add("--floor and --sd both say what the noise is", notes=("give one of them",))
    elif sd is not None:
        if not (0 < sd < math.inf and len(metrics) == 1):
            why = "it is of one metric" if len(metrics) > 1 else "a standard deviation is above 0"
            problems.add(f"--sd {sd:g}: {why}", notes=("--floor names a variant whose runs tell that of each metric",))
            return {}
        of = {
            name: f" of logarithms (×÷ {math.exp(min(sd, 700)):.3g})" for name, j in metrics.items() if j.scale == "log"
        }
        return {
            name: KnownNoise(sd=sd, df=math.inf, whose=f"a given sd of {sd:g}{of.get(name, '')}") for name in metrics
        }
    if group is None or sd is not None:
        return {}
    ends = [end.final["metrics"] for run, end in runs.ends.items() if run.variant == group]
    if not ends:
        known = list(dict.fromkeys(run.variant for run in runs.ends))
        message = f"no {question.by} {quote(group)} in {table.name}"
        problems.add_unknown(message, None, group, known, "--floor is one of")
    noise: dict[str, KnownNoise] = {}
    for name, judged in metrics.items() if ends else ():
        values, log = [metric[name] for metric in ends if name in metric], judged.scale == "log"
        try:
            measured = KnownNoise.of(values, log=log)
        except ValueError:
            few = f"{group} has {plural(len(values), 'run')} with a {name}"
            same = f"the {len(values)} runs of {group} have the same {name}" if len(values) > 1 else few
            problems.add(f"--floor {group}: {same}, which tells no noise", notes=("--sd gives it as a number",))
        else:
            shown = f"×÷ {math.exp(measured.sd):.3g}" if log else f"{measured.sd:.2g}"
            noise[name] = replace(measured, whose=f"the noise of {plural(len(values), 'run')} of {group}, sd {shown}")
    return noise


# Checks of a table against what is asked of it: columns, variants, partners, and runs enough for ranks

TWO_SAMPLES = "--unpaired judges two variants as two samples, by Welch's t"
BY_FLOOR = "--floor names a variant of several runs, or --sd a number, by whose noise single runs are judged"


def in_order(question: TableQuestion, variants: Sequence[str]) -> tuple[str, ...]:
    baseline = question.baseline or variants[0]
    return (baseline, *(variant for variant in variants if variant != baseline))


def has_columns(table: Table, question: TableQuestion, problems: Problems) -> bool:
    by, pair = question.by, question.pair
    named = [cell for cell in table.cells(RUN) if isinstance(cell, str)] if RUN in table.columns else []
    parts = f"{{{by}}}/{{{pair}}}" if named and "/" in named[0] else f"{{{by}}}-s{{{pair}:d}}"
    ways = (f'--name takes names of runs apart: "{parts}" one like {quote(named[0])}',) if named else ()
    there = [is_once(table, by, "--by", problems, *ways)]
    if question.within is not None:
        there.append(is_once(table, question.within, "--within", problems))
    if pair in table.columns or question.in_pairs:
        there.append(is_once(table, pair, "--pair", problems, TWO_SAMPLES, BY_FLOOR))
    if by == pair:
        problems.add(f"--by and --pair are both {quote(by)}", notes=("a variant has several seeds",))
    return all(there) and by != pair


def check_variants(table: Table, question: TableQuestion, variants: Sequence[str], problems: Problems) -> None:
    by, baseline = question.by, question.baseline
    if len(variants) == 1:
        ways = ("a verdict compares two or more", f"--by names another column of {', '.join(table.columns)}")
        problems.add(f"{table.name} has only one {by}: {quote(variants[0])}", notes=ways)
    if baseline is not None and variants and baseline not in variants:
        message = f"no {by} {quote(baseline)} in {table.name}"
        problems.add_unknown(message, None, baseline, variants, "--baseline is one of")


def check_partners(
    table: Table, question: TableQuestion, variants: Sequence[str], runs: TableRuns, problems: Problems
) -> None:
    seeds: dict[str, set[Seed]] = {variant: set() for variant in variants}
    for run in runs.ends:
        seeds[run.variant].add(run.seed)
    order = in_order(question, variants)
    pairs = [*((order[0], other) for other in order[1:]), *(pairwise(order) if question.path else ())]
    if any(seeds[before] & seeds[after] for before, after in pairs):
        return
    others = [column for column in table.columns if column not in (question.by, question.pair)]
    message = f"no run has a partner: no {question.pair} of {order[0]} is that of another {question.by}"
    ways = (TWO_SAMPLES, BY_FLOOR, f"or --pair names the column that pairs runs, of {', '.join(others)}")
    problems.add(message, table.place(0, question.pair), notes=ways)


def check_ranks(
    question: TableQuestion,
    metrics: Mapping[str, Judged],
    variants: Sequence[str],
    runs: TableRuns,
    judgement: int,
    problems: Problems,
) -> None:
    """Note that ranks cannot tell equivalence, nor differences of so few runs."""
    others = [("--within", question.within), ("--floor", question.floor), ("--sd", question.sd)]
    for option, value in others:
        if value is not None:
            problems.add(f"--ranks and {option} are two ways to judge", notes=("leave out one of them",))
    for name in (name for name, judged in metrics.items() if judged.margin != "none"):
        message = f"--ranks says nothing of a margin of {name}: ranks have no size"
        problems.add(message, notes=("leave out the margin, or judge means: --unpaired",))
    order = in_order(question, variants)
    pairs = [(a, b) for a, b in combinations(order, 2) if question.groups or a == order[0]]
    pairs += [(a, b) for a, b in pairwise(order[1:]) if question.path]
    level = (1 - question.confidence) * spent(SHARE_LEFT ** (judgement - 1)) / max(1, len(pairs))
    for name, judged in metrics.items():
        sides = Counter(
            run.variant
            for run, end in runs.ends.items()
            if name in end.final["metrics"] or (end.final["status"] == "diverged" and judged.better != "none")
        )
        least = {(a, b): least_p(sides[a], sides[b]) for a, b in pairs if sides[a] and sides[b]}
        if least and min(least.values()) >= level:
            (a, b), p = min(least.items(), key=lambda entry: entry[1])
            few = f"{plural(sides[a], 'run')} of {a} and {sides[b]} of {b}"
            among = f", for one of {len(pairs)} comparisons" if len(pairs) > 1 else ""
            message = f"--ranks: {few} have no p of {name} below {p:.2g}, where {level:.2g} is needed{among}"
            enough = next(n for n in range(2, 100) if least_p(n, n) < level)
            ways = (f"{enough} runs a side can have it", "--unpaired judges their means, by Welch's t")
            problems.add(message, notes=ways)


# Strata of a table, such as games or tasks: variants are compared within each, on a scale of its own.
#
# Scores of strata differ in size by more than variants do, so those of a stratum are divided by their mean size in it,
# over all variants alike; ratios (`:log`) need no scale. One of two things is asked, and must be said:
#
#     --inference these   the mean over these strata: runs vary within each (`statistics/t_tests.py`)
#     --inference alike   that of strata like these: what a variant does in one is a single number, and strata vary

THESE, ALIKE = "these", "alike"
WAYS = (
    f"--inference {THESE}: over these strata alone, whose runs vary",
    f"--inference {ALIKE}: over strata like these, each of which is one number",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StratifiedRuns:
    """Runs on the scale of their stratum; `strata` has that of each seed, where runs are the unit."""

    runs: TableRuns
    strata: Mapping[Seed, str]


def check_strata(question: TableQuestion, metrics: Mapping[str, Judged], problems: Problems) -> None:
    for option, value in (("--floor", question.floor), ("--sd", question.sd)):
        if question.within is not None and value is not None:
            message = f"{option} and --within are two ways to judge"
            problems.add(message, notes=("a floor is of runs on one scale: leave out one of them",))
    for name, judged in metrics.items() if question.within is not None else ():
        if judged.scale != "log" and isinstance(judged.margin, float):
            message = f"a margin of {judged.margin:g}: numbers of {name} are divided by their mean size in each stratum"
            problems.add(message, notes=("give a share of the baseline's mean, such as 1%",))
    if question.within is None and question.inference is not None:
        problems.add("--inference is about strata", notes=("--within names their column, or leave it out",))
    elif question.within is not None and question.inference not in (THESE, ALIKE):
        problems.add(f"--within {question.within}: what is asked about its strata?", notes=WAYS)


def in_strata(runs: TableRuns, metrics: Mapping[str, Judged], question: TableQuestion, baseline: str) -> StratifiedRuns:
    scaled = _scaled(runs, metrics)
    if question.inference == ALIKE:
        joined = _together(scaled, runs.strata, metrics)
        own = {run.seed: str(run.seed) for run in joined}
        notes = (*runs.notes, *_stratum_notes(joined, own, metrics, question, baseline))
        return StratifiedRuns(runs=TableRuns(ends=joined, notes=notes), strata={})
    notes = (*runs.notes, *_stratum_notes(scaled, runs.strata, metrics, question, baseline))
    return StratifiedRuns(runs=replace(runs, ends=scaled, notes=notes), strata=runs.strata)


def _scaled(runs: TableRuns, metrics: Mapping[str, Judged]) -> dict[TableRun, TableRunEnd]:
    sizes: dict[tuple[str, str], list[float]] = {}
    for run, end in runs.ends.items():
        for name, value in end.final["metrics"].items():
            sizes.setdefault((runs.strata[run.seed], name), []).append(abs(value))

    def scale(run: TableRun, name: str) -> float:
        return 1.0 if metrics[name].scale == "log" else fmean(sizes[runs.strata[run.seed], name]) or 1.0

    def of(run: TableRun, end: TableRunEnd) -> TableRunEnd:
        values = {name: value / scale(run, name) for name, value in end.final["metrics"].items()}
        final: Final = {**end.final, "metrics": values}
        return replace(end, final=final)

    return {run: of(run, end) for run, end in runs.ends.items()}


def _together(
    ends: Mapping[TableRun, TableRunEnd], strata: Mapping[Seed, str], metrics: Mapping[str, Judged]
) -> dict[TableRun, TableRunEnd]:
    """A run for each variant and stratum: the mean of those that finished, unless one diverged."""
    groups: dict[tuple[str, str], list[tuple[TableRun, TableRunEnd]]] = {}
    for run, end in ends.items():
        groups.setdefault((run.variant, strata[run.seed]), []).append((run, end))
    joined: dict[TableRun, TableRunEnd] = {}
    for (variant, stratum), group in groups.items():
        run = TableRun(variant=variant, seed=stratum, rows=tuple(row for run, _ in group for row in run.rows))
        lost = next((end for _, end in group if end.final["status"] == "diverged"), None)
        done = [end.final["metrics"] for _, end in group if end.final["status"] == "finished"]
        if lost is not None or not done:
            joined[run] = lost or group[0][1]
            continue
        names = dict.fromkeys(name for values in done for name in values)
        means = {name: _mean([values[name] for values in done if name in values], metrics[name]) for name in names}
        joined[run] = TableRunEnd(final={"status": "finished", "step": 0, "metrics": means})
    return joined


def _mean(values: Sequence[float], judged: Judged) -> float:
    """The mean of some runs; the geometric one where ratios are judged."""
    return math.exp(fmean(map(math.log, values))) if judged.scale == "log" else fmean(values)


def _stratum_notes(
    ends: Mapping[TableRun, TableRunEnd],
    strata: Mapping[Seed, str],
    metrics: Mapping[str, Judged],
    question: TableQuestion,
    baseline: str,
) -> Iterator[str]:
    linear = [name for name, judged in metrics.items() if judged.scale != "log"]
    if linear:
        yield f"{listed(linear)} of each {question.within} divided by its mean size there, over all runs"
    values: dict[tuple[str, str], dict[Seed, float]] = {}
    for run, end in ends.items():
        for name, value in end.final["metrics"].items() if end.final["status"] == "finished" else ():
            values.setdefault((name, run.variant), {})[run.seed] = value
    for name, judged in metrics.items():
        before = values.get((name, baseline), {})
        for variant in dict.fromkeys(run.variant for run in ends if run.variant != baseline):
            after = values.get((name, variant), {})
            shared = before.keys() & after.keys() if question.in_pairs or question.inference == ALIKE else None
            shown = ", ".join(_stratum_differences(before, after, shared, strata, judged))
            yield f"{variant} against {baseline}, {name} in each {question.within}: {shown}"


def _stratum_differences(
    before: Mapping[Seed, float],
    after: Mapping[Seed, float],
    shared: Set[Seed] | None,
    strata: Mapping[Seed, str],
    judged: Judged,
) -> Iterator[str]:
    for stratum in dict.fromkeys(strata.values()):
        sides = [
            [value for seed, value in side.items() if strata[seed] == stratum and (shared is None or seed in shared)]
            for side in (before, after)
        ]
        if not all(sides):
            yield f"{stratum} not on both sides"
            continue
        x, y = (_mean(side, judged) for side in sides)
        yield f"{stratum} ×{y / x:.3g}" if judged.scale == "log" else f"{stratum} {y - x:+.3g}"
