"""What a design comes to: the blocks that are trained, and the differences between them that it asks about."""

from __future__ import annotations

from dataclasses import dataclass

from ablate.block.expression import Block
from ablate.plan.plan import Factors


@dataclass(frozen=True, slots=True)
class DesignArm:
    """A block that a design asks for: its name, and the edits applied to the design's start."""

    name: str
    block: Block
    edits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Contrast:
    """A pair of arms, by name, that differ by `change`; or, with `weights`, what arms sum up to, each so many times.

    `kind` is that of `plan.Comparison`. With weights, and of the effects of a factorial, `before` and `after` are
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
    """What a design comes to: arms, contrasts, and what a constraint left out, with its reason.

    `against` are the arms that are compared with the baseline (None: all). The runs of `factors` are by arm.
    """

    arms: tuple[DesignArm, ...]
    contrasts: tuple[Contrast, ...]
    notes: tuple[str, ...] = ()
    against: tuple[str, ...] | None = None
    factors: Factors | None = None
