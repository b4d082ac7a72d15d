"""Summary: the answer to a space's question as frozen values, from which every table, page and document is made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from ablate.output.words import interval, plural, spoken
from ablate.plan.plan import Factors
from ablate.space.metrics import BITS, LOSSES, NATS, Better, Direction, direction
from ablate.verdict.experiment import Seed

Method: TypeAlias = Literal[
    "student",
    "sign_flip",
    "sign",
    "repeated",
    "pooled",
    "worst_rank",
    "welch",
    "simulated_t",
    "floor",
    "strata",
    "mann_whitney",
]
"""The method that gave an interval and its p.

`student` t; `sign_flip` the p of sign flips, with the interval by t; `sign` the sign test, where differences do not
vary; `repeated` t at the level of one of several looks; `pooled` t with the lack of fit of a factorial at one seed as
the error; `welch` t of two samples that are not paired, `mann_whitney` their ranks; `floor` t by the noise of other
runs; `strata` t of a mean over strata; `simulated_t` t of a trend over sizes, against that of simulated ladders;
`worst_rank` the p of signed ranks over all seeds, with a diverged run worse than any number, beside the interval by t
over those that finished.
"""

Verdict: TypeAlias = Literal[
    Direction,
    "equivalent",
    "undecided",
    "diverged",
    "better_by_rank",
    "worse_by_rank",
    "higher_by_rank",
    "lower_by_rank",
]
"""`higher`, `lower`: of a metric without a better side. `better_by_rank` and the like: found by ranks over all seeds,
with a diverged run on a side; the difference shown beside it is over survivors, and may point the other way.
"""

BY_RANK: Mapping[Direction, Verdict] = {
    "better": "better_by_rank",
    "worse": "worse_by_rank",
    "higher": "higher_by_rank",
    "lower": "lower_by_rank",
}


def verdict_of(up: bool, better: Better, *, by_rank: bool) -> Verdict:
    """The verdict of a difference that was found, upwards or downwards, where that side is better.

    >>> verdict_of(False, "lower", by_rank=False), verdict_of(False, "none", by_rank=True)
    ('better', 'lower_by_rank')
    """
    found = direction(up, better)
    return BY_RANK[found] if by_rank else found


def minus(value: float | None) -> float | None:
    return None if value is None else -value


def better_of(kind: str, better: Better) -> Better:
    """A speed-up is better as it grows, whichever side is better of its metric."""
    return "higher" if kind == "trend" and better != "none" else better


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A judged metric. `margin` is absolute on the metric's scale; `stated` is the margin as the space has it.

    On the log scale values are natural logarithms, differences log ratios, and means geometric. Without a usable margin
    `why_no_margin` says why, and nothing can be equivalent.
    """

    name: str
    scale: Literal["linear", "log"]
    better: Better
    margin: float | None
    stated: str
    why_no_margin: str

    @property
    def log(self) -> bool:
        """True if differences are ratios."""
        return self.scale == "log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """The final values of the n finished seeds of a variant: mean (geometric on the log scale) and standard deviation.

    On the log scale `sd` is that of the natural logarithms. It is None for a single seed.
    """

    mean: float
    sd: float | None
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One variant and the outcomes of its trials. `missing` has the seeds without a result, and why.

    `flops` are those of a forward pass over one sequence, `training_flops` those of training on it; these and
    `parameters` are None where the model is not known. `steps` are its training steps, None where they are not known
    yet. `bits` is the held-out loss in bits per byte, whether or not it is judged; None where no seed has it.
    """

    variant: str
    name: str
    edits: tuple[str, ...]
    parameters: int | None
    flops: int | None
    training_flops: int | None
    finished: int
    diverged: int
    missing: tuple[tuple[Seed, str], ...]
    levels: Mapping[str, Level]
    steps: int | None = None
    bits: Level | None = None

    def __repr__(self) -> str:
        return f"<Arm {self.name}: {self.finished} finished, {self.diverged} diverged, {len(self.missing)} missing>"

    @property
    def cost(self) -> tuple[int, int, int] | None:
        """Parameters, FLOPs of a forward pass and of training; None where the model is not known."""
        if self.parameters is None or self.flops is None or self.training_flops is None:
            return None
        return self.parameters, self.flops, self.training_flops

    @property
    def ended(self) -> int:
        """Trials with a result: finished or diverged."""
        return self.finished + self.diverged

    def success(self, confidence: float = 0.95) -> tuple[float, float]:
        """Wilson's interval of the share of seeds that do not diverge."""
        from ablate.statistics import wilson  # with scipy, which checking a space does without

        return wilson(self.finished, self.ended, confidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """The effect of one change on one metric, over the n seeds that finished on both sides.

    `before` and `after` are variant ids. `estimate` is the mean of after - before, or of log(after/before) on the log
    scale; [`low`, `high`] is its interval at the summary's confidence 1-α, and [`tost_low`, `tost_high`] the one at
    1-2α that must lie inside ±`margin` for equivalence (90 % where the other is 95 %). Those are of this comparison
    alone; [`adjusted_low`, `adjusted_high`] is the interval that agrees with the verdict, adjusted as `p_adjusted` is
    (Holm), with `adjusted_confidence` as its own confidence (`multiplicity.py`). What cannot be computed is None; an
    interval that n is too small to bound is infinite. `differs` marks an equivalent effect that is nevertheless
    significant. `seeds_needed` is a total of pairs, None where nothing is left to decide or no affordable number is
    enough. `sd` is that of the differences over seeds, or of the difference of two runs where these are not paired, on
    the scale of the estimate.

    `kind`, `terms`: as in `plan.Comparison`; a `trend` is the logarithm of the factor by which a speed-up grows for ten
    times the training compute, whatever the scale of its metric, and `better` where it grows. For whatever is not a
    difference of two variants, such as a trend, a `main` effect or an `interaction`, `before` and `after` are empty and
    `n` is the number of seeds; `ended_before` and `diverged_before` count the runs that enter with a minus, the others
    those that enter with a plus. `q` is p adjusted by Benjamini and Hochberg, `p_equivalent` the greater p of the two
    one-sided tests, `p_equivalent_adjusted` that by Holm. `method` is what gave the interval and p, `df` its degrees of
    freedom.

    `unusable_before` and `unusable_after` count finished trials whose value of the metric is not a number, or on the
    log scale not above zero. Where there are any, or diverged runs, the verdict is by ranks over `ranked` seeds (0
    where it is by the differences): all that have a result on both sides, n of which are the survivors that all other
    numbers are over. `rank_sum` is then the sum of the signed ranks, above zero where it goes up.

    Where there were several looks, all numbers are of the look that found what the verdict says, or the last. Both
    intervals are at its level (`repeated`), and the adjusted p-values are α·p/level, to be compared with α as after a
    single look; so is `q`, but Benjamini and Hochberg's bound does not cover looks. A verdict of `undecided` beside an
    adjusted p below α: an earlier look found the contrary.

    `level` is what the adjusted p-values are compared with, and `judgement` the number of the judgement of its
    question, from 1, that gave the verdict and the numbers. `identical`: every loss is the same number at every seed,
    so the two variants are one model and training more seeds changes nothing; undecided where there are too few seeds
    for equivalence. A `noise` comparison is of the baseline with itself: it has an interval, is in no family, and is
    never judged.
    """

    kind: str
    metric: str
    change: str
    before: str
    after: str
    n: int
    ended_before: int
    ended_after: int
    diverged_before: int
    diverged_after: int
    estimate: float | None
    low: float | None
    high: float | None
    tost_low: float | None
    tost_high: float | None
    p: float | None
    p_adjusted: float | None
    scale: Literal["linear", "log"]
    margin: float | None
    verdict: Verdict
    differs: bool
    seeds_needed: int | None
    note: str
    terms: str = ""
    q: float | None = None
    p_equivalent: float | None = None
    p_equivalent_adjusted: float | None = None
    method: Method = "student"
    df: float | None = None
    sd: float | None = None
    unusable_before: int = 0
    unusable_after: int = 0
    level: float | None = None
    judgement: int | None = None
    ranked: int = 0
    rank_sum: float | None = None
    adjusted_low: float | None = None
    adjusted_high: float | None = None
    adjusted_confidence: float | None = None
    identical: bool = False

    def __repr__(self) -> str:
        difference = interval(self.estimate, self.low, self.high, log=self.scale == "log")
        shown = "no pair" if self.estimate is None else f"{difference}, n = {self.n}"
        verdict = f": {self.verdict}" if self.judged else ""
        return f"<Effect of {self.kind} {self.change} on {self.metric}: {shown}{verdict}>"

    @property
    def judged(self) -> bool:
        """True if it is given a verdict; noise is not."""
        return self.kind != "noise"

    @property
    def improves(self) -> bool:
        """True if it is found better, by the differences or by ranks."""
        return self.verdict in ("better", "better_by_rank")

    @property
    def survivors(self) -> bool:
        """True if the difference is over survivors: some run diverged, or ended without a usable value."""
        lost = self.diverged_before + self.diverged_after
        return lost + self.unusable_before + self.unusable_after > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Anova:
    """A line of the analysis of variance of a factorial on one metric: a term's sum of squares, its degrees of freedom,
    and F against its variation over seeds; `term` is an effect's name, `seed`, `lack of fit` or `error`.

    The line `sphericity` has instead John's `u`, and its p under the hypothesis that all contrasts vary equally.
    """

    metric: str
    terms: str
    term: str
    sum_of_squares: float | None = None
    df: int | None = None
    f: float | None = None
    p: float | None
    u: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateCounts:
    """The number of comparisons of a family in each `State` of their accounts (`judgement.py`)."""

    new: int = 0
    again: int = 0
    continued: int = 0
    settled: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The judgement of the family of these `metrics`, the `number`-th of its question, counted by sets of seeds.

    Adjusted p-values are compared with `level`; with `again_level` those of comparisons that were judged before at
    other data, now for the `again_number`-th time. `next_level` is that of the following judgement at other fixed
    seeds, `left` the part of α that `seeds: auto` would have after it. `question` is its id in the record of questions,
    empty where there is none. `pending` says why no verdict is given yet, empty where verdicts are given. `tests` is
    the size of the largest family that its comparisons were judged in, `states` counts them by the states of their
    accounts. In at most `so_far` of tables any verdict of the question is false, over all its judgements; the trainings
    compared were asked that many `questions`, and at least one verdict among them is false in at most `among`.
    """

    question: str
    metrics: tuple[str, ...]
    number: int
    level: float
    next_level: float
    left: float
    pending: str = ""
    tests: int = 1
    states: StateCounts = StateCounts()
    again_level: float = 0.0
    again_number: int = 1
    so_far: float = 0.0
    questions: int = 1
    among: float = 0.0

    @property
    def tested(self) -> bool:
        """True if anything is tested now."""
        return self.states.new + self.states.again + self.states.continued > 0

    @property
    def least_level(self) -> float:
        """The level of what is beside the family and has no account of its own: the least of its comparisons, so that
        neither an arm that is added nor one that is left out tests it anew.
        """
        if self.states.settled and (self.tested or self.tests > self.states.settled):
            return 0.0
        return self.again_level if self.states.again else self.level


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeResult:
    """A treatment and its baseline at one size of a ladder: training FLOPs, mean losses of n seeds, and the speed-up.

    `speed_up` is the factor by which the baseline would need more compute to reach the treatment's loss, with its
    interval at the summary's confidence, not adjusted. `extrapolated`: the baseline's law is read beyond the sizes it
    was fitted to. Means are geometric under a power law. The next size is not `trained`, and its losses are those of
    the laws. `cost` are the training FLOPs of n seeds of both, `decided` is the chance that their losses would be found
    different there, and `better` that the treatment's would be found lower.
    """

    size: str
    before: str = ""
    after: str = ""
    baseline_compute: float
    compute: float
    baseline_loss: float
    loss: float
    speed_up: float
    low: float
    high: float
    extrapolated: bool
    n: int
    trained: bool = True
    cost: float | None = None
    decided: float | None = None
    better: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeComparison:
    """A treatment against the baseline over the sizes of a ladder, on one loss; the last of `sizes` is not trained.

    `exponent` (b), with its interval, and `factor` (a) are those of the baseline's law, which is `power` (L = a·C^-b)
    or `saturating` (L = E + a·C^-b, with E the `irreducible` loss); a small `curvature_p` says that losses bend away
    from it. `spent` are the training FLOPs of all runs compared. `why` there is no law, empty where there is one.
    """

    terms: str
    metric: str
    baseline: str
    treatment: str
    law: str
    sizes: tuple[SizeResult, ...] = ()
    exponent: float | None = None
    exponent_low: float | None = None
    exponent_high: float | None = None
    factor: float | None = None
    irreducible: float | None = None
    curvature_p: float | None = None
    spent: float | None = None
    why: str = ""


Outcome: TypeAlias = Literal["as expected", "not as expected", "undecided"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedStep:
    """A comparison of which a claim foresees one of these verdicts, and the `effect` that was seen of it."""

    verdicts: tuple[str, ...]
    effect: Effect

    @property
    def outcome(self) -> Outcome:
        """The outcome of the step; a variant that diverged is not as any claim foresees."""
        seen = self.effect.verdict.removesuffix("_by_rank")
        if seen == "undecided" and self.effect.identical:
            seen = "equivalent"
        if seen == "undecided":
            return "undecided"
        return "as expected" if seen in self.verdicts else "not as expected"


@dataclass(frozen=True, slots=True, kw_only=True)
class Correlation:
    """The rank correlation of two metrics over variants, within each seed, and its test over the n seeds.

    `over_seeds` has Spearman's ρ of each seed, over at most `rows` variants; `mean` is theirs, [`low`, `high`] its
    interval by t, and `p` that of no correlation, `p_adjusted` by Holm over all correlations that the space claims. It
    is compared with `level`. What cannot be computed is None. `note` says what is left out.
    """

    metric: str
    other: str
    rows: int
    n: int
    over_seeds: tuple[float, ...]
    mean: float | None
    low: float | None
    high: float | None
    p: float | None
    p_adjusted: float | None
    level: float | None
    note: str = ""

    @property
    def sign(self) -> str:
        """The sign; empty where none was found."""
        if self.mean is None or self.p_adjusted is None or self.level is None or not self.p_adjusted < self.level:
            return ""
        return "positive" if self.mean > 0 else "negative"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """A claim, what it is about (`of`), and the verdicts that it foresees of each of its `steps` on a `metric`.

    `of` is a variant or edit, with one step, an order or equivalents, with several, or a metric with which there is to
    be a `correlation`, with none. There are no steps either where nothing of that name was compared. `stamp` says when
    it was made; None where no results folder keeps it.
    """

    claim: str
    of: str
    metric: str
    verdicts: tuple[str, ...]
    steps: tuple[ExpectedStep, ...] = ()
    correlation: Correlation | None = None
    stamp: Stamp | None = None

    @property
    def effect(self) -> Effect | None:
        """The effect of a claim about one comparison; None of others."""
        return self.steps[0].effect if len(self.steps) == 1 else None

    @property
    def outcome(self) -> Outcome:
        """A claim is as expected if every step is, and not as expected if one is not."""
        if self.correlation is not None:
            seen = self.correlation.sign
            return "undecided" if not seen else "as expected" if seen in self.verdicts else "not as expected"
        outcomes = {step.outcome for step in self.steps}
        if not outcomes or "not as expected" in outcomes:
            return "not as expected" if outcomes else "undecided"
        return "undecided" if "undecided" in outcomes else "as expected"


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Every verdict of a space. `baseline` is the name of the variant the others are judged against.

    `looks` are the numbers of seeds of the interim analyses (none: seeds are fixed), `looked` that of the last one
    made. `factors` and `anova` are a factorial's. `front` are the ids of the variants on the Pareto front by means,
    where there are several metrics. `tests` is the number of distinct comparisons over which a `family` is corrected:
    those on one metric, or on the whole page, with all that were ever judged with them. `judgements` has one for each
    family. `elsewhere`: the runs come from a table, see
    `Experiment`. `expectations` are the claims that the space makes, beside what was seen. `ladders` are
    the treatments of a ladder, on each loss. `profile` is that of the space, if one was chosen.
    """

    space: str
    question: str
    design: str
    baseline: str
    confidence: float
    metrics: tuple[Metric, ...]
    arms: tuple[Arm, ...]
    effects: tuple[Effect, ...]
    notes: tuple[str, ...]
    looks: tuple[int, ...] = ()
    looked: int | None = None
    factors: tuple[tuple[str, Factors], ...] = ()
    anova: tuple[Anova, ...] = ()
    front: tuple[str, ...] = ()
    family: Literal["metric", "page"] = "metric"
    tests: int = 0
    judgements: tuple[Judgement, ...] = ()
    elsewhere: bool = False
    expectations: tuple[Expectation, ...] = ()
    ladders: tuple[SizeComparison, ...] = ()
    profile: str | None = None

    def __repr__(self) -> str:
        return f"<Summary of {self.space}: {self.design}, {len(self.arms)} variants, {verdicts_of(self)}>"

    @property
    def decided(self) -> bool:
        """True if every comparison has a verdict other than undecided, or is of two identical variants."""
        return all(effect.verdict != "undecided" or effect.identical for effect in self.effects if effect.judged)

    @property
    def false_at_most(self) -> float:
        """The share of tables in which any verdict of better or worse on a metric is false, at most: over all that was
        judged in its question so far, and what is reserved for judging it again. 1 - `confidence` where nothing was
        added to a question. Verdicts of equivalence have the same bound of their own.
        """
        added = (judgement.so_far + judgement.left for judgement in self.judgements)
        return max([1 - self.confidence, *added])

    @property
    def terms(self) -> tuple[str, ...]:
        """The names of the terms that comparisons are made under, in order; one empty name where there is only one."""
        return tuple(dict.fromkeys(effect.terms for effect in self.effects if effect.judged))

    @property
    def tests_differ(self) -> bool:
        """True if some metrics have fewer comparisons than `tests`: the trends of a ladder are of losses."""
        others = any(metric.name not in LOSSES for metric in self.metrics)
        return bool(self.ladders) and self.family == "metric" and others

    @property
    def bits_beside(self) -> bool:
        """True if bits per byte are shown beside nats per token, of which only the latter are judged."""
        judged = {metric.name for metric in self.metrics}
        return NATS in judged and BITS not in judged and any(arm.bits for arm in self.arms)

    def arm(self, variant: str) -> Arm:
        """The arm of that variant id; KeyError if there is none."""
        return {arm.variant: arm for arm in self.arms}[variant]

    def judgement(self, metric: str) -> Judgement | None:
        """The judgement of that metric; None where it is not known."""
        return next((judgement for judgement in self.judgements if metric in judgement.metrics), None)

    def metric(self, name: str) -> Metric:
        """The metric of that name; KeyError if it is not judged."""
        return {metric.name: metric for metric in self.metrics}[name]

    def comparisons(self, kind: str) -> tuple[tuple[Effect, ...], ...]:
        """The effects of one kind (`edit`, `baseline`, …), grouped by comparison, in the plan's order."""
        groups: dict[tuple[str, str, str, str], list[Effect]] = {}
        for effect in self.effects:
            if effect.kind == kind:
                groups.setdefault((effect.terms, effect.change, effect.before, effect.after), []).append(effect)
        return tuple(tuple(group) for group in groups.values())


def verdicts_of(summary: Summary) -> str:
    """A text such as `9 verdicts: 5 better, 1 worse, 3 undecided`."""
    counts = Counter(effect.verdict for effect in summary.effects if effect.judged)
    counted = ", ".join(f"{counts[verdict]} {spoken(verdict)}" for verdict in get_args(Verdict) if counts[verdict])
    return plural(counts.total(), "verdict") + (f": {counted}" if counted else "")


Stamped: TypeAlias = Literal["before results", "after results", "not dated"]
"""`not dated`: no plan with this claim was run yet, and one side has no result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """The date of a claim against that of what it is about.

    `at` is when the first plan with this claim, as it is, was kept, in seconds since 1970; that plan's id, `plan`, is
    the hash of its whole `space`. `known_at` is when both sides had a result, at whatever seeds, profile or plan, and
    `known_in` the space that the later of the two was in; None where one side has none. `changes` are what else differs
    between that space and the present one, `was` other claims that were stated before on the same comparison and
    metric, and are not made any more.
    """

    stamped: Stamped
    at: float | None = None
    plan: str = ""
    space: str = ""
    known_at: float | None = None
    known_in: str = ""
    changes: tuple[str, ...] = ()
    was: tuple[str, ...] = ()
