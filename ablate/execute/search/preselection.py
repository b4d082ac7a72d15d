"""The choice among several proposals by a zero-cost measure of their blocks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ablate.execute.search.proposer import Proposal, Proposer
from ablate.execute.search.result import Result
from ablate.space.design import ZeroCost

if TYPE_CHECKING:
    from ablate.execute.search.search_space import SearchGround


@dataclass(frozen=True)
class Ordered:
    """A proposer that takes, of the proposals of several, the one with the smallest `by`; of equal ones the first.

    It reports the refusals and the choices of all of them.
    """

    ground: SearchGround
    proposers: tuple[Proposer, ...]
    by: ZeroCost

    def propose(self, k: int, history: Sequence[Result]) -> Proposal:
        """Return the best of as many proposals as there are proposers."""
        made = [proposer.propose(k, history) for proposer in self.proposers]
        refused: Counter[str] = Counter()
        for proposal in made:
            refused.update(proposal.refused)
        return replace(
            min(made, key=self._measure),
            choices=sum(proposal.choices for proposal in made),
            random=sum(proposal.random for proposal in made),
            refused=dict(refused),
            passed_over=len(made) - 1,
            met=tuple(dict.fromkeys(index for proposal in made for index in proposal.met)),
        )

    def _measure(self, proposal: Proposal) -> float:
        """Return the measure of a proposal; NaN counts as the worst."""
        value = self.ground.measure(self.by, proposal.block)
        return math.inf if math.isnan(value) else value
