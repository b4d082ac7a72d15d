"""NSGA-II: generations of 20, each bred from the least dominated and least crowded of those before.

Parents are selected by their Pareto front, and within one front by crowding distance. Children combine the choices of
two parents, and some choices are drawn anew. Choose it for several objectives and some hundred trials: it advances a
Pareto front as a whole, and models nothing.

    Deb et al. 2002, IEEE Trans. Evolutionary Computation 6(2):182, Sec. III. Optuna's implementation.
"""

from __future__ import annotations

from ablate.execute.search.samplers.declare import Document, implements, sampler


@sampler("nsga2", source="Deb et al. 2002, IEEE Trans. Evol. Comput. 6(2):182", objectives="several", version=1)
class Nsga2(Document):
    """No settings."""


from optuna.samplers import BaseSampler, NSGAIISampler

from ablate.execute.search.proposer import POPULATION, SampledProposer
from ablate.grammar.mutate import DerivationSource
from ablate.space.design import Goal


@implements(Nsga2)
def proposer(ground: DerivationSource, seed: int, goals: tuple[Goal, ...], settings: Nsga2) -> SampledProposer:
    """Optuna's NSGA-II draws at random until one generation has values."""
    return SampledProposer(ground, seed, goals, seeded, POPULATION)


def seeded(seed: int) -> BaseSampler:
    return NSGAIISampler(seed=seed, population_size=POPULATION)
