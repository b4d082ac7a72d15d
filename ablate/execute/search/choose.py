"""What proposes the blocks of a search, by what the space says of it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from ablate.execute.search.cma_es import CmaProposer
from ablate.execute.search.evolution import EvolutionProposer
from ablate.execute.search.order import Ordered
from ablate.execute.search.proposer import Proposer, RandomProposer
from ablate.execute.search.sampled import SampledProposer
from ablate.grammar.vary import Ground
from ablate.space.design import Goal, Sampler, Search

if TYPE_CHECKING:
    from ablate.execute.search.ground import SearchGround


def proposer_for(search: Search, ground: SearchGround) -> Proposer:
    """Its sampler on `ground`; several of them, differently seeded, where an order chooses among their proposals."""
    goals = tuple(search.objective.values())
    order = search.beforehand.order
    if order is None:
        return sampler_on(ground, search.sampler, search.seed, goals)
    proposers = (sampler_on(ground, search.sampler, _nth_seed(search.seed, n), goals) for n in range(order.of))
    return Ordered(ground, tuple(proposers), order.by)


def sampler_on(ground: Ground, sampler: Sampler, seed: int, goals: tuple[Goal, ...]) -> Proposer:
    """A proposer by the name of its sampler."""
    match sampler:
        case "random":
            return RandomProposer(ground, seed)
        case "evolution":
            return EvolutionProposer(ground, seed, goals)
        case "cmaes":
            return CmaProposer(ground, seed, goals)
        case "tpe" | "gp" | "nsga2":
            return SampledProposer(ground, seed, goals, sampler)


def _nth_seed(seed: int, n: int) -> int:
    """The 31-bit seed of the n-th proposer of a search: the start of the SHA-256 of both numbers."""
    return int.from_bytes(hashlib.sha256(f"order {seed} {n}".encode()).digest()[:4]) >> 1
