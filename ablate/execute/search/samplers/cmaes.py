"""CMA-ES on choices of numbers in order; every other choice is drawn as a uniform draw of derivations would have it.

No state is kept, and none is hidden in trials: for each proposal the distribution is built anew from the results, told
in their order one generation after another, and drawn from with a generator seeded by (seed, k).

Each choice of numbers in order that a result made is a coordinate, from 0 to 1, its places side by side.

* A result says at which place it was, not where inside. It is told as a uniform draw inside: so the distribution does
  not become much narrower than a place, and the next place stays in reach.
* A coordinate that a result did not choose had no part in what it came to. It is told as a draw from the distribution
  that its generation was told to, which is what CMA-ES puts at a coordinate without effect.
* With several trials at once a result may come from a distribution that is long past. What is too far out for the one
  it is told to is moved towards its mean (Hansen 2011, Injecting external solutions into CMA-ES, arXiv:1110.4181).

Before one generation is told, and where no result made a choice, numbers are drawn so too; `Proposal.random` counts all
that is drawn so. Hansen 2016, The CMA Evolution Strategy: A Tutorial, arXiv:1604.00772, as the package `cmaes` has
it, with its default population of 4 + ⌊3 ln n⌋.
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
from ablate.execute.search.proposer import Proposal, generator
from ablate.execute.search.result import Result, told
from ablate.execute.search.sampled import MUTATED, mutated
from ablate.grammar.choices import Decision, OpenChoice, choices, decide
from ablate.grammar.derivation import ordered
from ablate.grammar.mutate import DerivationSource, solved
from ablate.space.design import Goal

MIDDLE, WIDTH = 0.5, 0.3
"""Mean and standard deviation of a coordinate before anything is told: those of a uniform draw, nearly."""
ASKS = 100
"""How often the distribution is drawn from before its last draw is repaired."""


@dataclass(frozen=True)
class CmaProposer:
    """Proposals of CMA-ES; it keeps only what it has computed of derivations.

    Raises InputError where there are no numbers in order.
    """

    ground: DerivationSource
    seed: int
    goals: tuple[Goal, ...]
    _apart: dict[int, tuple[Decision, ...]] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not ordered(self.ground.derivations):
            raise InputError(
                f"cmaes moves numbers in order, and grammar {self.ground.name} has none\n"
                "  = offer some in a rule: {between: [0.1, 1], points: 10, scale: linear}, or say sampler: tpe"
            )

    def propose(self, k: int, history: Sequence[Result]) -> Proposal:
        """A draw from the distribution that these results make, with a generator seeded by (seed, k)."""
        rng = generator(self.seed, k)
        losses = told(history, self.goals)
        results = [(result.index, loss[0]) for result, loss in zip(history, losses, strict=True) if loss is not None]
        coordinates = self._coordinates(results)
        adapted = self._adapted(results, coordinates)
        said: dict[str, int] = {}
        made: list[int] = []

        def propose() -> int:
            if len(made) >= ASKS:
                made.append(mutated(self.ground, made[ASKS - 1], 1 + (len(made) - ASKS) // MUTATED, rng))
            else:
                said.clear()
                said.update(_drawn(adapted, coordinates, rng))
                made.append(self._decided(said, rng))
            return made[-1]

        found = solved(self.ground, propose)
        final = self._choices(found.index)
        unguided = sum(said.get(one.name) != one.taken for one in final)
        return Proposal(found.index, found.block, len(final), unguided, found.refused, len(made) > ASKS)

    def _coordinates(self, results: Sequence[tuple[int, float]]) -> dict[str, int]:
        """The choices of numbers in order that results made, each with how many numbers it has."""
        made = (one.choice for index, _ in results for one in self._choices(index))
        return {asked.name: len(asked.words) for asked in made if asked.ordered}

    def _adapted(self, results: Sequence[tuple[int, float]], coordinates: Mapping[str, int]) -> cmaes.CMA | None:
        """The distribution once all full generations are told; None where there is none yet."""
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
        """Where result `number` was: inside its places, and anywhere in the coordinates that it did not choose."""
        digest = hashlib.sha256(f"told {self.seed} {number} {index}".encode()).digest()
        rng = random.Random(digest)
        adapted.reseed_rng(int.from_bytes(digest[:4]))
        point: np.ndarray = adapted.ask()
        taken = {one.name: one.taken for one in self._choices(index)}
        for column, (name, n) in enumerate(coordinates.items()):
            if name in taken:
                point[column] = (taken[name] + rng.random()) / n
        return within_reach(adapted, point)

    def _decided(self, said: Mapping[str, int], rng: random.Random) -> int:
        """The derivation of these answers, all others drawn."""

        def chooser(asked: OpenChoice) -> int:
            return said[asked.name] if asked.name in said else _uniform(asked, rng)

        return decide(self.ground.derivations, chooser).index

    def _choices(self, index: int) -> tuple[Decision, ...]:
        if index not in self._apart:
            self._apart[index] = choices(self.ground.derivations, index)
        return self._apart[index]


@implements(CmaEs)
def proposer(ground: DerivationSource, seed: int, goals: tuple[Goal, ...], settings: CmaEs) -> CmaProposer:
    """CMA-ES on the numbers in order that a ground offers."""
    return CmaProposer(ground, seed, goals)


def within_reach(adapted: cmaes.CMA, point: np.ndarray) -> np.ndarray:
    """A point, or where it is too far out what lies on the way there: √n + 2n/(n + 2) standard deviations at most."""
    rotation, lengths = adapted._eigen_decomposition()
    away = point - adapted.mean
    n = len(point)
    distance = float(np.linalg.norm(rotation.T @ away / lengths)) / adapted._sigma
    reach = np.sqrt(n) + 2 * n / (n + 2)
    return point if distance <= reach else adapted.mean + away * (reach / distance)


def _uniform(asked: OpenChoice, rng: random.Random) -> int:
    """An alternative, each with the chance of its share of the derivations."""
    k = rng.randrange(sum(asked.counts))
    return next(place for place, end in enumerate(accumulate(asked.counts)) if k < end)


def _drawn(adapted: cmaes.CMA | None, coordinates: Mapping[str, int], rng: random.Random) -> dict[str, int]:
    """A draw from the distribution, as places; nothing where there is no distribution yet."""
    if adapted is None:
        return {}
    adapted.reseed_rng(rng.getrandbits(32))
    point = zip(adapted.ask(), coordinates.items(), strict=True)
    return {name: min(int(at * n), n - 1) for at, (name, n) in point}
