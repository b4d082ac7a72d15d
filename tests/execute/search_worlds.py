"""Surfaces over grammars for tests of searches: what a derivation comes to, fixed by a seed, nothing trained."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from itertools import combinations
from statistics import NormalDist

from ablate.execute.search.choose import proposer_for
from ablate.execute.search.result import Result
from ablate.execute.search.search import Proposed, Search
from ablate.grammar.decide import choices
from ablate.grammar.grammar import Grammar
from ablate.space.design import Goal, Sampler

Surface = Callable[[int], Result]


def score(seed: int, *words: object) -> float:
    """A standard normal number that stands for these words."""
    digest = hashlib.sha256("|".join(map(str, (seed, *words))).encode()).digest()
    return NormalDist().inv_cdf((int.from_bytes(digest[:6]) + 0.5) / 2**48)


def surface(grammar: Grammar, seed: int, *, objectives: int = 1, diverged: float = 0.0) -> Surface:
    """The mean score of the choices and, half as much, of their pairs; a share of the derivations diverges.

    A mean times the root of the number: what has more choices is not better or worse for it.
    """

    def came_to(index: int) -> Result:
        if diverged and (score(seed, "diverged", index)) < NormalDist().inv_cdf(diverged):
            return Result(index, "diverged")
        made = [(one.name, one.taken) for one in choices(grammar.derivations, index)]
        pairs = list(combinations(made, 2))
        values = tuple(
            sum(score(seed, which, *one) for one in made) / math.sqrt(len(made) or 1)
            + 0.5 * sum(score(seed, which, *a, *b) for a, b in pairs) / math.sqrt(len(pairs) or 1)
            for which in range(objectives)
        )
        return Result(index, "finished", values)

    return came_to


def search(
    grammar: Grammar,
    sampler: Sampler,
    *,
    seed: int = 0,
    goals: tuple[Goal, ...] = ("min",),
    parallel: int = 1,
    trials: int | None = None,
) -> Search:
    return Search(grammar, proposer_for(sampler, grammar, seed, goals), parallel=parallel, trials=trials)


def carried_out(found: Search, surface: Surface, *, until: int | None = None) -> Iterator[Proposed]:
    """Ask and tell one after another, until the search is over or `until` proposals are there."""
    while (until is None or len(found.proposed) < until) and (one := found.ask()) is not None:
        found.tell(one.k, surface(one.proposal.index))
        yield one


def best(found: Search, proposals: int) -> float:
    """The lowest first value among so many proposals, repeats counted."""
    results = [found.result(one.k) for one in found.proposed[:proposals]]
    return min(result.values[0] for result in results if result is not None and result.values)
