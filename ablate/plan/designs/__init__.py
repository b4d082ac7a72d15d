"""Designs as choices of subsets of edits: which blocks are trained, and which contrasts are estimated.

layout.py        DesignArm, Contrast, Layout: the result of a design
lay_out.py       from a space's design to its layout
between.py       the edits between the two ends, in the block and around it
single.py        one edit at a time: path, leave one out, add one in
factorial.py     edits combined: factorial, fractional, Plackett-Burman, D-optimal
varied.py        edits and factors with several levels combined
ladder.py        every treatment at every size of a ladder
coding.py        the levels of a factor as contrasts: trend, curvature, each against the first
combinations.py  which combinations of edits are allowed, and which are the same model
regular.py       orthogonal runs, their resolution and generators
optimal.py       D-optimal runs among the available ones
terms.py         effects as columns: what can be estimated, and the alias table
wording.py       descriptions of a factorial
"""

from ablate.plan.designs.between import arm_of, edits_around
from ablate.plan.designs.lay_out import lay_out
from ablate.plan.designs.layout import Contrast, DesignArm, Layout

__all__ = ["Contrast", "DesignArm", "Layout", "arm_of", "edits_around", "lay_out"]
