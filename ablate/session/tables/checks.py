"""Checks of a table against what is asked of it: columns, variants, partners, and runs enough for ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise

from ablate.output.words import plural
from ablate.session.tables.question import TableQuestion, is_once
from ablate.session.tables.runs import TableRuns
from ablate.source.problems import Problems, quote
from ablate.space.documents import Judged
from ablate.statistics import least_p
from ablate.statistics.alpha_spending import KEPT, spent
from ablate.store.run_logs import RUN
from ablate.store.table_files import Table
from ablate.verdict.seeds import Seed

TWO_SAMPLES = "--unpaired judges two variants as two samples, by Welch's t"
BY_FLOOR = "--floor names a variant of several runs, or --sd a number, by whose noise single runs are judged"


def in_order(question: TableQuestion, variants: Sequence[str]) -> tuple[str, ...]:
    """Return the variants with the baseline first."""
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
    """Note that no run has a partner: then a column pairs nothing, or runs are two samples."""
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
    """Note what ranks cannot say: that two variants are equivalent, and that so few runs differ."""
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
    level = (1 - question.confidence) * spent(KEPT ** (judgement - 1)) / max(1, len(pairs))
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
