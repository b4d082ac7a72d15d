'''How a sampler declares itself: the names that every file of a sampler starts from.

Such a file has two halves. The head declares a class of settings, without what makes proposals, so that checking and
planning stay quick. Below the first import of `ablate.execute.search.proposer` (or of torch, Optuna or cmaes) stands a
function that makes a `Proposer`.

    """Neighbour: the best derivation so far, with one subtree derived anew."""
    from ablate.execute.search.samplers.declare import Count, Document, implements, sampler

    @sampler("neighbour", source="this work", objectives="one")
    class Neighbour(Document):
        """After `startup` results; uniform draws before."""

        startup: Count

    from dataclasses import dataclass
    from ablate.execute.search.proposer import Proposal, generator, uniform
    from ablate.execute.search.ranking import told
    from ablate.grammar.choices import choices
    from ablate.grammar.mutate import DerivationSource, mutate, solved
    from ablate.space.design import Goal

    @dataclass(frozen=True)
    class NeighbourProposer:
        ground: DerivationSource
        seed: int
        goals: tuple[Goal, ...]
        startup: int

        def propose(self, k, history):
            rng, losses = generator(self.seed, k), told(history, self.goals)
            ended = [(loss, result.index) for loss, result in zip(losses, history) if loss is not None]
            if len(ended) < self.startup:
                return uniform(self.ground, rng)
            _, best = min(ended)
            admitted = solved(self.ground, lambda: mutate(self.ground.derivations, best, rng))
            made = choices(self.ground.derivations, admitted.index)
            kept = {(choice.name, choice.taken) for choice in choices(self.ground.derivations, best)}
            anew = sum((choice.name, choice.taken) not in kept for choice in made)
            return Proposal(admitted.index, admitted.block, len(made), anew, admitted.refused, met=admitted.met)

    @implements(Neighbour)
    def proposer(
        ground: DerivationSource, seed: int, goals: tuple[Goal, ...], settings: Neighbour
    ) -> NeighbourProposer:
        return NeighbourProposer(ground, seed, goals, settings.startup)

A space chooses it by `sampler: {neighbour: {startup: 10}}`; one without settings by its name alone. The function is
called once per search, or once for each of several proposers if an order chooses among them. Its result implements the
protocol of `proposer.py`: the same seed, k and history give the same proposal, and no state is kept between two.
'''

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, get_args

from ablate.extension.declaration import DeclarationError, DeclarationFault, declare_settings, implements
from ablate.space.design import Objectives, SamplerSpec
from ablate.space.documents import Count, Document, NotNegative, Positive, Share

__all__ = ["Count", "Document", "NotNegative", "Positive", "Share", "implements", "sampler"]

S = TypeVar("S", bound=Document)


def sampler(name: str, *, source: str = "", version: int = 1, objectives: Objectives) -> Callable[[type[S]], type[S]]:
    """Declare a sampler by its settings; the first line of its file is what `ablate list samplers` shows.

    A sampler of `one` objective is refused if a search has more. `version` is that of its proposals: raise it when a
    change of the code changes them.

    Raises DeclarationError for a class that cannot be its settings, with everything that is wrong with it.
    """
    declare = declare_settings(SamplerSpec, name, source=source, version=version, objectives=objectives)

    def declared(cls: type[S]) -> type[S]:
        if objectives not in get_args(Objectives):
            message = f"a sampler has one objective or several, not {objectives!r}"
            raise DeclarationError(
                cls.__qualname__,
                (DeclarationFault(message, "objectives", ('use objectives="one" or objectives="several"',)),),
            )
        return declare(cls)

    return declared
