"""Declarations of optimisers and schedules, and the settings that all shipped optimisers share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple, Self, TypeAlias, get_args

from pydantic import AfterValidator, BeforeValidator, Field

from ablate.extension.configured import ADDED, Configured
from ablate.extension.kinds import OPTIMIZER, SCHEDULE, Kind
from ablate.space.documents import Decay, Document, NotNegative, Positive, as_tuple

ParameterKind = Literal["weights", "embedding", "head", "positions", "gains", "scales", "biases"]
"""The kinds of parameters that rates and weight decay can tell apart; `scales` are those of norms."""
PARAMETER_KINDS: tuple[ParameterKind, ...] = get_args(ParameterKind)

RATES: Final[Mapping[ParameterKind, tuple[str, ...]]] = {
    "embedding": ("embedding_lr",),
    "positions": ("embedding_lr",),
    "head": ("head_lr", "embedding_lr"),
    "scales": ("norm_lr",),
    "biases": ("norm_lr",),
    "gains": ("norm_lr",),
}
"""The settings that may have the rate of a kind; the first that is given counts, and if none is, the rate of others."""
OTHERS: Final = "weights"
"""The name of the parameters that have the rate `lr`."""
GROUPS: Final[Mapping[str, str]] = {"embedding_lr": "embedding", "head_lr": "head", "norm_lr": "norms"}
"""The name of the parameters that have a rate of their own."""
EACH: Final[Mapping[str, ParameterKind]] = {"embedding": "embedding", "head": "head", "norms": "scales"}
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
    head_lr: Positive | None = Field(default=None, json_schema_extra={ADDED: True})
    norm_lr: Positive | None = Field(default=None, json_schema_extra={ADDED: True})
    weight_decay: NotNegative
    decays: Annotated[
        tuple[ParameterKind, ...],
        BeforeValidator(as_tuple),
        AfterValidator(_in_order),
        Field(description=f"a list of {', '.join(PARAMETER_KINDS)}"),
    ]

    rule: ClassVar[str] = ""
    """The rule that updates matrices, of an optimiser that has another for the rest."""

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
