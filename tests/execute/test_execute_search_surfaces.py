"""Whole searches of the shipped grammar, on surfaces fixed beforehand: do they find more than chance does?"""

import ast
import os
import subprocess
import sys
from collections import Counter

import pytest
from reading import transformer
from scipy.stats import wilcoxon
from search_fixtures import best, carried_out, search, surface

from ablate.execute.search.proposer import STARTUP
from ablate.execute.search.search import STUCK
from ablate.grammar.choices import choices

pytestmark = pytest.mark.slow

PROPOSED = """
import random
from reading import transformer
from search_fixtures import proposer, surface
came_to, rng = surface(transformer(), 1), random.Random(4)
history = [came_to(rng.randrange(transformer().count)) for _ in range(25)]
samplers = ("evolution", "tpe", "nsga2", "gp", "cmaes")
print([proposer(sampler, transformer(), 7, ("min",)).propose(25, history).index for sampler in samplers])
"""


def test_another_process_proposes_the_same() -> None:
    """Nothing comes from the order of sets, which differs by process."""
    outputs = set()
    for salt in ("1", "2"):
        surroundings = os.environ | {"PYTHONHASHSEED": salt, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-c", PROPOSED], env=surroundings, capture_output=True, text=True, check=True
        )
        outputs.add(done.stdout)
    assert len(outputs) == 1
    assert len(ast.literal_eval(outputs.pop())) == 5


REPETITIONS, TRIALS = 20, 100


@pytest.fixture(scope="module")
def drawn() -> list[float]:
    """The best of as many uniform draws, on each surface."""
    return [found_by("random", seed) for seed in range(REPETITIONS)]


def found_by(sampler: str, seed: int) -> float:
    found = search(transformer(), sampler, seed=seed, trials=TRIALS)
    list(carried_out(found, surface(transformer(), seed), until=TRIALS))
    return best(found, TRIALS)


@pytest.mark.parametrize("sampler", ["tpe", "evolution", "nsga2"])
def test_samplers_beat_random_on_the_shipped_grammar(sampler: str, drawn: list[float]) -> None:
    """The same number of proposals, repeats counted, on 20 surfaces of choices and their pairs; one-sided Wilcoxon."""
    reached = [found_by(sampler, seed) for seed in range(REPETITIONS)]
    assert wilcoxon(reached, drawn, alternative="less").pvalue < 0.05


def test_random_does_not_beat_random(drawn: list[float]) -> None:
    others = []
    for seed in range(REPETITIONS):
        found = search(transformer(), "random", seed=1000 + seed, trials=TRIALS)
        list(carried_out(found, surface(transformer(), seed)))
        others.append(best(found, TRIALS))
    assert wilcoxon(others, drawn, alternative="less").pvalue > 0.05


def test_gp_says_what_it_leaves_to_chance() -> None:
    block_search = search(transformer(), "gp", trials=20)
    list(carried_out(block_search, surface(transformer(), 0), until=24))
    drawn = [one.proposal.random == one.proposal.choices for one in block_search.proposed]
    known = [one.same_as is not None for one in block_search.proposed]
    stuck = [k >= STUCK and all(known[k - STUCK : k]) for k in range(len(known))]
    assert drawn == [k < STARTUP or stuck[k] for k in range(len(known))]
    assert block_search.wholly_random == sum(drawn) / len(drawn)
    modelled = [one.proposal for one, wholly in zip(block_search.proposed, drawn, strict=True) if not wholly]
    assert 0 < sum(one.random for one in modelled) < 0.5 * sum(one.choices for one in modelled)


def test_cma_es_says_what_it_leaves_to_chance() -> None:
    """It moves the gains between 0.05 and 0.95 and draws all else."""
    block_search = search(transformer(), "cmaes")
    list(carried_out(block_search, surface(transformer(), 0), until=60))
    numbers, others = Counter(), Counter()
    for proposed in block_search.proposed:
        made = choices(transformer().derivations, proposed.proposal.index)
        ordered = sum(choice.choice.ordered for choice in made)
        numbers[proposed.k >= 20] += ordered
        others[proposed.k >= 20] += proposed.proposal.random - (len(made) - ordered)
    assert others[True] < 0.2 * numbers[True]
    assert 0.5 < block_search.random_share < 1


def test_a_thousand_proposals_of_tpe() -> None:
    block_search = search(transformer(), "tpe")
    trained = [job.mark for job in carried_out(block_search, surface(transformer(), 0), until=1000)]
    assert len(trained) == len(set(trained))
    assert block_search.folded == len(block_search.proposed) - len(trained)
    for one in block_search.proposed:
        if one.same_as is not None:
            assert block_search.jobs[one.same_as].mark == one.mark
