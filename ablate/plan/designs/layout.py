"""The layout of a design: the blocks that are trained, and the contrasts between them that are estimated."""

from __future__ import annotations

from dataclasses import dataclass

from ablate.block.expression import Block
from ablate.plan.plan import Factors, PlannedLadder
from ablate.plan.setting import Setting
from ablate.space.variants import Changes


@dataclass(frozen=True, slots=True)
class DesignArm:
    """A treatment of a design: its name, block and changes around it, and the edits applied to the design's start.

    `size` are those of its changes that make its size, which the baseline that it is compared with has too.
    """

    name: str
    block: Block
    edits: tuple[str, ...] = ()
    changes: Changes = ()
    size: Changes = ()

    @property
    def setting(self) -> Setting:
        """Its changes as a setting."""
        return Setting(changes=self.changes)


@dataclass(frozen=True, slots=True)
class Contrast:
    """A pair of arms, by name, that differ by `change`; or, with `weights`, a weighted sum of arms.

    `kind` is that of `plan.Comparison`. With weights, and for the effects of a factorial, `before` and `after` are
    empty.
    """

    change: str
    detail: str
    before: str
    after: str
    kind: str = "edit"
    weights: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Layout:
    """The arms and contrasts of a design, and notes on what a constraint left out, with its reason.

    `against` are the arms that are compared with the baseline (None: all), `baseline` is its name (empty: that of the
    judge). The runs of `factors` and the steps of a `ladder` are by arm.
    """

    arms: tuple[DesignArm, ...]
    contrasts: tuple[Contrast, ...]
    notes: tuple[str, ...] = ()
    against: tuple[str, ...] | None = None
    factors: Factors | None = None
    baseline: str = ""
    ladder: PlannedLadder | None = None
