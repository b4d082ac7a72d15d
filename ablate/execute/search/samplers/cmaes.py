"""CMA-ES on choices of ordered numbers; every other choice is drawn as in a uniform draw of derivations.

No state is kept, and none is hidden in trials: for each proposal the distribution is rebuilt from the results, told in
order one generation after another, and drawn from with a generator seeded by (seed, k).

Each choice of ordered numbers that a result made is a coordinate from 0 to 1, divided into equal cells, one per number.

* A result says in which cell it was, not where inside. It is told as a uniform draw inside the cell: so the
  distribution does not become much narrower than a cell, and the next cell stays in reach.
* A coordinate that a result did not choose had no effect on its value. It is told as a draw from the current
  distribution of its generation, which is what CMA-ES expects of a coordinate without effect.
* With several trials at once a result may come from a much older distribution. A point that is too far out for the
  current one is moved towards its mean (Hansen 2011, Injecting external solutions into CMA-ES, arXiv:1110.4181).

Before the first generation is told, and if no result made a choice, numbers are drawn uniformly as well;
`Proposal.random` counts all uniform draws. Hansen 2016, The CMA Evolution Strategy: A Tutorial, arXiv:1604.00772, as
implemented in the package `cmaes`, with its default population of 4 + ⌊3 ln n⌋.
"""

from __future__ import annotations

from ablate.execute.search.samplers.declare import Document, implements, sampler


@sampler("cmaes", source="Hansen 2016, arXiv:1604.00772", objectives="one", version=1)
class CmaEs(Document):
    """No settings."""


import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import cmaes
import numpy as np

from ablate.errors import InputError
from ablate.execute.search.proposer import MUTATED, Proposal, generator, mutated
from ablate.execute.search.ranking import Result, told
from ablate.grammar.choices import Decision, OpenChoice, choices, decide
from ablate.grammar.derivation import ordered
from ablate.grammar.mutate import DerivationSource, solved
from ablate.space.design import Goal

MIDDLE, WIDTH = 0.5, 0.3
"""Mean and standard deviation of a coordinate before anything is told: nearly those of a uniform draw."""
ASKS = 100  # the number of draws from the distribution before the last one is repaired


@dataclass(frozen=True)
class CmaProposer:
    """It only caches the choices of derivations. InputError if the grammar has no ordered numbers."""

    ground: DerivationSource
    seed: int
    goals: tuple[Goal, ...]
    _apart: dict[int, tuple[Decision, ...]] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not ordered(self.ground.derivations):
            raise InputError(
                f"cmaes searches ordered numbers, and grammar {self.ground.name} has none\n"
                "  = add some to a rule: {between: [0.1, 1], points: 10, scale: linear}, or use sampler: tpe"
            )

    def propose(self, k: int, history: Sequence[Result]) -> Proposal:
        rng = generator(self.seed, k)
        losses = told(history, self.goals)
        results = [(result.index, loss[0]) for result, loss in zip(history, losses, strict=True) if loss is not None]
        coordinates = self._coordinates(results)
        adapted = self._adapted(results, coordinates)
        guided: dict[str, int] = {}
        made: list[int] = []

        def propose() -> int:
            if len(made) >= ASKS:
                made.append(mutated(self.ground, made[ASKS - 1], 1 + (len(made) - ASKS) // MUTATED, rng))
            else:
                guided.clear()
                guided.update(_drawn(adapted, coordinates, rng))
                made.append(self._decided(guided, rng))
            return made[-1]

        admitted = solved(self.ground, propose)
        final = self._choices(admitted.index)
        unguided = sum(guided.get(choice.name) != choice.taken for choice in final)
        repaired = len(made) > ASKS
        return Proposal(
            admitted.index, admitted.block, len(final), unguided, admitted.refused, repaired, met=admitted.met
        )

    def _coordinates(self, results: Sequence[tuple[int, float]]) -> dict[str, int]:
        made = (taken.choice for index, _ in results for taken in self._choices(index))
        return {choice.name: len(choice.words) for choice in made if choice.ordered}

    def _adapted(self, results: Sequence[tuple[int, float]], coordinates: Mapping[str, int]) -> cmaes.CMA | None:
        if not coordinates:
            return None
        n = len(coordinates)
        adapted = cmaes.CMA(mean=np.full(n, MIDDLE), sigma=WIDTH, bounds=np.tile([0.0, 1.0], (n, 1)), seed=0)
        size = adapted.population_size
        for start in range(0, len(results) - size + 1, size):
            numbered = enumerate(results[start : start + size], start)
            adapted.tell(
                [(self._point(adapted, coordinates, number, index), loss) for number, (index, loss) in numbered]
            )
        return adapted if adapted.generation else None

    def _point(self, adapted: cmaes.CMA, coordinates: Mapping[str, int], number: int, index: int) -> np.ndarray:
        """The point of result `number`: random inside its cells, drawn in coordinates that it did not choose."""
        digest = hashlib.sha256(f"told {self.seed} {number} {index}".encode()).digest()
        rng = random.Random(digest)
        adapted.reseed_rng(int.from_bytes(digest[:4]))
        point: np.ndarray = adapted.ask()
        taken = {choice.name: choice.taken for choice in self._choices(index)}
        for column, (name, n) in enumerate(coordinates.items()):
            if name in taken:
                point[column] = (taken[name] + rng.random()) / n
        return within_reach(adapted, point)

    def _decided(self, guided: Mapping[str, int], rng: random.Random) -> int:
        def chooser(choice: OpenChoice) -> int:
            return guided[choice.name] if choice.name in guided else _uniform(choice, rng)

        return decide(self.ground.derivations, chooser).index

    def _choices(self, index: int) -> tuple[Decision, ...]:
        if index not in self._apart:
            self._apart[index] = choices(self.ground.derivations, index)
        return self._apart[index]


@implements(CmaEs)
def proposer(ground: DerivationSource, seed: int, goals: tuple[Goal, ...], settings: CmaEs) -> CmaProposer:
    return CmaProposer(ground, seed, goals)


def within_reach(adapted: cmaes.CMA, point: np.ndarray) -> np.ndarray:
    """Move a point that is too far out towards the mean: to at most √n + 2n/(n + 2) standard deviations."""
    rotation, lengths = adapted._eigen_decomposition()
    away = point - adapted.mean
    n = len(point)
    distance = float(np.linalg.norm(rotation.T @ away / lengths)) / adapted._sigma
    reach = np.sqrt(n) + 2 * n / (n + 2)
    return point if distance <= reach else adapted.mean + away * (reach / distance)


def _uniform(choice: OpenChoice, rng: random.Random) -> int:
    k = rng.randrange(sum(choice.counts))
    return next(place for place, end in enumerate(accumulate(choice.counts)) if k < end)


def _drawn(adapted: cmaes.CMA | None, coordinates: Mapping[str, int], rng: random.Random) -> dict[str, int]:
    if adapted is None:
        return {}
    adapted.reseed_rng(rng.getrandbits(32))
    point = zip(adapted.ask(), coordinates.items(), strict=True)
    return {name: min(int(at * n), n - 1) for at, (name, n) in point}
