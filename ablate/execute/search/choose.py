"""A proposer by the name of its sampler."""

from __future__ import annotations

from ablate.execute.search.evolution import EvolutionProposer
from ablate.execute.search.proposer import Proposer, RandomProposer
from ablate.execute.search.sampled import SampledProposer
from ablate.grammar.grammar import Grammar
from ablate.space.design import Goal, Sampler


def proposer_for(sampler: Sampler, grammar: Grammar, seed: int, goals: tuple[Goal, ...]) -> Proposer:
    """What makes the proposals of a search over `grammar` with these objectives."""
    match sampler:
        case "random":
            return RandomProposer(grammar, seed)
        case "evolution":
            return EvolutionProposer(grammar, seed, goals)
        case "tpe" | "gp" | "nsga2":
            return SampledProposer(grammar, seed, goals, sampler)
