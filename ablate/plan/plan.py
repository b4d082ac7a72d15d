"""Plan: the variants, comparisons and trials of a space as frozen data, and what of earlier results they depend on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Literal, TypeAlias

from ablate.block.expression import Block
from ablate.block.normal_form import Canonical, digest
from ablate.block.sizes import Cost
from ablate.plan.identity import ID_DIGITS, SCHEME, ModelTraining
from ablate.source.problems import shorten
from ablate.space.fair import Plain
from ablate.space.variants import Changes
from ablate.space.vary import LawKind

# Setting: how a model and its training differ from the sizes and the recipe of the space.


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Sizes and steps that fairness requires (None: the space's), tuned values, and the initialisation's salt.

    `tuned` are by their names in `fair.tune`, `changes` by their addresses in the space. While it is `open`, the fair
    number of steps is not known yet, and nothing is trained under it.
    """

    layers: int | None = None
    width: int | None = None
    steps: int | None = None
    tuned: tuple[tuple[str, Plain], ...] = ()
    salt: int = 0
    open: bool = False
    changes: Changes = ()

    @property
    def plain(self) -> bool:
        """Return whether all but the tuned values is as in the space."""
        return replace(self, tuned=()) == PLAIN


PLAIN = Setting()


# Trial: everything that decides the numbers of one training run, and nothing else.

HeldOut: TypeAlias = Literal["tuning", "verdict"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One training run. Executing it needs no other input.

    `id` is the hash of what decides its numbers, `conditions` that of what it shares with trials of other blocks and
    seeds (`trial_id`, `conditions_of`). `seed` decides batches, evaluation windows and initialisation, `salt` the last
    alone. `split` is `tuning` where its numbers are used for a choice, else `verdict`.
    """

    id: str
    variant: str
    work: ModelTraining
    seed: int
    salt: int
    split: HeldOut = "verdict"
    conditions: str = ""

    def __repr__(self) -> str:
        salt = f", salt {self.salt}" if self.salt else ""
        return f"<Trial {self.id}: seed {self.seed}{salt}, {self.work.steps} steps, {self.work.architecture.block!r}>"


def trial_id(trial: Trial, work: Mapping[str, Canonical]) -> str:
    """Return the identity of a trial, 16 hex digits; `work` is that of its work."""
    return digest({**work, "seed": trial.seed, "salt": trial.salt, "split": trial.split, "scheme": SCHEME}, ID_DIGITS)


def conditions_of(trial: Trial, work: Mapping[str, Canonical]) -> str:
    """Return a hash of the conditions of a trial, 16 hex digits; `work` are those of its work.

    The effect of the initialisation alone on a metric is assumed equal where these are equal.
    """
    return digest({**work, "split": trial.split}, ID_DIGITS)


def training_of(trial: Trial) -> str:
    """Return a hash of how a trial is trained, apart from its block, and on which text, 16 hex digits."""
    return digest({**trial.work.terms(), "split": trial.split}, ID_DIGITS)


# Forecast: what a variant's model will do before a single step, in numbers, or the reason for none.

FORECAST_DEFINITIONS: dict[str, str] = {
    "growth": "root mean square of the stream behind the last layer over that in front of the first",
    "cosine": "mean cosine of two tokens of one sequence behind the last layer; at 1 all are the same",
    "gradient": (
        "root mean square of the gradient in front of the first layer over that behind the last, from a loss whose "
        "gradient is independent from token to token"
    ),
    "logits": "root mean square of the logits",
}
"""The numbers of a forecast, with their definitions."""
FORECAST_KINDS = ("decoder", "encoder", "encoder_decoder", "vit", "mlp")
THEORY = 5
"""The version of the theory, kept with a forecast; one that another version made is not reused in other plans.

It is raised by a change of any number of some forecast. Version 1 was kept without it, and without intervals.
"""
Interval: TypeAlias = tuple[float, float]
"""The ends of an interval about a forecast, within which 95 % of networks of its width lie."""
DANGERS = (
    "numbers are no longer finite",
    "rank collapse",
    "the stream grows",
    "the stream shrinks",
    "exploding gradient",
    "vanishing gradient",
    "attention nearly one-hot",
)
"""The kinds of danger that a forecast names, or for which there is none; `theory/diagnostics.py` has their bounds."""
STREAM_PROBES: Mapping[str, str] = {"size": "activation_rms", "cosine": "token_cosine", "gradient": "stream_gradient"}
"""The probe that measures each quantity of a stream, whose metric has its name; of the gradient it is the ratio of the
reading to that behind the last layer."""


@dataclass(frozen=True, slots=True)
class ForecastStream:
    """The residual stream behind `layer` (0: in front of the first), and the gradient there.

    `size` is its root mean square over channels and tokens, `cosine` the mean cosine of two tokens of one sequence, and
    `gradient` the root mean square of the gradient over that behind the last layer. Intervals are in the same units;
    None in a plan that was kept without them.
    """

    layer: int
    size: float
    cosine: float
    gradient: float
    size_interval: Interval | None = None
    cosine_interval: Interval | None = None
    gradient_interval: Interval | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """A model before a single step, in the limit of width; the numbers are defined in `FORECAST_DEFINITIONS`.

    It is over `context` tokens, two of them the same with chance `repetition` (None: no tokens are read); `whole` if
    that is the whole sequence. Of two stacks the numbers are the decoder's, and dangers those of both. `dangers` are
    reasons not to train the model. If it is `refused`, with the reason, it has no numbers. `theory` is the version that
    made it. Not kept with a plan are `kinds`, the dangers without their numbers, also one because of which it is
    refused, and `quick`: it is over less than what a run would keep.
    """

    growth: float | None = None
    cosine: float | None = None
    gradient: float | None = None
    logits: float | None = None
    context: int | None = None
    whole: bool = True
    repetition: float | None = None
    streams: tuple[ForecastStream, ...] = ()
    dangers: tuple[str, ...] = ()
    refused: str = ""
    theory: int = THEORY
    kinds: tuple[str, ...] = field(default=(), compare=False)
    quick: bool = field(default=False, compare=False)

    @property
    def growth_interval(self) -> Interval | None:
        """The interval of the growth, which varies as the size behind the last layer does."""
        if not self.streams or self.growth is None or (ends := self.streams[-1].size_interval) is None:
            return None
        size = self.streams[-1].size
        return (self.growth * ends[0] / size, self.growth * ends[1] / size) if size and isfinite(size) else None

    @property
    def cosine_interval(self) -> Interval | None:
        return self.streams[-1].cosine_interval if self.streams else None

    @property
    def gradient_interval(self) -> Interval | None:
        return self.streams[0].gradient_interval if self.streams else None

    @property
    def read(self) -> tuple[tuple[ForecastStream, str], ...]:
        """The streams that probes read, with the address of each: the block whose input it is.

        The last is not among them: behind it probes read behind the final norm.
        """
        return tuple((stream, f"layers.{stream.layer + 1}") for stream in self.streams[:-1])


# Variants, comparisons, factorials, ladders, proposals, and the plan that has them.

DEFAULTS = "model: "  # the beginning of the note that lists what the grammar sets around the blocks
TERMS, RATES, IN_FORCE = "equal terms", "rates", "in force"
"""The beginnings of notes on equal terms without a tuned rate, several rates, and settings as they act on a model."""
INFORMATION = (DEFAULTS, TERMS, RATES, IN_FORCE)  # the beginnings of notes that are information, not warnings


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One distinct block under one set of terms. `names` are all the names that led to it; the first is the one shown.

    `edits` name those applied to the design's start. `parameters` (trained), `flops` of the matrix products in a
    forward pass over one sequence, and those `spared` in training (see `Cost`), are of its `setting`. `terms` name its
    terms of fairness; none where the space has one set. `breaks` are the tolerated constraints that it breaks, each
    with name and reason.
    """

    id: str
    names: tuple[str, ...]
    block: Block
    edits: tuple[str, ...]
    parameters: int
    flops: int
    spared: int = 0
    setting: Setting = PLAIN
    terms: tuple[str, ...] = ()
    breaks: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        return self.names[0]

    @property
    def cost(self) -> Cost:
        return Cost(self.parameters, self.flops, self.spared)

    def __repr__(self) -> str:
        edits = "; ".join(self.edits) or "no edits"
        return f"<Variant {self.name}: {shorten(edits)}, {self.parameters:,} parameters, {self.flops:,} FLOPs>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A comparison of the design: what does `change` do, from variant `before` to variant `after` (ids)?

    `kind` is `edit`, `baseline` (against the judge's), `noise` (the baseline against itself with another
    initialisation), in a factorial `main` or `interaction`, or in a ladder `trend` (of a speed-up over sizes). The last
    three, and the interactions of other designs, are weighted sums of variants: `weights`, with `before` and `after`
    empty. `terms` names the terms of fairness. `unpaired` are the addresses that keep two variants from seeing the same
    batches at one seed.

    The effect of an edit in a factorial is the mean difference it makes over the other edits' levels. The interaction
    of two edits is how much the effect of one changes when the other is present.
    """

    kind: str
    change: str
    detail: str
    before: str
    after: str
    weights: tuple[tuple[str, float], ...] = ()
    terms: str = ""
    unpaired: tuple[str, ...] = ()

    def __repr__(self) -> str:
        under = f" under {self.terms}" if self.terms else ""
        return f"<Comparison {self.kind}: {shorten(self.change)}{under}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """An effect that a factorial estimates, and one it does not, which enters the estimate with the factor `times`."""

    term: tuple[str, ...]
    other: tuple[str, ...]
    times: float


Scale: TypeAlias = Literal["linear", "log", "nominal"]
"""The scale on which the levels of a factor are ordered; none for a nominal one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VariedFactor:
    """A factor with several levels: values at an address, ascending if ordered; lists and mappings as text."""

    address: str
    values: tuple[bool | int | float | str | None, ...]
    scale: Scale


@dataclass(frozen=True, slots=True, kw_only=True)
class Factors:
    """The runs of a factorial: for each variant (by id) whether each edit is present (+1) or not (-1).

    Factors with several levels are `varied`: after the edits, each run has the number of its level of each, from 0.
    Their effects are contrasts of levels, which are named as in `designs/design_matrix.py`.

    `effects` are those that are estimated, as tuples of edits, each with the comparison's name in `Comparison.change`;
    `aliases` are the effects of one or two edits that enter their estimates, and, without a `resolution`, those of
    three edits (up to 12 edits). `resolution` is the Roman numeral of a regular fraction, empty otherwise. A variant
    may be several runs where edits make no difference. `how` describes how the runs were chosen.
    """

    edits: tuple[str, ...]
    runs: tuple[tuple[str, tuple[int, ...]], ...]
    effects: tuple[tuple[str, ...], ...]
    aliases: tuple[Alias, ...] = ()
    resolution: str = ""
    how: str = ""
    varied: tuple[VariedFactor, ...] = ()

    def __repr__(self) -> str:
        varied = f" and {', '.join(factor.address for factor in self.varied)}" if self.varied else ""
        return f"<Factors: {len(self.edits)} edits{varied} in {len(self.runs)} runs, {len(self.effects)} effects>"


def trend_name(treatment: str) -> str:
    return f"{treatment} over sizes"


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderStep:
    """One size of a ladder in words, and the variant (by id) that each treatment is there."""

    size: str
    variants: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedLadder:
    """The `treatments` of a ladder and its `baseline` at each step, from the least training compute to the most.

    `law` is fitted to the baseline's losses. `next` is a size that is not trained, and `next_compute` the training
    FLOPs of each treatment there; empty where none is given.
    """

    baseline: str
    treatments: tuple[str, ...]
    law: LawKind
    steps: tuple[LadderStep, ...]
    next: str = ""
    next_compute: tuple[tuple[str, float], ...] = ()

    def treatment_of(self, trend: str) -> str:
        """Return the treatment whose trend has that name; KeyError if there is none."""
        return {trend_name(treatment): treatment for treatment in self.treatments}[trend]

    def __repr__(self) -> str:
        return f"<PlannedLadder: {', '.join(self.treatments)} against {self.baseline} at {len(self.steps)} sizes>"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptProposal:
    """Proposal number `k` of a search: derivation `derivation` of its grammar, which is `variant`.

    `repeat`: it was proposed before, or is the reference. Of its `choices`, `random` did not depend on any result.
    `skipped` counts what was drawn before it and not trained because of a forecast, by the danger in it.
    """

    k: int
    derivation: int
    variant: str
    repeat: bool
    choices: int
    random: int
    skipped: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The variants, comparisons and trials of a space. `notes` say what was merged, left out or assumed.

    `proposals` are those of a search; while more trials may follow (a search, seeds that are added, settings that are
    tuned), the plan is `open`. `seeds` are those of the verdict, `looks` the numbers of seeds of the interim analyses,
    after each of which more may be added (none: the seeds are fixed). `factors` are a factorial's, by the name of their
    terms, and `ladders` a ladder's. `tried` are the values that tuning trials try, by trial id; one trial may try
    several equivalent settings. `forecasts` are those of the variants, by their ids; none until they are made.
    `profile` is that of the space, if one was chosen.
    """

    space: str
    question: str
    design: str
    baseline: str
    variants: tuple[Variant, ...]
    comparisons: tuple[Comparison, ...]
    seeds: tuple[int, ...]
    trials: tuple[Trial, ...]
    notes: tuple[str, ...]
    proposals: tuple[KeptProposal, ...] = ()
    open: bool = False
    looks: tuple[int, ...] = ()
    factors: tuple[tuple[str, Factors], ...] = ()
    tried: tuple[tuple[str, tuple[tuple[str, Plain], ...]], ...] = ()
    ladders: tuple[tuple[str, PlannedLadder], ...] = ()
    forecasts: tuple[tuple[str, Forecast], ...] = ()
    profile: str | None = None

    def __repr__(self) -> str:
        size = f"{len(self.variants)} variants, {len(self.seeds)} seeds, {len(self.trials)} trials"
        return f"<Plan of {self.space}: {self.design}, {size}{', open' if self.open else ''}>"

    def variant(self, id: str) -> Variant:
        return next(v for v in self.variants if v.id == id)


# Earlier results that a plan uses: the only way in which measurements decide what is trained next.


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Results that a plan depends on; empty before anything was trained.

    `seeds` are those that the looks so far require (None: the space's). `tuned` are the settings that tuning chose, by
    variant id (none: the recipe's); `paces` are seconds per step, by `Models.as_written` of a model, measured once and
    kept.
    """

    seeds: tuple[int, ...] | None = None
    tuned: Mapping[str, tuple[tuple[str, Plain], ...]] = field(default_factory=dict)
    paces: Mapping[str, float] = field(default_factory=dict)


NOTHING_KNOWN = Known()
