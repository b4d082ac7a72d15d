"""Contrasts: what a plan's comparisons test, so that one tested twice is counted once, and what identifies them.

A comparison is known again however it is asked: seeds, space, names, order, scale and direction are no part of its
key. Metrics that are functions of one another, such as loss and perplexity, are one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol, TypeAlias

from ablate.block.normal_form import digest
from ablate.plan.designs.design_matrix import coded, columns_of
from ablate.plan.plan import Alias, Comparison, Factors, PlannedLadder
from ablate.space.metrics import BITS, LOSSES, NATS, of_averaged_weights
from ablate.space.vary import LawKind
from ablate.verdict.experiment import RESULTS, Finals, Seed

NONE: Mapping[str, PlannedLadder] = MappingProxyType({})
CROSS = " × "


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of two variants (ids in alphabetical order: swapping before and after changes only the sign).

    `paired`: at one seed both see the same batches, so that runs are compared seed by seed.
    """

    first: str
    second: str
    paired: bool = True


@dataclass(frozen=True, slots=True)
class WeightedSum:
    weights: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class FactorialEffect:
    edits: tuple[str, ...]
    runs: tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class SpeedUpTrend:
    """The trend over sizes of a treatment's speed-up, under a law of the baseline's loss.

    `pairs` are the variants (ids) at each size, the baseline and the treatment.
    """

    pairs: tuple[tuple[str, str], ...]
    law: LawKind
    paired: bool = True


Contrast: TypeAlias = Difference | WeightedSum | FactorialEffect | SpeedUpTrend


def contrast(
    comparison: Comparison, factors: Mapping[str, Factors], ladders: Mapping[str, PlannedLadder] = NONE
) -> Contrast:
    """The contrast of a comparison; ValueError for an effect that its factorial does not estimate."""
    if comparison.kind == "trend":
        ladder = ladders[comparison.terms]
        return trend_of(ladder, ladder.treatment_of(comparison.change), paired=not comparison.unpaired)
    if comparison.weights:
        return WeightedSum(comparison.weights)
    if comparison.before and comparison.after:
        first, second = sorted((comparison.before, comparison.after))
        return Difference(first, second, paired=not comparison.unpaired)
    design = factors.get(comparison.terms)
    for edits in design.effects if design else ():
        if design and CROSS.join(edits) == comparison.change:
            return FactorialEffect(edits, design.runs)
    raise ValueError(f"{comparison.change!r} is not an effect of this plan's factorial under {comparison.terms!r}")


def trend_of(ladder: PlannedLadder, treatment: str, *, paired: bool) -> SpeedUpTrend:
    steps = [dict(step.variants) for step in ladder.steps]
    pairs = tuple((variants[ladder.baseline], variants[treatment]) for variants in steps)
    return SpeedUpTrend(pairs, ladder.law, paired=paired)


def is_tested_on(question: Contrast, metric: str) -> bool:
    """A speed-up is tested on losses alone."""
    return not isinstance(question, SpeedUpTrend) or metric in LOSSES


class ContrastSource(Protocol):
    """A source of comparisons: a plan, or an experiment."""

    @property
    def comparisons(self) -> tuple[Comparison, ...]: ...

    @property
    def factors(self) -> tuple[tuple[str, Factors], ...]:
        """The runs of its factorials, by the name of their terms."""

    @property
    def ladders(self) -> tuple[tuple[str, PlannedLadder], ...]:
        """The sizes of its ladders, by the name of their terms."""


def contrasts(design: ContrastSource) -> tuple[Contrast | None, ...]:
    """The contrast of each comparison, in order; None for noise, which is not judged."""
    factors, ladders = dict(design.factors), dict(design.ladders)
    return tuple(
        None if comparison.kind == "noise" else contrast(comparison, factors, ladders)
        for comparison in design.comparisons
    )


def family_size(design: ContrastSource, metrics: Iterable[str] = (NATS,), *, page: bool = False) -> int:
    """The number of distinct contrasts tested on these metrics together (`page`), or on the one that has the most."""
    questions = [question for question in dict.fromkeys(contrasts(design)) if question is not None]
    each = [sum(is_tested_on(question, metric) for question in questions) for metric in metrics]
    return sum(each) if page else max(each, default=0)


# The key of a comparison: its contrast, and how its variants are trained.

KEY_DIGITS = 16

FUNCTIONS: Mapping[str, str] = {"perplexity": NATS}  # metrics that rise with another one, by name
UNDER_ONE_TOKENIZER: Mapping[str, str] = {BITS: NATS, of_averaged_weights(BITS): of_averaged_weights(NATS)}
"""Metrics that do so where all texts are in the same tokens."""


@dataclass(frozen=True, slots=True)
class Unit:
    """The holder of an account: a comparison, by its key, on a metric and all that are functions of it."""

    comparison: str
    measured: str


def comparison_key(
    question: Contrast, trained: Mapping[str, str], factors: Mapping[object, Factors]
) -> tuple[str, int]:
    """The key of a contrast whose variants are `trained` as these hashes say, and the sign with which it stands there.

    The same key has either direction. `factors` are by their runs.
    """
    if isinstance(question, Difference | SpeedUpTrend):
        return digest([_of_variants(question), sorted(trained.items())], KEY_DIGITS), 1
    kind = "sum" if isinstance(question, WeightedSum) else "effect"
    weights = question.weights if isinstance(question, WeightedSum) else weights_of(question, factors[question.runs])
    ordered = sorted(weights)
    largest = max((abs(weight) for _, weight in ordered), default=1.0) or 1.0
    sign = next((1 if weight > 0 else -1 for _, weight in ordered if weight), 1)
    unsigned = [(variant, round(sign * weight / largest, 9)) for variant, weight in ordered]
    return digest([[kind, unsigned], sorted(trained.items())], KEY_DIGITS), sign


def comparison_id(question: Contrast) -> str:
    """The id of a comparison within a plan: the same if before and after are swapped."""
    if isinstance(question, FactorialEffect):
        return digest(["effect", question.edits, sorted(question.runs)], KEY_DIGITS)
    return digest(_of_variants(question), KEY_DIGITS)


def _of_variants(question: Difference | WeightedSum | SpeedUpTrend) -> list[object]:
    if isinstance(question, Difference):
        return ["difference", question.first, question.second]
    if isinstance(question, WeightedSum):
        return ["sum", sorted(question.weights)]
    return ["trend", question.pairs, question.law]


def weights_of(question: FactorialEffect, factors: Factors) -> list[tuple[str, float]]:
    """The effect's column of the design at each run, by the run's variant."""
    names = [column.name for column in columns_of(factors)]
    places = [names.index(name) for name in question.edits]
    column = coded(factors, [levels for _, levels in question.runs])[:, places].prod(axis=1)
    return [(variant, weight) for (variant, _), weight in zip(question.runs, column.round(9).tolist(), strict=True)]


# A design as its questions are told apart: its contrasts, how its variants are trained and measured, and its runs.


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A contrast: its key, and the sign with which it stands there.

    `trained` has the hash of how each of its variants is trained, `corpora` those of the tokens they are trained on.
    """

    key: str
    sign: int = 1
    trained: Mapping[str, str]
    corpora: frozenset[str]

    def on(self, metric: str) -> Unit:
        """The holder of this contrast's account on a metric."""
        functions = FUNCTIONS if len(self.corpora) > 1 else {**FUNCTIONS, **UNDER_ONE_TOKENIZER}
        return Unit(self.key, functions.get(metric, metric))


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRun:
    """A run that verdicts are given on: its variant, its seed, and its id among final metrics."""

    variant: str
    seed: Seed
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedDesign:
    """The identity of the questions of a design: of a plan, or of a table of runs.

    `trained` is the hash of how each variant is trained, by its id, and `compared` has the key of each contrast.
    `evaluation` and `every` say how runs are measured: by how many windows, or for a table by which method they are
    judged, and how often metrics are read. The rest is as in `plan.Plan`.
    """

    baseline: str
    comparisons: tuple[Comparison, ...]
    factors: tuple[tuple[str, Factors], ...] = ()
    ladders: tuple[tuple[str, PlannedLadder], ...] = ()
    seeds: tuple[Seed, ...]
    looks: tuple[int, ...] = ()
    trained: Mapping[str, str]
    compared: Mapping[Contrast, Compared]
    runs: Sequence[JudgedRun]
    evaluation: object = None
    every: object = None

    def without_result(self, finals: Finals, seeds: Sequence[Seed]) -> tuple[tuple[str, Seed], ...]:
        among = {(run.variant, run.seed): finals.get(run.id) for run in self.runs if run.seed in seeds}
        return tuple(sorted((run for run, f in among.items() if f and f["status"] not in RESULTS), key=str))

    def with_result(self, finals: Finals) -> frozenset[tuple[str, Seed]]:
        ended = {(run.variant, run.seed): finals.get(run.id) for run in self.runs}
        return frozenset(run for run, final in ended.items() if final and final["status"] in RESULTS)


# Aliases: which other effects of one to three edits enter the estimate of a factorial's effect, and how often.

MOST_ALIASES = 8  # the most aliases listed for one effect, largest coefficients first; further ones are only counted


def alias_rows(factors: Factors) -> tuple[tuple[str, str], ...]:
    """Rows such as `a × b, -0.5 times c × d` of each effect that has aliases."""
    rows = []
    for effect in factors.effects:
        aliases = [alias for alias in factors.aliases if alias.term == effect]
        aliases.sort(key=lambda alias: abs(alias.times), reverse=True)
        texts = [_alias_text(alias) for alias in aliases[:MOST_ALIASES]]
        if len(aliases) > MOST_ALIASES:
            texts.append(f"and {len(aliases) - MOST_ALIASES} more")
        if texts:
            rows.append((CROSS.join(effect), ", ".join(texts)))
    return tuple(rows)


def _alias_text(alias: Alias) -> str:
    other = CROSS.join(alias.other)
    return other if alias.times == 1 else f"{alias.times:.3g} times {other}"
