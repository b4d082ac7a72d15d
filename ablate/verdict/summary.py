"""The answer to a space's question, as frozen values: what `verdicts.judge` gives and the tables show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from ablate.output.numbers import interval
from ablate.output.words import plural, spoken
from ablate.plan.plan import Factors
from ablate.space.metrics import BITS, NATS
from ablate.verdict.seeds import Seed

Method: TypeAlias = Literal["student", "sign_flip", "sign", "repeated", "pooled", "worst_rank"]
"""What made an interval and its p.

`student` t; `sign_flip` its interval with the p of sign flips; `sign` the sign test, where differences do not vary;
`repeated` t at the level of one of several looks; `pooled` t with what the effects of a factorial leave unexplained of
one seed; `worst_rank` the p of signed ranks over all seeds, a diverged run worse than any number, beside the interval
by t of those that finished.
"""

Verdict: TypeAlias = Literal[
    "better", "worse", "equivalent", "undecided", "diverged", "better_by_rank", "worse_by_rank"
]
"""`better_by_rank`, `worse_by_rank`: found with a diverged run on a side, by ranks over all seeds; the difference that
stands beside it is of survivors, and may point the other way.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """What is judged and how. `margin` is absolute on the metric's scale; `stated` is that margin as the space put it.

    On the log scale values are natural logarithms, differences log ratios, and means geometric. Without a usable
    margin `why_no_margin` says why, and nothing can be equivalent.
    """

    name: str
    scale: Literal["linear", "log"]
    better: Literal["lower", "higher"]
    margin: float | None
    stated: str
    why_no_margin: str

    @property
    def log(self) -> bool:
        """Whether differences are ratios."""
        return self.scale == "log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """Where the n finished seeds of a variant end: their mean (geometric on the log scale) and standard deviation.

    On the log scale `sd` is that of the natural logarithms. It is None for a single seed.
    """

    mean: float
    sd: float | None
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One variant and what became of its trials. `missing` has the seeds without a result, and why.

    `flops` are those of a forward pass over one sequence, `training_flops` those of training on it; these and
    `parameters` are None where the model is not known. `steps` are those of its training, None where they are not known
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
    """What one change does to one metric, over the n seeds that finished on both sides.

    `before` and `after` are variant ids. `estimate` is the mean of after - before, or of log(after/before) on the log
    scale; [`low`, `high`] is its interval at the summary's confidence 1-α, and [`tost_low`, `tost_high`] the one at
    1-2α that must lie inside ±`margin` for equivalence (90 % where the other is 95 %). Those are of this comparison by
    itself; [`adjusted_low`, `adjusted_high`] is the interval that agrees with the verdict, adjusted for the number of
    comparisons as `p_adjusted` is (Holm), with `adjusted_confidence` as the confidence of one (`adjusted_interval.py`).
    What cannot be computed is None; an interval that n is too small
    to bound is infinite. `differs` marks an equivalent effect that is significant all the same. `seeds_needed` is a
    total of pairs, None where nothing is left to decide or no affordable number would do. `sd` is that of the
    differences over seeds, on the scale of the estimate.

    `kind`, `terms`: as `plan.Comparison` has them; of a `main` effect, an `interaction` and whatever else is no
    difference of two variants, `before` and `after` are empty and `n` is the number of seeds; `ended_before` and
    `diverged_before` count the runs that enter with a minus, the others those that enter with a plus. `q` is p adjusted
    by Benjamini and Hochberg, `p_equivalent` the greater p of the two one-sided tests, `p_equivalent_adjusted` that by
    Holm. `method` is what made the interval and p, `df` its degrees of freedom.

    `unusable_before` and `unusable_after` count finished trials whose value of the metric is no number, or on the log
    scale not above zero. With either, and with what diverged, the verdict is by `ranked` seeds, 0 where it is by the
    differences: all that have a result on both sides, of which n are the survivors that every other number is about.
    `rank_sum` is then that of the signed ranks, above zero where it goes up.

    Where it was looked several times, all numbers are of one look: of that which found what the verdict says, or of the
    last. Both intervals are at its level (`repeated`), and the adjusted p's are α·p/level, so that they may be held
    against α as if it had been looked once; `q` is so too, but looks are no part of what Benjamini and Hochberg bound.
    Verdict `undecided` beside an adjusted p below α: an earlier look found the contrary.

    `level` is what the adjusted p's are held against, and `judgement` which judgement of its question gave the verdict
    and the numbers, from 1: of seeds that were trained later, since an earlier one had not decided, the next one.

    A `noise` comparison is of the baseline with itself: it has an interval, is in no family, and is never judged.
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

    def __repr__(self) -> str:
        difference = interval(self.estimate, self.low, self.high, log=self.scale == "log")
        said = "no pair" if self.estimate is None else f"{difference}, n = {self.n}"
        verdict = f": {self.verdict}" if self.judged else ""
        return f"<Effect of {self.kind} {self.change} on {self.metric}: {said}{verdict}>"

    @property
    def judged(self) -> bool:
        """Whether it asks for a verdict; noise does not."""
        return self.kind != "noise"

    @property
    def improves(self) -> bool:
        """Whether it is found better, by the differences or by ranks."""
        return self.verdict in ("better", "better_by_rank")

    @property
    def survivors(self) -> bool:
        """Whether the difference is about survivors: some seed diverged on a side, or ended in no number."""
        lost = self.diverged_before + self.diverged_after
        return lost + self.unusable_before + self.unusable_after > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Anova:
    """A line of the analysis of variance of a factorial on one metric: a term's sum of squares, its degrees of freedom,
    and F against how it varies over seeds; `term` is an effect's name, `seed`, `lack of fit` or `error`.

    `sphericity` has instead John's `u`, and the p of it where all contrasts of the runs vary alike over seeds.
    """

    metric: str
    terms: str
    term: str
    sum_of_squares: float | None
    df: int | None
    f: float | None
    p: float | None
    u: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """How the family of these `metrics` was judged: the `number` of this judgement of its question, counted by the sets
    of seeds that it was judged at; the `level` that adjusted p's are held against; and `next_level`, that of the
    judgement after it, at other fixed seeds. `left` is the part of α that `seeds: auto` would have after it.

    `question` is the id under which the record of questions has it, empty where none was asked. `pending` says why no
    verdict is given yet, empty where verdicts are given.
    """

    question: str
    metrics: tuple[str, ...]
    number: int
    level: float
    next_level: float
    left: float
    pending: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Every verdict of a space. `baseline` is the name of the variant the others are judged against.

    `looks` are the numbers of seeds after which it is looked (none: seeds are fixed), `looked` the last that was.
    `factors` and `anova` are a factorial's. `front` are the ids of variants that no other beats on every metric by its
    mean, where there are several metrics. `tests` is how many distinct comparisons there are in each `family`: those on
    one metric, or on the whole page. `judgements` has one for each family. `elsewhere`: its
    runs are of a table, see `Experiment`.
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

    def __repr__(self) -> str:
        return f"<Summary of {self.space}: {self.design}, {len(self.arms)} variants, {verdicts_of(self)}>"

    @property
    def decided(self) -> bool:
        """Whether every comparison has a verdict other than undecided."""
        return all(effect.verdict != "undecided" for effect in self.effects if effect.judged)

    @property
    def terms(self) -> tuple[str, ...]:
        """The names of the terms that comparisons are made under, in order; one empty name where there is but one."""
        return tuple(dict.fromkeys(effect.terms for effect in self.effects if effect.judged))

    @property
    def bits_beside(self) -> bool:
        """Whether bits per byte are to be shown beside nats per token: these are judged, and those are known."""
        judged = {metric.name for metric in self.metrics}
        return NATS in judged and BITS not in judged and any(arm.bits for arm in self.arms)

    def arm(self, variant: str) -> Arm:
        """The arm of that variant id; KeyError if there is none."""
        for arm in self.arms:
            if arm.variant == variant:
                return arm
        raise KeyError(variant)

    def judgement(self, metric: str) -> Judgement | None:
        """How that metric was judged; None where it is not said."""
        return next((one for one in self.judgements if metric in one.metrics), None)

    def metric(self, name: str) -> Metric:
        """The metric of that name; KeyError if it is not judged."""
        for metric in self.metrics:
            if metric.name == name:
                return metric
        raise KeyError(name)

    def comparisons(self, kind: str) -> tuple[tuple[Effect, ...], ...]:
        """The effects of one kind (`edit`, `baseline`, …), grouped by comparison, in the plan's order."""
        groups: dict[tuple[str, str, str, str], list[Effect]] = {}
        for effect in self.effects:
            if effect.kind == kind:
                groups.setdefault((effect.terms, effect.change, effect.before, effect.after), []).append(effect)
        return tuple(tuple(group) for group in groups.values())


def verdicts_of(summary: Summary) -> str:
    """How often each verdict was given: `9 verdicts: 5 better, 1 worse, 3 undecided`."""
    counts = Counter(effect.verdict for effect in summary.effects if effect.judged)
    said = ", ".join(f"{counts[verdict]} {spoken(verdict)}" for verdict in get_args(Verdict) if counts[verdict])
    return plural(counts.total(), "verdict") + (f": {said}" if said else "")
