"""Designs as choices of subsets of edits: which blocks are trained, and which contrasts are estimated.

layout.py         DesignArm, Contrast, DesignLayout; the edits between two ends; one edit at a time; ladders over sizes
combinations.py   which combinations of edits are allowed, and which are the same model; descriptions of a factorial
factorial.py      edits and levels combined: factorial, fractional, Plackett-Burman, D-optimal
design_matrix.py  effects as columns and runs as rows: contrasts of levels, aliases, orthogonal and D-optimal runs
"""

from __future__ import annotations

from typing import assert_never

from ablate.plan.designs.factorial import crossed, with_levels
from ablate.plan.designs.layout import (
    Contrast,
    DesignArm,
    DesignLayout,
    add_one_in,
    arm_of,
    difference_between,
    edits_around,
    leave_one_out,
    over_sizes,
    path_of,
)
from ablate.plan.models import Models
from ablate.source.problems import Problems
from ablate.space.design import AddOneIn, DOptimal, Factorial, Fractional, LeaveOneOut, Path, PlackettBurman

__all__ = ["Contrast", "DesignArm", "DesignLayout", "arm_of", "edits_around", "lay_out"]


def lay_out(models: Models, problems: Problems) -> DesignLayout | None:
    """Return the arms and contrasts of a space's design, before equal models are merged; None after a mistake.

    Designs that combine edits have only distinct models as runs, at the sizes of the space.
    """
    space = models.space
    design, ends = space.design, space.design.ends
    if design.search is not None:
        return DesignLayout((arm_of(space, design.search.from_),), ())
    if design.ladder is not None:
        return over_sizes(models, design.ladder, problems)
    if ends is None:
        return DesignLayout(tuple(arm_of(space, name) for name in dict.fromkeys(design.compare or ())), ())
    difference = difference_between(space, ends, problems)
    if difference is None:
        return None
    match ends:
        case Path():
            return path_of(models, ends, difference, problems)
        case LeaveOneOut():
            return leave_one_out(models, ends, difference)
        case AddOneIn():
            return add_one_in(models, ends, difference, problems)
        case Factorial() if ends.vary.factors:
            return with_levels(ends, difference, models, problems)
        case Factorial() | Fractional() | PlackettBurman() | DOptimal():
            return crossed(ends, difference, models, problems)
        case _:
            assert_never(ends)
