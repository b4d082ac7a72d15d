"""Searches on surfaces fixed beforehand: what is seen, what is the same, what comes again after a stop."""

import random
import subprocess
import sys
from dataclasses import dataclass, field

import pytest
from grammar_worlds import grammar
from hypothesis import given, settings
from hypothesis import strategies as st
from reading import transformer
from search_worlds import carried_out, search, surface

from ablate.block.fingerprint import fingerprint
from ablate.errors import InputError
from ablate.execute.search.choose import proposer_for
from ablate.execute.search.proposer import Proposal
from ablate.execute.search.result import Result
from ablate.execute.search.search import Search
from ablate.grammar.grammar import Grammar
from ablate.space.design import Goal, Sampler

RULES = """norm: [none, layer_norm, rms_norm]
gain: [1, 0.5, {init: 0, trainable: true}]
f: [attention, mlp, {mlp: {activation: relu}}]
block:
  - [residual: {gain: $gain, branch: [$norm, $f]}, residual: {gain: $gain, branch: [$norm, $f]}]
  - {let: {n: $norm}, in: [$n, $f, $n, $f]}"""
CONSTRAINTS = "- {when: {attention_norm: any}, forbid: {mlp_norm: any}, because: a norm before one of them}"
SMALL = grammar(RULES, constraints=CONSTRAINTS)
TINY = grammar("norm: [none, layer_norm, rms_norm]\nblock: [[$norm, $norm, mlp]]")
SAMPLERS: tuple[Sampler, ...] = ("random", "evolution", "tpe", "nsga2", "gp")
samplers = pytest.mark.parametrize("sampler", SAMPLERS)
QUICK: tuple[Sampler, ...] = ("random", "evolution", "tpe", "nsga2")


@samplers
@pytest.mark.parametrize("goals", [("min",), ("min", "max")], ids=["one", "two"])
def test_the_same_seed_and_history_give_the_same_proposal(sampler: Sampler, goals: tuple[Goal, ...]) -> None:
    came_to, rng = surface(SMALL, 1, objectives=len(goals), diverged=0.1), random.Random(4)
    history = [came_to(rng.randrange(SMALL.count)) for _ in range(25)]
    history[3] = Result(history[3].index, "bug")
    used = proposer_for(sampler, SMALL, 7, goals)
    for k in (0, 1, 12, 24):
        used.propose(k, history[:k])  # what one was asked before does not matter
    found = used.propose(25, history)
    assert proposer_for(sampler, SMALL, 7, goals).propose(25, history) == found
    assert not SMALL.refusals(found.block)
    assert SMALL.derive(found.index) == found.block
    assert 0 <= found.random <= found.choices
    others = {proposer_for(sampler, SMALL, seed, goals).propose(25, history).index for seed in range(6)}
    assert len(others) > 1 or sampler == "gp"  # the seed matters, but for what maximises a surface


def run(
    sampler: Sampler, *, parallel: int, trials: int, order: random.Random | None, known: dict[int, Result]
) -> Search:
    """A search whose trials end in some order; what is known of one is told at once."""
    came_to = surface(SMALL, 2, diverged=0.1)
    found = search(SMALL, sampler, seed=3, parallel=parallel, trials=trials)
    running: list[tuple[int, int]] = []
    while True:
        while len(running) < parallel and (one := found.ask()) is not None:
            if one.k in known:
                found.tell(one.k, known[one.k])
            else:
                running.append((one.k, one.proposal.index))
        if not running:
            return found
        k, index = running.pop(order.randrange(len(running)) if order else 0)
        found.tell(k, came_to(index))


@pytest.mark.parametrize("sampler", QUICK)
@pytest.mark.parametrize("parallel", [1, 3])
def test_a_search_that_is_resumed_ends_as_an_undisturbed_one(sampler: Sampler, parallel: int) -> None:
    whole = run(sampler, parallel=parallel, trials=30, order=None, known={})
    assert whole.trained == 30
    for cut in (0, 1, 7, 11, 20, 29):
        known = {one.k: result for one in whole.proposed[:cut] if (result := whole.result(one.k)) is not None}
        again = run(sampler, parallel=parallel, trials=30, order=random.Random(cut), known=known)
        assert again.proposed == whole.proposed
        assert [again.result(one.k) for one in again.proposed] == [whole.result(one.k) for one in whole.proposed]


def test_the_number_at_once_is_part_of_the_search() -> None:
    """So that the test above could fail."""
    one, three = (run("evolution", parallel=w, trials=30, order=None, known={}) for w in (1, 3))
    assert [a.proposal.index for a in one.proposed] != [b.proposal.index for b in three.proposed]


@dataclass
class Spy:
    """Proposes given derivations, and keeps what it was shown."""

    indices: list[int]
    grammar: Grammar = TINY
    shown: list[list[int]] = field(default_factory=list)

    def propose(self, k: int, history: list[Result]) -> Proposal:
        self.shown.append([result.index for result in history])
        index = self.indices[k]
        return Proposal(index, self.grammar.derive(index), 2, 1, {})


@pytest.mark.parametrize("w", [1, 2, 4])
def test_a_proposal_sees_exactly_the_results_it_may(w: int) -> None:
    spy = Spy([0, 4, 8, 5, 7, 2, 6])
    found = Search(TINY, spy, parallel=w, trials=6)
    asked = [one for _ in range(w) if (one := found.ask())]
    assert found.ask() is None  # as many as may run at once
    for one in reversed(asked):
        found.tell(one.k, Result(one.proposal.index, "finished", (0.0,)))
    while (one := found.ask()) is not None:
        found.tell(one.k, Result(one.proposal.index, "finished", (0.0,)))
    assert spy.shown == [spy.indices[: max(0, k - w + 1)] for k in range(len(spy.shown))]


def test_what_is_the_same_is_not_trained_twice() -> None:
    """`[none, n]` and `[n, none]` are different derivations of one block."""
    a, b = 1, 3
    assert TINY.derive(a) == TINY.derive(b)
    spy = Spy([a, b, a, 8])
    found = Search(TINY, spy, parallel=1)
    first = found.ask()
    assert first is not None and first.same_as is None
    came = Result(a, "finished", (4.0,))
    found.tell(0, came)
    last = found.ask()
    assert last is not None and last.k == 3
    assert [one.same_as for one in found.proposed] == [None, 0, 0, None]
    assert (found.trained, found.folded) == (2, 2)
    assert found.result(1) == found.result(2) == came
    assert found.result(3) is None
    assert spy.shown[3] == [a, b, a]  # each under its own derivation


def test_a_repeat_of_what_still_runs_waits_for_it() -> None:
    found = Search(TINY, Spy([1, 3, 8]), parallel=2)
    assert found.ask() is not None
    assert found.ask() is None  # proposal 1 is the same as 0; proposal 2 may see 0, which still runs
    assert [one.same_as for one in found.proposed] == [None, 0]
    found.tell(0, Result(1, "diverged"))
    assert (one := found.ask()) is not None and one.k == 2
    assert found.result(1) == Result(1, "diverged")


def test_what_cannot_be_told() -> None:
    found = Search(TINY, Spy([1, 3, 8]), parallel=1)
    assert found.ask() is not None
    result = Result(1, "finished", (1.0,))
    with pytest.raises(ValueError, match="derivation 1, not 3"):
        found.tell(0, Result(3, "finished", (1.0,)))
    found.tell(0, result)
    with pytest.raises(ValueError, match="told already"):
        found.tell(0, result)
    with pytest.raises(ValueError, match="not handed out"):
        found.tell(5, result)
    with pytest.raises(InputError, match="at least one trial at a time"):
        Search(TINY, Spy([]), parallel=0)


@pytest.mark.parametrize("sampler", ["random", "evolution"])
def test_a_search_of_everything_ends(sampler: Sampler) -> None:
    """Seven different blocks in nine derivations: each is trained once, then there is nothing new."""
    found = search(TINY, sampler)
    trained = [one.fingerprint for one in carried_out(found, surface(TINY, 0))]
    assert len(trained) == len(set(trained)) == found.trained == 7
    assert found.exhausted
    assert found.folded == len(found.proposed) - 7 >= 1000


def test_a_search_that_only_repeats_stops_by_itself() -> None:
    found = Search(TINY, Spy([4] * 2000), parallel=1, trials=5)
    assert len(list(carried_out(found, surface(TINY, 0)))) == 1
    assert found.exhausted and found.over
    assert found.folded == 1000


@pytest.mark.parametrize("workers", [1, 4])
def test_the_budget_is_of_all_workers_together(workers: int) -> None:
    found = run("random", parallel=workers, trials=20, order=random.Random(1), known={})
    assert found.trained == 20
    assert sum(found.result(one.k) is not None for one in found.proposed if one.same_as is None) == 20


@pytest.mark.parametrize("sampler", QUICK)
def test_constraints_are_hard_and_what_they_removed_is_counted(sampler: Sampler) -> None:
    found = search(SMALL, sampler, trials=40)
    proposed = list(carried_out(found, surface(SMALL, 5), until=60))
    assert all(not SMALL.refusals(one.proposal.block) for one in found.proposed)
    assert all(one.fingerprint == fingerprint(one.proposal.block, SMALL.catalogue) for one in proposed)
    assert set(found.refused) == {"a norm before one of them"}
    free = search(grammar(RULES), sampler, trials=40)
    list(carried_out(free, surface(SMALL, 5), until=60))
    assert not free.refused


@pytest.mark.parametrize("sampler", ["tpe", "nsga2"])
def test_what_a_sampler_cannot_do_is_repaired(sampler: Sampler) -> None:
    """One in 41 derivations is admitted: a sampler that knows nothing finds none in four attempts."""
    clamps = ", ".join(f"{{clamp: {bound}}}" for bound in range(1, 41))
    tight = grammar(
        f"e: [none, {clamps}]\nblock: [[attention: {{entropy: $e}}, mlp: {{activation: {{one_of: [relu, gelu]}}}}]]",
        constraints="- {forbid: {attention.entropy: any}, because: none here}",
    )
    found = proposer_for(sampler, tight, 1, ("min",)).propose(0, [])
    assert found.repaired
    assert found.index in (0, 1)
    assert found.refused["none here"] >= 4
    assert found.random == found.choices == 2


@samplers
@pytest.mark.parametrize("outcome", ["diverged", "bug"])
def test_where_nothing_finished_proposals_are_draws(sampler: Sampler, outcome: str) -> None:
    history = [Result(index, outcome) for index in range(25)]
    found = proposer_for(sampler, SMALL, 0, ("min", "min")).propose(25, history)
    assert found.random == found.choices


def test_the_share_that_was_left_to_chance() -> None:
    found = search(SMALL, "random", trials=5)
    list(carried_out(found, surface(SMALL, 0)))
    assert found.random_share == found.wholly_random == 1
    spied = Search(TINY, Spy([0, 4]), parallel=1, trials=2)
    list(carried_out(spied, surface(TINY, 0)))
    assert (spied.random_share, spied.wholly_random) == (0.5, 0)
    assert search(SMALL, "tpe").random_share == 0


def test_optuna_is_not_imported_before_it_is_needed() -> None:
    code = (
        "import sys, ablate.execute.search.choose, ablate.execute.search.search; "
        "sys.exit(any(name == 'optuna' or name.startswith('optuna.') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31 - 1), st.integers(0, 10**6))
def test_uniform_proposals_of_the_shipped_grammar_are_admitted(seed: int, k: int) -> None:
    found = proposer_for("random", transformer(), seed, ("min",)).propose(k, [])
    assert not transformer().refusals(found.block)
