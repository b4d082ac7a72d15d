"""Recipe: how a model is trained, by which optimiser, schedule and objective; each is declared in a file of its own."""

from __future__ import annotations

from collections.abc import Mapping as Map
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple, Self, TypeAlias, get_args

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator, model_serializer

from ablate.extension.declaration import OBJECTIVE, OPTIMIZER, SCHEDULE, Configured, Kind
from ablate.source.document import validate
from ablate.source.located import Mapping
from ablate.source.problems import Problems
from ablate.space.data import CorpusSpec
from ablate.space.documents import (
    HINTS,
    Choice,
    Count,
    Decay,
    Document,
    Later,
    Length,
    NotNegative,
    OrNone,
    Positive,
    PositiveDecay,
    SectionReader,
    Share,
    as_real,
    as_tuple,
    counted,
    without_settings,
)
from ablate.space.overlay import Origins, lay_on_space, replaced

# Declarations of optimisers and schedules, and the settings that all shipped optimisers share

ParameterKind = Literal["weights", "embedding", "head", "positions", "gains", "scales", "biases"]
"""The kinds of parameters that rates and weight decay can tell apart; `scales` are those of norms."""
PARAMETER_KINDS: tuple[ParameterKind, ...] = get_args(ParameterKind)

RATES: Final[Map[ParameterKind, tuple[str, ...]]] = {
    "embedding": ("embedding_lr",),
    "positions": ("embedding_lr",),
    "head": ("head_lr", "embedding_lr"),
    "scales": ("norm_lr",),
    "biases": ("norm_lr",),
    "gains": ("norm_lr",),
}
"""The settings that may have the rate of a kind; the first that is given counts, and if none is, the rate of others."""
OTHERS: Final = "weights"  # the name of the parameters that have the rate `lr`
GROUPS: Final[Map[str, str]] = {"embedding_lr": "embedding", "head_lr": "head", "norm_lr": "norms"}
"""The name of the parameters that have a rate of their own."""
EACH: Final[Map[str, ParameterKind]] = {"embedding": "embedding", "head": "head", "norms": "scales"}
"""The groups of parameters beside matrices whose rates a plan tells, each with a kind that it has."""

Betas: TypeAlias = Annotated[tuple[Decay, Decay], BeforeValidator(as_tuple)]
"""The decays of the running means of the gradient and of its square."""


def _in_order(kinds: tuple[ParameterKind, ...]) -> tuple[ParameterKind, ...]:
    """Sort the kinds and drop duplicates, so that equal recipes are equal however they are written."""
    return tuple(kind for kind in PARAMETER_KINDS if kind in kinds)


class Rate(NamedTuple):
    """A learning rate, the setting that has it, and the rule that it is for, where an optimiser has several."""

    lr: float
    setting: str
    rule: str = ""


def setting_of_rate(settings: Any, kind: ParameterKind) -> str | None:
    """Return the setting that has the rate of a kind of parameters; None where it is that of others."""
    return next((name for name in RATES.get(kind, ()) if getattr(settings, name, None) is not None), None)


class Settings(Document):
    """The settings of every shipped optimiser: a learning rate, three for some of the parameters, and weight decay.

    `lr` is the rate of all that has no other. `embedding_lr` is that of embeddings, positions and an untied head,
    `head_lr` that of an untied head alone, and `norm_lr` that of all that is neither a matrix nor a table: the scales
    of norms, biases and gains (null: none of their own). Weight decay applies to the kinds of parameters that `decays`
    names. `head_lr` and `norm_lr` came later.
    """

    lr: Positive
    embedding_lr: Positive | None
    head_lr: Annotated[Positive | None, Later] = None
    norm_lr: Annotated[Positive | None, Later] = None
    weight_decay: NotNegative
    decays: Annotated[
        tuple[ParameterKind, ...],
        BeforeValidator(as_tuple),
        AfterValidator(_in_order),
        Field(description=f"a list of {', '.join(PARAMETER_KINDS)}"),
    ]

    rule: ClassVar[str] = ""  # the rule that updates matrices, of an optimiser that has another for the rest

    @property
    def others(self) -> Rate:
        """The rate of all but matrices that have none of their own."""
        return Rate(self.lr, "lr")

    def rates(self) -> dict[str, Rate]:
        """Return the rates in force, by the parameters that they are of."""
        rates, others = {"matrices": Rate(self.lr, "lr", self.rule)}, self.others
        for name, kind in EACH.items():
            own = setting_of_rate(self, kind)
            rates[name] = others if own is None else Rate(getattr(self, own), own, others.rule)
        return rates

    def effective(self, steps: int) -> Self:
        """Return the settings without those that have no effect in a run of `steps`."""
        others, rates = self.others.lr, self.rates()
        plain = {
            "embedding_lr": None if rates["embedding"].lr == others else self.embedding_lr,
            "head_lr": None if rates["head"].lr == rates["embedding"].lr else self.head_lr,
            "norm_lr": None if rates["norms"].lr == others else self.norm_lr,
        }
        return self.model_copy(update=plain)


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerSpec(Configured):
    """An optimiser; `recipe.optimizer` chooses one. Its settings have a field `lr`."""

    kind: ClassVar[Kind] = OPTIMIZER


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSpec(Configured):
    """A learning-rate schedule; `recipe.schedule.decay` chooses one. `has_floor` says whether it uses the floor."""

    kind: ClassVar[Kind] = SCHEDULE
    has_floor: bool = True


# Declarations of objectives: what a model learns to predict, and which families of models can

Reads: TypeAlias = Literal["text", "pairs", "records"]
"""The material of batches: windows of a stream of text, pairs of a source and a target, or records such as images."""
Special: TypeAlias = Literal["padding", "start", "mask"]
"""Tokens that stand for no text and that an objective may need: see `data/subwords.py`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveSpec(Configured):
    """An objective; `recipe.objective` chooses one.

    `models` are the kinds of models that can have it, `reads` is the material of its batches. `measures` are the
    metrics that its evaluations give beside `eval_loss`. `likelihood`: its loss is a cross-entropy, to which
    `recipe.loss` may add. `mixtures`: of an example it takes two classes [B] each, and the share of the first [B].
    """

    kind: ClassVar[Kind] = OBJECTIVE
    models: tuple[str, ...]
    reads: Reads = "text"
    measures: tuple[str, ...] = ()
    likelihood: bool = True
    mixtures: bool = False


# The section `recipe`


class EndRate(Document):
    """A rate that the optimiser's `lr` ends at, instead of a share of the peak; other rates end at the same share."""

    rate: NotNegative


class Schedule(Document):
    """The learning rate: linear warm-up over `warmup`, the peak over `hold`, then `decay` to `floor` times the peak.

    The floor is reached at the last step. `from_zero` counts finished steps, so that the first step's rate is 0.
    """

    warmup: Length
    hold: Length
    decay: Annotated[Choice, Field(description="one schedule, such as cosine, or {polynomial: {power: 2}}")]
    floor: Share | EndRate
    from_zero: bool


NEXT_TOKEN: Final = Choice("next_token")  # the objective of a recipe that names none


class Loss(Document):
    """The terms beside the cross-entropy.

    A share `label_smoothing` of it is of all tokens, equally likely. `z` weighs the mean square of the logits' log
    normaliser. `ahead` weighs the second token ahead, the third, and so on, predicted by the same logits, or by blocks
    of their own (`ahead` of the model).
    """

    label_smoothing: Decay = 0.0
    z: NotNegative = 0.0
    ahead: Annotated[tuple[NotNegative, ...], BeforeValidator(as_tuple)] = ()


class RandAugment(Document):
    """Random transformations of an image: how many after one another, and their magnitude, from 0 to 30."""

    operations: Annotated[int, Field(ge=1, le=14)] = 2
    magnitude: Annotated[int, Field(ge=0, le=30)] = 9


class Augment(Document):
    """Random changes of the images of training batches: see `data/records.py`.

    `mixup` is α of Beta(α, α), from which the share of each of two images that are mixed is drawn (0: not mixed).
    """

    randaugment: Annotated[RandAugment | None, OrNone] = None
    mixup: Annotated[float, BeforeValidator(as_real), Field(ge=0, le=1000, allow_inf_nan=False)] = 0.0


class BatchRamp(Document):
    """A batch that grows linearly from `from` sequences to `batch`, reached after `until` steps (see `schedule.py`)."""

    from_: Annotated[Count, Field(alias="from")]
    until: Length

    @model_serializer
    def _serialised(self) -> dict[str, int | float]:
        return {"from": self.from_, "until": self.until}


class LossScale(Document):
    """The factor of the loss in float16 (see `train/loss.py`): `initial` at first, doubled after `every` steps in a row
    without an overflow, and halved after one.
    """

    initial: Annotated[int, Field(ge=1, le=2**24)] = 65536
    every: Count = 2000


class AverageOfLast(Document):
    """The mean of the weights at `last` checkpoints, `every` so many steps, the last at the end."""

    last: Annotated[int, Field(ge=2)]
    every: Count


class MovingAverage(Document):
    """The exponential moving average of the weights after every step, of decay `ema`."""

    ema: PositiveDecay


class Recipe(Document):
    """How a model is trained. `clip` bounds the global gradient norm (null: no clipping).

    On the `average` of the weights a trial is evaluated once more at its end. `loss_scale` is null where float16 has
    its default. The fields from `loss` on came later: at their defaults a recipe is the same with and without them.
    """

    steps: Count
    batch: Count
    clip: Positive | None
    optimizer: Annotated[Choice, Field(description="one optimiser, such as {adamw: {lr: 1e-3}}")]
    schedule: Schedule
    dtype: Literal["float32", "float64", "bfloat16", "float16"]
    loss: Annotated[Loss, Later] = Loss()
    objective: Annotated[
        Choice, Later, Field(description="one objective, such as next_token or {masked_words: {}}")
    ] = NEXT_TOKEN
    augment: Annotated[Augment, Later] = Augment()
    batch_ramp: Annotated[BatchRamp | None, OrNone, Later, Field(description="none, or {from: 32, until: 60%}")] = None
    average: Annotated[
        AverageOfLast | MovingAverage | None,
        OrNone,
        Later,
        Field(description="none, {last: 10, every: 500} or {ema: 0.999}"),
    ] = None
    loss_scale: Annotated[
        LossScale | None, OrNone, Later, Field(description="none, or {initial: 65536, every: 2000}")
    ] = None

    @field_validator("loss_scale")
    @classmethod
    def _as_none(cls, scale: LossScale | None, info: ValidationInfo) -> LossScale | None:
        """Read the default, written out, as none: the same trial. With another type it stays, and is refused."""
        return None if scale == LossScale() and info.data.get("dtype") == "float16" else scale


class RecipeReader(SectionReader):
    def read(self) -> Recipe | None:
        located = self.located.get("recipe")
        if not isinstance(located, Mapping):
            return self.section("recipe", Recipe)
        plain, schedule = located, located.get("schedule")
        for key in ("optimizer", "objective"):
            plain = without_settings(plain, key)
        decay = None
        if isinstance(schedule, Mapping):
            plain = replaced(plain, "schedule", without_settings(schedule, "decay"))
        recipe = validate(Recipe, self.opened("recipe", plain.entries), self.problems, "recipe", HINTS)
        optimizer = self.chosen(located, OptimizerSpec, "recipe.optimizer")
        if isinstance(schedule, Mapping):
            decay = self.chosen(schedule, ScheduleSpec, "recipe.schedule.decay")
        objective: Choice | None = NEXT_TOKEN
        if "objective" in located:
            objective = self.chosen(located, ObjectiveSpec, "recipe.objective")
        if recipe is None or optimizer is None or decay is None or objective is None:
            return None
        timed = recipe.schedule.model_copy(update={"decay": decay})
        recipe = recipe.model_copy(update={"optimizer": optimizer, "schedule": timed, "objective": objective})
        self._check_lengths(recipe)
        self._check_floor(recipe)
        self._check_ramp(recipe)
        self._check_average(recipe)
        self._check_scale(recipe)
        return recipe

    def read_with(self, over: Mapping, problems: Problems) -> Recipe | None:
        """Read the recipe with `over` laid over the space; mistakes go to `problems`."""
        located = lay_on_space(self.located, over, self.grammar.space, self.grammar.catalogue.of_kind(CorpusSpec))
        origins = Origins(located, Path(self.origins.file), self.origins.tokenizers)
        return RecipeReader(located, self.grammar, problems, origins).read()

    def _check_floor(self, recipe: Recipe) -> None:
        floor, chosen, at = recipe.schedule.floor, recipe.optimizer, ("recipe", "schedule", "floor")
        peak = chosen.settings["lr"]
        if isinstance(floor, EndRate) and floor.rate > peak:
            message = f"the learning rate ends at {floor.rate:g}, above its peak of {peak:g}"
            notes = ("a schedule decays to its floor: lower the floor, or raise the rate",)
            self.origins.add(self.problems, message, at, ("recipe", "optimizer", chosen.name, "lr"), notes=notes)
        decay = recipe.schedule.decay.name
        schedules = self.grammar.catalogue.of_kind(ScheduleSpec)
        if floor != 0 and not schedules[decay].has_floor:
            notes = ("leave it out, or use a schedule that has one, such as linear",)
            self.origins.add(self.problems, f"a {decay} schedule has no floor", at, (*at[:-1], "decay"), notes=notes)

    def _check_lengths(self, recipe: Recipe) -> None:
        lengths = {key: getattr(recipe.schedule, key) for key in ("warmup", "hold")}
        taken = sum(length if isinstance(length, int) else length * recipe.steps for length in lengths.values())
        if taken > recipe.steps + 0.5:
            paths = [("recipe", "schedule", key) for key, length in lengths.items() if length]
            notes = ("a whole number counts steps; a share of them is 5% or 0.05",)
            message = f"warm-up and hold take {round(taken):,} of {recipe.steps:,} steps"
            self.origins.add(self.problems, message, *paths, notes=notes)

    def _check_ramp(self, recipe: Recipe) -> None:
        ramp, at = recipe.batch_ramp, ("recipe", "batch_ramp")
        if ramp is None:
            return
        if ramp.from_ >= recipe.batch:
            message = f"a ramp from {ramp.from_:,} to a batch of {recipe.batch:,} does not grow"
            notes = (f"recipe.batch is where it ends: let it start below {recipe.batch:,}, or leave batch_ramp out",)
            self.origins.add(self.problems, message, (*at, "from"), ("recipe", "batch"), notes=notes)
        growing = counted(ramp.until, recipe.steps)
        if not 1 <= growing <= recipe.steps:
            notes = ("a whole number counts steps; a share of them is 60% or 0.6",)
            message = f"the batch grows over {growing:,} of {recipe.steps:,} steps"
            self.origins.add(self.problems, message, (*at, "until"), ("recipe", "steps"), notes=notes)

    def _check_average(self, recipe: Recipe) -> None:
        average, at = recipe.average, ("recipe", "average")
        if not isinstance(average, AverageOfLast) or (average.last - 1) * average.every < recipe.steps:
            return
        spanned = (average.last - 1) * average.every + 1
        checkpoints = f"the last {average.last:,} checkpoints, every {average.every:,} steps"
        message = f"{checkpoints}, take {spanned:,} steps or more"
        notes = (f"there are {recipe.steps:,}: average fewer checkpoints, or closer ones",)
        self.origins.add(self.problems, message, (*at, "every"), (*at, "last"), ("recipe", "steps"), notes=notes)

    def _check_scale(self, recipe: Recipe) -> None:
        if recipe.loss_scale is not None and recipe.dtype != "float16":
            message = f"recipe.loss_scale is for float16, and recipe.dtype is {recipe.dtype}"
            notes = ("leave it out: other types need no scale; or set recipe.dtype: float16",)
            self.origins.add(self.problems, message, ("recipe", "loss_scale"), ("recipe", "dtype"), notes=notes)
