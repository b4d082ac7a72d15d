"""Evolution on derivations: the best so far, mutated by re-derivation and crossed over at equal rules.

Until 10 derivations have results, it draws uniformly; then each proposal is a child of the 10 best. A parent is the
better of two of them, drawn uniformly. Half of the children take a subtree from a second parent; the others, and half
of these, have one subtree derived anew, uniformly. Where values are varied beside the grammar, half of these changes
are of a value, a number to one nearby. Choose it where blocks differ in structure, not in numbers: it models nothing,
and its proposals are near good results.

    Koza 1992, Genetic Programming, MIT Press, Ch. 6; on derivations of a grammar: Whigham 1995, Grammatically-based
    Genetic Programming. Several objectives are ranked as in Deb et al. 2002, IEEE Trans. Evol. Comput. 6(2):182
"""

from __future__ import annotations

from ablate.execute.search.samplers.declare import Document, implements, sampler


@sampler("evolution", source="Whigham 1995, Grammatically-based Genetic Programming", objectives="several", version=1)
class Evolution(Document):
    """No settings."""


import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ablate.execute.search.proposer import Proposal, generator, uniform
from ablate.execute.search.ranking import Result, ranked, told
from ablate.grammar.choices import choices
from ablate.grammar.mutate import DerivationSource, crossover, mutate, solved
from ablate.space.design import Goal

Child: TypeAlias = tuple[int, int]
"""A derivation, and the derivation before its mutation: a parent, or the crossover of two."""
POPULATION = 10
CROSSED = 0.5
"""The share of children that take a subtree from a second parent; the others, and half of these, are mutated."""
FRESH = 100  # the number of attempts at a child that is not known already before a known one is accepted


@dataclass(frozen=True)
class EvolutionProposer:
    """Uniform draws until `population` derivations have results, then children of the best. A child that has a result
    already is drawn again. `Proposal.random` counts the choices that a mutation has changed."""

    ground: DerivationSource
    seed: int
    goals: tuple[Goal, ...]
    population: int = POPULATION

    def propose(self, k: int, history: Sequence[Result]) -> Proposal:
        rng = generator(self.seed, k)
        losses = {result.index: loss for result, loss in zip(history, told(history, self.goals), strict=True) if loss}
        if len(losses) < self.population:
            return uniform(self.ground, rng)
        places = list(losses)
        best = [places[i] for i in ranked(list(losses.values()))[: self.population]]
        known = {result.index for result in history if result.outcome != "refused"}
        before: dict[int, int] = {}

        def propose() -> int:
            child, before[child] = self._unknown(best, known, rng)
            return child

        admitted = solved(self.ground, propose)
        made = choices(self.ground.derivations, admitted.index)
        kept = {(choice.name, choice.taken) for choice in choices(self.ground.derivations, before[admitted.index])}
        unguided = sum((choice.name, choice.taken) not in kept for choice in made)
        return Proposal(admitted.index, admitted.block, len(made), unguided, admitted.refused, met=admitted.met)

    def _unknown(self, best: Sequence[int], known: set[int], rng: random.Random) -> Child:
        for _ in range(FRESH):
            child = self._child(best, rng)
            if child[0] not in known:
                return child
        return child

    def _child(self, best: Sequence[int], rng: random.Random) -> Child:
        parent = _tournament(best, rng)
        if rng.random() < CROSSED:
            child = crossover(self.ground.derivations, parent, _tournament(best, rng), rng)
            if child is not None and rng.random() < 0.5:
                return child, child
            parent = parent if child is None else child
        return mutate(self.ground.derivations, parent, rng), parent


@implements(Evolution)
def proposer(ground: DerivationSource, seed: int, goals: tuple[Goal, ...], settings: Evolution) -> EvolutionProposer:
    return EvolutionProposer(ground, seed, goals)


def _tournament(best: Sequence[int], rng: random.Random) -> int:
    return best[min(rng.randrange(len(best)), rng.randrange(len(best)))]
