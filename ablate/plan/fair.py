"""Equal terms: what each block's model and training become where a space declares what is to be equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ablate.block.expression import Block
from ablate.plan.designs import Arm
from ablate.plan.known import Known
from ablate.plan.models import Models
from ablate.plan.setting import PLAIN, Setting
from ablate.source.problems import Problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """An arm under one set of terms (by name): the block and the setting that it is trained with."""

    terms: str
    arm: Arm
    block: Block
    setting: Setting = PLAIN

    @property
    def name(self) -> str:
        """The name shown: the arm's, and the terms where they change anything."""
        return self.arm.name if self.setting.plain or not self.terms else f"{self.arm.name}, {self.terms}"


@dataclass(frozen=True, slots=True)
class Terms:
    """What fairness comes to: every arm under every set of terms, notes for the screen, and whether more must be
    measured before all steps are known.
    """

    fitted: tuple[Fitted, ...]
    notes: tuple[str, ...] = ()
    open: bool = False


def fit(arms: Sequence[Arm], models: Models, known: Known, problems: Problems) -> Terms:
    """Every arm under every set of terms; the baseline is under all of them as the space has it."""
    del known, problems
    return Terms(
        tuple(Fitted(terms=terms, arm=arm, block=arm.block) for terms in models.space.fair.terms for arm in arms)
    )


def by_arm(fitted: Sequence[Fitted]) -> Mapping[tuple[str, str], Fitted]:
    """By terms and arm."""
    return {(one.terms, one.arm.name): one for one in fitted}
