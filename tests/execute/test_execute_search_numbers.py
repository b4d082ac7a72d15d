"""Numbers in order: samplers are to see that neighbours are alike, and CMA-ES is to move nothing else."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from statistics import fmean

import numpy as np
import pytest
from cmaes import CMA
from grammar_fixtures import grammar
from scipy.stats import chisquare, wilcoxon
from search_fixtures import World, proposer, score

from ablate.errors import InputError
from ablate.execute.search.proposer import Proposer, some_place
from ablate.execute.search.ranking import Result
from ablate.execute.search.samplers.cmaes import CmaProposer, within_reach
from ablate.grammar.choices import choices, decide
from ablate.grammar.grammar import Grammar

PLACES = 21
NUMBER = f"number: {{between: [0.01, 1], points: {PLACES}, scale: log}}"
SPHERE = grammar(
    f"""{NUMBER}
activation: [relu, gelu, silu]
block:
  - - residual: {{gain: $number, skip: $number, branch: [mlp: {{activation: $activation, input_scale: $number}}]}}
    - residual: {{gain: $number, branch: [attention]}}"""
)
LINE = grammar("block: [residual: {gain: {between: [0, 99.9], points: 1000, scale: linear}, branch: [mlp]}]")
SOMETIMES = grammar(f"{NUMBER}\nblock: [[mlp], [attention], [residual: {{gain: $number, branch: [mlp]}}]]")
MODELS: tuple[str, ...] = ("tpe", "gp", "cmaes")
Value = Callable[[int], float]


def made(sampler: str, small: Grammar, seed: int = 0) -> Proposer:
    return proposer(sampler, small, seed, ("min",))


def finished(indices: Sequence[int], value: Value) -> list[Result]:
    return [Result(index, "finished", (value(index),)) for index in indices]


def places(small: Grammar, index: int) -> dict[str, int]:
    return {one.name: one.taken for one in choices(small.derivations, index) if one.choice.ordered}


def sphere(seed: int) -> Value:
    """The squared distance from a place that the seed draws, places side by side in [0, 1]; words matter a little."""

    def value(index: int) -> float:
        total = 0.0
        for choice in choices(SPHERE.derivations, index):
            if choice.choice.ordered:
                best = random.Random(f"{seed} {choice.name}").random()
                total += ((choice.taken + 0.5) / PLACES - best) ** 2
            else:
                total += 0.05 * choice.taken
        return total

    return value


def best(proposer: Proposer, value: Value, trials: int) -> float:
    history: list[Result] = []
    for k in range(trials):
        history += finished([proposer.propose(k, history).index], value)
    return min(result.values[0] for result in history)


@pytest.mark.parametrize("sampler", [pytest.param("gp", marks=pytest.mark.slow), "tpe"])
def test_proposals_come_near_to_what_was_good(sampler: str) -> None:
    """At places that no result was at, as only a sampler that knows the order can."""
    rng = random.Random(2)
    history = finished([rng.randrange(1000) for _ in range(60)], lambda index: abs(index - 700))
    found = [made(sampler, LINE, seed).propose(60, history).index for seed in range(12)]
    assert fmean(abs(index - 700) for index in found) < 90
    assert set(found) - {result.index for result in history}
    mixed = finished([result.index for result in history], lambda index: score(5, index))
    others = [made(sampler, LINE, seed).propose(60, mixed).index for seed in range(12)]
    assert fmean(abs(index - 700) for index in others) > 90  # so that the first could fail


@pytest.mark.full
@pytest.mark.parametrize("w", [1, 8])
def test_cma_es_comes_near_to_what_is_good(w: int) -> None:
    """It learns from what it proposed itself, be it w results later."""

    def end(value: Value) -> float:
        used, history = made("cmaes", LINE), []
        for k in range(120):
            history += finished([used.propose(k, history[: max(0, k - w + 1)]).index], value)
        return fmean(abs(result.index - 700) for result in history[-20:])

    assert end(lambda index: abs(index - 700)) < 90
    assert end(lambda index: score(5, index)) > 90


@pytest.mark.parametrize("sampler", [pytest.param("gp", marks=pytest.mark.slow), "tpe", "cmaes", "nsga2"])
def test_numbers_that_not_every_trial_chose(sampler: str) -> None:
    """All samplers answer them from the results, though a third of the results say nothing of them."""
    rng = random.Random(1)
    history = finished([rng.randrange(SOMETIMES.count) for _ in range(40)], lambda index: score(1, index))
    history += finished([0, 1, 0, 1, 1, 0] * 4, lambda index: score(2, index))
    answered = 0
    for seed in range(12):
        proposal = made(sampler, SOMETIMES, seed).propose(64, history)
        numbers = len(places(SOMETIMES, proposal.index))
        assert proposal.choices == 1 + numbers
        answered += numbers and proposal.random < proposal.choices
        assert made(sampler, SOMETIMES, seed).propose(64, history) == proposal
    assert answered


@pytest.mark.fast
def test_a_place_where_none_was_chosen_favours_none() -> None:
    found = Counter(some_place("block/number", index, PLACES) for index in range(4000))
    assert chisquare([found[place] for place in range(PLACES)]).pvalue > 1e-3
    assert len({some_place(f"block/number#{n}", 7, PLACES) for n in range(50)}) > 10  # nor goes with another choice


@pytest.mark.fast
def test_what_is_told_is_within_reach() -> None:
    """√n + 2n/(n + 2) standard deviations, by the covariance itself, once it is round no more."""
    adapted = CMA(mean=np.full(3, 0.5), sigma=0.3, seed=1)
    for _ in range(20):
        points = [adapted.ask() for _ in range(adapted.population_size)]
        adapted.tell([(point, float(np.sum([1, 10, 100] * point**2))) for point in points])
    covariance = adapted._sigma**2 * adapted._C
    assert np.linalg.cond(covariance) > 5

    def deviations(point: np.ndarray) -> float:
        away = point - adapted.mean
        return float(np.sqrt(away @ np.linalg.solve(covariance, away)))

    reach = np.sqrt(3) + 6 / 5
    for direction in np.random.default_rng(0).normal(size=(20, 3)):
        unit = direction / deviations(adapted.mean + direction)
        far, near = adapted.mean + 50 * unit, adapted.mean + 0.9 * reach * unit
        assert deviations(within_reach(adapted, far)) == pytest.approx(reach)
        np.testing.assert_allclose(within_reach(adapted, far) - adapted.mean, reach * unit, rtol=1e-6, atol=1e-12)
        assert np.array_equal(within_reach(adapted, near), near)


@pytest.mark.full
def test_cma_es_draws_all_else() -> None:
    history = finished(random.Random(3).sample(range(SPHERE.count), 40), sphere(0))
    words = Counter()
    for seed in range(120):
        found = made("cmaes", SPHERE, seed).propose(40, history)
        decisions = choices(SPHERE.derivations, found.index)
        assert (found.choices, found.random) == (5, 1)
        words.update(one.taken for one in decisions if not one.choice.ordered)
    assert chisquare([words[word] for word in range(3)]).pvalue > 1e-3


def test_cma_es_knows_nothing_before_one_generation() -> None:
    """Eight results for four numbers, of which those without a value are none."""
    drawn = random.Random(3).sample(range(SPHERE.count), 8)
    history = finished(drawn, sphere(0))
    assert made("cmaes", SPHERE).propose(8, history).random == 1
    for fewer in (history[:7], [*history[:7], Result(drawn[7], "bug")]):
        assert made("cmaes", SPHERE).propose(8, fewer).random == 5


@pytest.mark.parametrize("diverged", [False, True])
def test_cma_es_is_a_function_of_seed_number_and_history(diverged: bool) -> None:
    history = finished(random.Random(3).sample(range(SPHERE.count), 50), sphere(0))
    if diverged:
        history[4] = Result(history[4].index, "diverged")
    used = made("cmaes", SPHERE, 7)
    for k in (0, 9, 31, 49):
        used.propose(k, history[:k])
    proposal = used.propose(50, history)
    assert made("cmaes", SPHERE, 7).propose(50, history) == proposal
    others = {made("cmaes", SPHERE, 7).propose(k, history).index for k in range(51, 60)}
    others |= {made("cmaes", SPHERE, seed).propose(50, history).index for seed in range(6)}
    assert len(others - {proposal.index}) > 10


def test_what_did_not_choose_a_number_does_not_move_it() -> None:
    """Against results at one end only, which do."""
    ground = World(SOMETIMES)
    without = finished([0, 1] * 20, lambda index: score(3, index))
    lowest = finished([2, 3, 4, 5] * 10, lambda index: index)
    rest = finished([12], lambda index: 1.0)

    def centre(history: list[Result]) -> float:
        found = (CmaProposer(ground, seed, ("min",)).propose(0, history).index for seed in range(90))
        return fmean((place + 0.5) / PLACES for index in found for place in places(SOMETIMES, index).values())

    assert abs(centre([*rest, *without]) - 0.5) < 0.15
    assert centre([*rest, *lowest]) < 0.2


def test_cma_es_keeps_to_the_constraints() -> None:
    """A number and a word that it may not have: what it is drawn to is refused, and so repaired or drawn again."""
    small = grammar(
        f"{NUMBER}\nactivation: [relu, gelu]\n"
        "block: [residual: {gain: $number, branch: [mlp: {activation: $activation}]}]",
        constraints="- {forbid: {mlp_residual.gain: [0.01, 0.0125893]}, because: too low}\n"
        "- {forbid: {mlp.activation: gelu}, because: no gelu}",
    )
    lowest = finished([0, 1] * 40, lambda index: index)
    found = [made("cmaes", small, seed).propose(80, lowest) for seed in range(20)]
    assert not any(small.refusals(one.block) for one in found)
    assert sum((Counter(one.refused) for one in found), Counter()).keys() == {"too low", "no gelu"}
    nothing = grammar(
        f"{NUMBER}\nblock: [residual: {{gain: $number, branch: [mlp]}}]",
        constraints="- {forbid: {mlp_residual.gain: ["
        + ", ".join(_words(NUMBER)[:-1])
        + "]}, because: the last one only}",
    )
    far = made("cmaes", nothing).propose(80, lowest)
    assert (far.index, far.repaired) == (PLACES - 1, True)


def _words(rule: str) -> tuple[str, ...]:
    small = grammar(f"{rule}\nblock: [residual: {{gain: $number, branch: [mlp]}}]")
    return choices(small.derivations, 0)[0].choice.words


@pytest.mark.fast
def test_what_cma_es_cannot_do() -> None:
    with pytest.raises(InputError, match="cmaes has one objective, and 2 are given"):
        proposer("cmaes", SPHERE, 0, ("min", "max"))
    with pytest.raises(InputError, match="grammar small has none"):
        made("cmaes", grammar("block: [mlp, attention]"))


REPETITIONS, TRIALS = 20, 60
WORDS = ", ".join(_words(NUMBER))
TWICE = """block:
  - - residual: {gain: $number, skip: $number, branch: [mlp]}
    - residual: {gain: $number, skip: $number, branch: [attention]}"""


def pvalue(reached: Sequence[float], others: Sequence[float]) -> float:
    """One-sided Wilcoxon: whether what was reached is lower."""
    return float(wilcoxon(reached, others, alternative="less").pvalue)


def reached(
    sampler: str, value_of: Callable[[int], Value], repetitions: int = REPETITIONS, trials: int = TRIALS
) -> list[float]:
    return [best(made(sampler, SPHERE, seed), value_of(seed), trials) for seed in range(repetitions)]


def rugged(seed: int) -> Value:
    """A value for each derivation that says nothing of its neighbours."""
    return lambda index: score(seed, index)


@pytest.mark.slow
@pytest.mark.parametrize(("sampler", "size"), [("tpe", (20, 60)), ("cmaes", (20, 60)), ("gp", (8, 25))])
def test_samplers_beat_random_on_a_sphere(sampler: str, size: tuple[int, int]) -> None:
    assert pvalue(reached(sampler, sphere, *size), reached("random", sphere, *size)) < 0.01


@pytest.mark.slow
def test_cma_es_does_not_beat_random_where_order_means_nothing() -> None:
    assert pvalue(reached("cmaes", rugged), reached("random", rugged)) > 0.05


@pytest.mark.slow
def test_the_order_is_what_helps() -> None:
    """TPE on the same numbers, in order and as words."""

    def found_by(rule: str, seed: int) -> float:
        small = grammar(f"{rule}\n{TWICE}")

        def value(index: int) -> float:
            taken = [one.taken for one in choices(small.derivations, index)]
            bests = [random.Random(f"{seed} {n}").random() for n in range(len(taken))]
            return sum(((place + 0.5) / PLACES - at) ** 2 for place, at in zip(taken, bests, strict=True))

        return best(made("tpe", small, seed), value, TRIALS)

    in_order, as_words = (
        [found_by(rule, seed) for seed in range(REPETITIONS)] for rule in (NUMBER, f"number: [{WORDS}]")
    )
    assert pvalue(in_order, as_words) < 0.01


@pytest.mark.fast
def test_every_place_is_an_answer() -> None:
    assert [decide(LINE.derivations, lambda asked, n=n: n).index for n in (0, 1, 999)] == [0, 1, 999]
