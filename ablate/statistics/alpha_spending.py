"""The α left for a question that is judged again, because more seeds were trained to decide it.

Judging at α, training the advised seeds where nothing is decided, and judging at α again errs more often than α: in
9.1 % of tables at 5 %. So the k-th judgement of a question spends 0.8 of the α that earlier ones have left:

    α_k = 0.8·0.2^(k-1)·α            4 %, 0.8 %, 0.16 %, … of 5 %;  their sum is below α however many there are

Each judgement errs in at most α_k of tables, and these chances at most add up, whatever seeds judgements share and
whatever led to judging again (alpha spending, Lan & DeMets 1983, with some α always left). Most goes to the first: most
questions are judged once, where 4 % instead of 5 % costs little power.
"""

from __future__ import annotations

KEPT = 0.2
"""The share of the remaining α that a judgement leaves to later ones."""


def spent(left: float, *, looks: bool = False) -> float:
    """Return the share of α that a judgement spends when the share `left` of it remains.

    With `looks` (interim analyses) all of it is spent: their boundaries allow for every look, and leave nothing.

    >>> [round(5 * spent(left), 2) for left in (1, 0.2, 0.04)], spent(0.2, looks=True)
    ([4.0, 0.8, 0.16], 0.2)
    """
    return left if looks else (1 - KEPT) * left
