"""What is known of a block beforehand, choosing among several proposals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import pytest
from grammar_fixtures import grammar
from search_fixtures import World, asked, carried_out, search, surface
from test_execute_search import SMALL

from ablate.block.expression import Block
from ablate.errors import InputError
from ablate.execute.search.proposer import Ordered, Proposal, SampledProposer, proposer_for
from ablate.execute.search.ranking import Result
from ablate.execute.search.samplers import gp, nsga2, tpe
from ablate.execute.search.samplers.cmaes import CmaProposer
from ablate.execute.search.samplers.evolution import EvolutionProposer
from ablate.execute.search.samplers.random import RandomProposer
from ablate.space.design import Order, ZeroCost

pytestmark = pytest.mark.fast
ORDER = Order(by="parameters", of=5)


def measured(proposal: Proposal) -> float:
    return World(SMALL).measure("parameters", proposal.block)


@pytest.mark.parametrize("sampler", ["random", "evolution", "tpe"])
def test_the_least_of_several_proposals_is_made(sampler: str) -> None:
    history = [surface(SMALL, 1)(Random(n).randrange(SMALL.count)) for n in range(12)]
    ordered = proposer_for(asked(sampler, 3, ("min",), order=ORDER), World(SMALL), SMALL.catalogue)
    assert isinstance(ordered, Ordered)
    alone = [one.propose(12, history) for one in ordered.proposers]
    proposal = ordered.propose(12, history)
    assert measured(proposal) == min(map(measured, alone)) < max(map(measured, alone))
    assert proposal.index in {one.index for one in alone if measured(one) == measured(proposal)}
    assert (proposal.passed_over, len(alone)) == (4, 5)
    assert proposal.choices == sum(one.choices for one in alone)
    assert proposal.random == sum(one.random for one in alone)
    assert proposal.refused == sum((Counter(one.refused) for one in alone), Counter())
    assert proposal == proposer_for(asked(sampler, 3, ("min",), order=ORDER), World(SMALL), SMALL.catalogue).propose(
        12, history
    )


def test_what_was_passed_over_is_counted() -> None:
    block_search = search(SMALL, "random", trials=11, order=ORDER)
    list(carried_out(block_search, surface(SMALL, 0)))
    assert block_search.passed_over == 4 * len(block_search.proposed) >= 40
    assert block_search.random_share == block_search.wholly_random == 1
    plain = search(SMALL, "random", trials=11)
    list(carried_out(plain, surface(SMALL, 0)))
    assert plain.passed_over == 0
    assert sum(block_search.refused.values()) > sum(plain.refused.values()) > 0

    def mean(one: Sequence[Proposal]) -> float:
        return sum(map(measured, one)) / len(one)

    assert mean([one.proposal for one in block_search.proposed]) < mean([one.proposal for one in plain.proposed]) - 0.5


@dataclass(frozen=True)
class Fixed:
    """Proposes one derivation."""

    index: int

    def propose(self, k: int, history: Sequence[Result]) -> Proposal:
        return Proposal(self.index, SMALL.derive(self.index), 1, 1, {})


class Blind(World):
    """Measures no number of some blocks."""

    def measure(self, by: ZeroCost, block: Block) -> float:
        return math.nan if block == SMALL.derive(0) else 1.0


def test_what_is_no_number_is_the_worst_and_of_equals_the_first_is_taken() -> None:
    def taken(*indices: int) -> int:
        return Ordered(Blind(SMALL), tuple(map(Fixed, indices)), "start_loss").propose(0, []).index

    assert taken(0, 7) == 7
    assert taken(9, 7) == 9
    assert taken(0) == 0


def test_a_space_says_what_proposes() -> None:
    def made(sampler: str) -> object:
        return proposer_for(asked(sampler, 5, ("min", "max")), World(SMALL), SMALL.catalogue)

    assert made("random") == RandomProposer(World(SMALL), 5)
    assert made("evolution") == EvolutionProposer(World(SMALL), 5, ("min", "max"))
    learns = {"grouped": True, "refusals": True, "asks": 20}
    for sampler, module, startup, also in (
        ("tpe", tpe, 10, learns),
        ("gp", gp, 10, {}),
        ("nsga2", nsga2, 20, {}),
    ):
        assert made(sampler) == SampledProposer(World(SMALL), 5, ("min", "max"), module.seeded, startup, **also)
    with pytest.raises(InputError, match="cmaes has one objective, and 2 are given"):
        made("cmaes")
    rules = "gain: {between: [0.1, 1], points: 5, scale: linear}\nblock: [[residual: {gain: $gain, branch: [mlp]}]]"
    numbers = World(grammar(rules))
    assert proposer_for(asked("cmaes", 5, ("min",)), numbers, SMALL.catalogue) == CmaProposer(numbers, 5, ("min",))
