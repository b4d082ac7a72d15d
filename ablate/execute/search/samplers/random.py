"""Random: uniform draws from the derivations that no constraint refuses.

    P(d) = 1 / |A|        for each derivation d in A, the admitted ones

It uses no results, so it is the baseline for every other sampler. In spaces where few of the choices matter it is far
better than a grid.

    Bergstra & Bengio 2012, Random Search for Hyper-Parameter Optimization, JMLR 13:281
"""

from __future__ import annotations

from ablate.execute.search.samplers.declare import Document, implements, sampler


@sampler("random", source="Bergstra & Bengio 2012, JMLR 13:281", objectives="several", version=1)
class Random(Document):
    """No settings."""


from collections.abc import Sequence
from dataclasses import dataclass

from ablate.execute.search.proposer import Proposal, generator, uniform
from ablate.execute.search.ranking import Result
from ablate.grammar.mutate import DerivationSource
from ablate.space.design import Goal


@dataclass(frozen=True)
class RandomProposer:
    ground: DerivationSource
    seed: int

    def propose(self, k: int, history: Sequence[Result]) -> Proposal:
        return uniform(self.ground, generator(self.seed, k))


@implements(Random)
def proposer(ground: DerivationSource, seed: int, goals: tuple[Goal, ...], settings: Random) -> RandomProposer:
    return RandomProposer(ground, seed)
