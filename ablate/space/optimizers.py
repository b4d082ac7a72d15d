"""Declarations of optimisers and schedules, and the settings that all shipped optimisers share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Self, TypeAlias, get_args

from pydantic import AfterValidator, BeforeValidator, Field

from ablate.extension.configured import Configured
from ablate.extension.kinds import OPTIMIZER, SCHEDULE, Kind
from ablate.space.documents import Decay, Document, NotNegative, Positive, as_tuple

ParameterKind = Literal["weights", "embedding", "head", "positions", "gains", "scales", "biases"]
"""The kinds of parameters that weight decay can tell apart; `scales` are those of norms."""
PARAMETER_KINDS: tuple[ParameterKind, ...] = get_args(ParameterKind)

Betas: TypeAlias = Annotated[tuple[Decay, Decay], BeforeValidator(as_tuple)]
"""The decays of the running means of the gradient and of its square."""


def _in_order(kinds: tuple[ParameterKind, ...]) -> tuple[ParameterKind, ...]:
    """Sort the kinds and drop duplicates, so that equal recipes are equal however they are written."""
    return tuple(kind for kind in PARAMETER_KINDS if kind in kinds)


class Settings(Document):
    """The settings of every shipped optimiser: a learning rate, one for embeddings, and weight decay.

    `embedding_lr` is the rate of embeddings, positions and an untied head (null: the same as the others). Weight decay
    applies to the kinds of parameters that `decays` names.
    """

    lr: Positive
    embedding_lr: Positive | None
    weight_decay: NotNegative
    decays: Annotated[
        tuple[ParameterKind, ...],
        BeforeValidator(as_tuple),
        AfterValidator(_in_order),
        Field(description=f"a list of {', '.join(PARAMETER_KINDS)}"),
    ]

    def effective(self, steps: int) -> Self:
        """Return the settings without those that have no effect in a run of `steps`."""
        return self.model_copy(update={"embedding_lr": None}) if self.embedding_lr == self.lr else self


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerSpec(Configured):
    """An optimiser; `recipe.optimizer` chooses one. Its settings have a field `lr`."""

    kind: ClassVar[Kind] = OPTIMIZER


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSpec(Configured):
    """A learning-rate schedule; `recipe.schedule.decay` chooses one. `has_floor` says whether it uses the floor."""

    kind: ClassVar[Kind] = SCHEDULE
    has_floor: bool = True
