"""The proposer of a search, as the space specifies it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from ablate.block.catalogue import Catalogue
from ablate.errors import InputError
from ablate.execute.search.preselection import Ordered
from ablate.execute.search.proposer import Proposer
from ablate.extension.loader import implementation
from ablate.grammar.mutate import DerivationSource
from ablate.space.choice import Choice
from ablate.space.design import Goal, Search
from ablate.space.samplers import SamplerSpec

if TYPE_CHECKING:
    from ablate.execute.search.search_space import SearchGround


def proposer_for(search: Search, ground: SearchGround, catalogue: Catalogue) -> Proposer:
    """Return the search's sampler on `ground`; several with different seeds if an order chooses among proposals."""
    goals = tuple(search.objective.values())
    order = search.beforehand.order
    if order is None:
        return sampler_on(ground, search.sampler, search.seed, goals, catalogue)
    seeds = (_nth_seed(search.seed, n) for n in range(order.of))
    proposers = (sampler_on(ground, search.sampler, seed, goals, catalogue) for seed in seeds)
    return Ordered(ground, tuple(proposers), order.by)


def sampler_on(
    ground: DerivationSource, chosen: Choice, seed: int, goals: tuple[Goal, ...], catalogue: Catalogue
) -> Proposer:
    """Build a proposer of the chosen sampler; InputError for several objectives if it supports only one."""
    spec = catalogue.of_kind(SamplerSpec)[chosen.name]
    if len(goals) > 1 and spec.objectives == "one":
        raise InputError(
            f"{spec.name} has one objective, and {len(goals)} are given\n"
            "  = give one of them, or use a sampler for several, such as nsga2"
        )
    proposer: Proposer = implementation(spec)(ground, seed, goals, spec.read(chosen.settings))
    return proposer


def _nth_seed(seed: int, n: int) -> int:
    """Return the 31-bit seed of the n-th proposer of a search: the start of the SHA-256 of both numbers."""
    return int.from_bytes(hashlib.sha256(f"order {seed} {n}".encode()).digest()[:4]) >> 1
