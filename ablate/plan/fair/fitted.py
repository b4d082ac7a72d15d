"""An arm under one set of terms."""

from __future__ import annotations

from dataclasses import dataclass

from ablate.block.expression import Block
from ablate.plan.designs import DesignArm
from ablate.plan.setting import PLAIN, Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """An arm under one set of terms (by name): the block and the setting that it is trained with."""

    terms: str
    arm: DesignArm
    block: Block
    setting: Setting = PLAIN

    @property
    def as_it_is(self) -> bool:
        """Return whether the terms change nothing about it."""
        return self.setting == self.arm.setting and self.block == self.arm.block

    @property
    def name(self) -> str:
        """The name shown: the arm's, and the terms where they change anything."""
        return self.arm.name if self.as_it_is or not self.terms else f"{self.arm.name}, {self.terms}"


@dataclass(frozen=True, slots=True)
class FairnessResult:
    """Every arm under every set of terms, notes for the screen, and whether more must be measured before all steps are
    known.
    """

    fitted: tuple[Fitted, ...]
    notes: tuple[str, ...] = ()
    open: bool = False
