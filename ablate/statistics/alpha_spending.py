"""What is left of α for a question that is judged again, since more seeds were trained to decide it.

Whoever judges at α, trains the seeds advised where nothing is decided, and judges at α anew errs with more than α: in
9.1 % of tables at 5 %. So the k-th judgement of a question is held at 0.8 of what those before it have left of α:

    α_k = 0.8·0.2^(k-1)·α            4 %, 0.8 %, 0.16 %, … of 5 %;  their sum is below α however many there are

Each judgement errs in at most α_k of tables, and chances add up at most, whatever seeds it shares with others and
whatever made one judge again (alpha spending, Lan & DeMets 1983, of which some is always left). Most goes to the first:
most questions are judged once, where 4 % cost little power against 5 %.
"""

from __future__ import annotations

KEPT = 0.2
"""The share of what is left of α that a judgement leaves to those after it."""


def spent(left: float, *, looks: bool = False) -> float:
    """The share of α that a judgement is held at when the share `left` is left of it.

    Looks at more and more seeds spend all of it: their boundaries allow for each of them, and leave nothing.

    >>> [round(5 * spent(left), 2) for left in (1, 0.2, 0.04)], spent(0.2, looks=True)
    ([4.0, 0.8, 0.16], 0.2)
    """
    return left if looks else (1 - KEPT) * left
