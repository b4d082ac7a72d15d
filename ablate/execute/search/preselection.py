"""Several proposals for one: what is cheap to know of a block beforehand chooses among them."""

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
    """Of the proposals of several proposers, that of the least `by`; of equal ones the first.

    It says what was refused on the way to all of them, and the choices made for all of them.
    """

    ground: SearchGround
    proposers: tuple[Proposer, ...]
    by: ZeroCost

    def propose(self, k: int, history: Sequence[Result]) -> Proposal:
        """The least of as many proposals as there are proposers."""
        made = [proposer.propose(k, history) for proposer in self.proposers]
        refused: Counter[str] = Counter()
        for one in made:
            refused.update(one.refused)
        return replace(
            min(made, key=self._measure),
            choices=sum(one.choices for one in made),
            random=sum(one.random for one in made),
            refused=dict(refused),
            passed_over=len(made) - 1,
        )

    def _measure(self, proposal: Proposal) -> float:
        """What it comes to; one that is not a number is the worst."""
        found = self.ground.measure(self.by, proposal.block)
        return math.inf if math.isnan(found) else found
