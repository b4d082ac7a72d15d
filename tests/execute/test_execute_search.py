"""Searches on surfaces fixed beforehand: what is seen, what is the same, what it takes from whom."""

import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

import pytest
from example_counts import examples_of
from grammar_fixtures import grammar
from hypothesis import given, settings
from hypothesis import strategies as st
from reading import transformer
from search_fixtures import World, carried_out, proposer, reference, run, search, searched, surface

from ablate.block.normal_form import fingerprint
from ablate.errors import InputError
from ablate.execute.search import proposer as sampled
from ablate.execute.search.proposer import Proposal, SampledProposer
from ablate.execute.search.ranking import JobOutcome, Result
from ablate.execute.search.samplers import evolution, tpe
from ablate.execute.search.samplers.evolution import EvolutionProposer
from ablate.grammar.choices import choices
from ablate.grammar.grammar import Grammar
from ablate.space.design import Budget, Goal

RULES = """norm: [none, layer_norm, rms_norm]
gain: [1, 0.5, {init: 0, trainable: true}]
f: [attention, mlp, {mlp: {activation: relu}}]
block:
  - [residual: {gain: $gain, branch: [$norm, $f]}, residual: {gain: $gain, branch: [$norm, $f]}]
  - {let: {n: $norm}, in: [$n, $f, $n, $f]}"""
CONSTRAINTS = "- {when: {attention_norm: any}, forbid: {mlp_norm: any}, because: a norm before one of them}"
FORBIDS_ATTENTION = "- {forbid: {attention: any}, because: no attention}"
SMALL = grammar(RULES, constraints=CONSTRAINTS)
TINY = grammar("norm: [none, layer_norm, rms_norm]\nblock: [[$norm, $norm, mlp]]")
SAMPLERS: tuple[str, ...] = ("random", "evolution", "tpe", "nsga2", "gp")
samplers = pytest.mark.parametrize("sampler", SAMPLERS)
QUICK: tuple[str, ...] = ("random", "evolution", "tpe", "nsga2")


@pytest.mark.sampled(1)
@samplers
@pytest.mark.parametrize("goals", [("min",), ("min", "max")], ids=["one", "two"])
def test_the_same_seed_and_history_give_the_same_proposal(sampler: str, goals: tuple[Goal, ...]) -> None:
    came_to, rng = surface(SMALL, 1, objectives=len(goals), diverged=0.1), random.Random(4)
    history = [came_to(rng.randrange(SMALL.count)) for _ in range(25)]
    history[3] = Result(history[3].index, "bug")
    used = proposer(sampler, SMALL, 7, goals)
    for k in (0, 1, 12, 24):
        used.propose(k, history[:k])  # what one was asked before does not matter
    proposal = used.propose(25, history)
    assert proposer(sampler, SMALL, 7, goals).propose(25, history) == proposal
    assert not SMALL.refusals(proposal.block)
    assert SMALL.derive(proposal.index) == proposal.block
    assert 0 <= proposal.random <= proposal.choices
    others = {proposer(sampler, SMALL, seed, goals).propose(25, history).index for seed in range(6)}
    assert len(others) > 1 or sampler == "gp"  # the seed matters, but for what maximises a surface


@dataclass
class Spy:
    """Proposes given derivations, and keeps what it was shown."""

    indices: list[int]
    grammar: Grammar = TINY
    shown: list[list[int]] = field(default_factory=list)

    def propose(self, k: int, history: Sequence[Result]) -> Proposal:
        self.shown.append([result.index for result in history])
        index = self.indices[k]
        return Proposal(index, self.grammar.derive(index), 2, 1, {})


FINISHED = JobOutcome("finished", (0.0,))


@dataclass
class Refused:
    """Proposes given derivations, each after those that were refused before it, and keeps what it was shown."""

    steps: list[tuple[int, tuple[int, ...]]]
    shown: list[list[tuple[int, str]]] = field(default_factory=list)

    def propose(self, k: int, history: Sequence[Result]) -> Proposal:
        self.shown.append([(result.index, result.outcome) for result in history])
        index, met = self.steps[k]
        return Proposal(index, TINY.derive(index), 2, 1, {"none": len(met)}, met=met)


@pytest.mark.fast
@pytest.mark.parametrize("w", [1, 3])
def test_what_was_refused_is_in_the_history_of_all_later_proposals(w: int) -> None:
    """At once, since it waits for no result; once; and whatever ends first."""
    steps = [(0, (1,)), (4, ()), (8, (2, 3)), (5, (1, 6)), (7, ())]
    shown = []
    for order in (random.Random(1), random.Random(2)):
        spy = Refused(steps)
        run(searched(TINY, spy, parallel=w, budget=Budget(trials=6)), surface(TINY, 0), order=order)
        shown.append(spy.shown)
    assert shown[0] == shown[1]
    refused = [[index for index, outcome in seen if outcome == "refused"] for seen in shown[0]]
    assert refused == [[], [1], [1], [1, 2, 3], [1, 2, 3, 6]]
    ended = [[index for index, outcome in seen if outcome == "finished"] for seen in shown[0]]
    assert ended == [[0, 4, 8, 5][: max(0, k - w + 1)] for k in range(5)]


@pytest.mark.fast
@pytest.mark.parametrize("w", [1, 2, 4])
def test_a_job_sees_exactly_the_results_it_may(w: int) -> None:
    """Job j those of jobs 0 ... j - w, of which job 0, the reference, is no proposal."""
    spy = Spy([0, 4, 8, 5, 7, 2])
    block_search = searched(TINY, spy, parallel=w, budget=Budget(trials=7))
    jobs = [job for _ in range(w) if (job := block_search.ask())]
    assert [job.number for job in jobs] == list(range(w))
    assert block_search.ask() is None  # as many as may run at once
    for job in reversed(jobs):
        block_search.tell(job.number, FINISHED)
    while (job := block_search.ask()) is not None:
        block_search.tell(job.number, FINISHED)
    assert spy.shown == [spy.indices[: max(0, j - w)] for j in range(1, 7)]
    assert block_search.over and block_search.why_over == "budget"


@pytest.mark.fast
def test_the_reference_is_first_and_goes_to_the_end() -> None:
    block_search = searched(TINY, Spy([0]), parallel=2)
    job = block_search.ask()
    assert job is not None and (job.number, job.k, job.until, job.rung) == (0, None, None, None)
    assert job.block == reference()
    assert (block_search.trained, block_search.folded, block_search.spent.trials) == (0, 0, 1)


@pytest.mark.fast
def test_what_is_the_same_is_not_trained_twice() -> None:
    """`[none, n]` and `[n, none]` are different derivations of one block."""
    a, b = 1, 3
    assert TINY.derive(a) == TINY.derive(b)
    spy = Spy([a, b, a, 8])
    block_search = searched(TINY, spy)
    came = JobOutcome("finished", (4.0,))
    for number in (0, 1):
        assert block_search.ask() is not None
        block_search.tell(number, came)
    last = block_search.ask()
    assert last is not None and (last.number, last.k) == (2, 3)
    assert [one.same_as for one in block_search.proposed] == [None, 1, 1, None]
    assert (block_search.trained, block_search.folded) == (2, 2)
    assert block_search.came(2) is None
    assert spy.shown[2:] == [[a, b], [a, b]]  # each under its own derivation, and once


@pytest.mark.fast
def test_a_proposal_that_is_the_reference_folds_with_it() -> None:
    spy = Spy([4, 0, 8])
    block_search = searched(TINY, spy, block=TINY.derive(4))
    assert block_search.ask() is not None
    block_search.tell(0, JobOutcome("finished", (7.0,)))
    job = block_search.ask()
    assert job is not None and (job.number, job.k) == (1, 1)
    assert (block_search.proposed[0].same_as, block_search.trained, block_search.folded, block_search.spent.trials) == (
        0,
        1,
        1,
        2,
    )
    assert spy.shown == [[], [4]]  # told under the derivation that gave it


@pytest.mark.fast
def test_a_repeat_of_what_still_runs_waits_for_it() -> None:
    spy = Spy([1, 3, 8])
    block_search = searched(TINY, spy, parallel=3)
    assert [job.number for _ in range(2) if (job := block_search.ask())] == [0, 1]
    assert block_search.ask() is None  # proposal 1 is the same as job 1, which still runs
    assert [one.same_as for one in block_search.proposed] == [None, 1]
    block_search.tell(1, JobOutcome("diverged"))
    assert block_search.ask() is None  # and so does what was before it
    block_search.tell(0, FINISHED)
    assert (job := block_search.ask()) is not None and (job.number, job.k) == (2, 2)
    assert spy.shown == [[], [], [1, 3]]


@pytest.mark.fast
def test_what_cannot_be_told() -> None:
    block_search = searched(TINY, Spy([1, 3, 8]))
    assert block_search.ask() is not None
    with pytest.raises(ValueError, match="expected 1 values, got 2"):
        block_search.tell(0, JobOutcome("finished", (1.0, 2.0)))
    with pytest.raises(ValueError, match="expected 0 values, got 1"):
        block_search.tell(0, JobOutcome("bug", (1.0,)))
    for outcome in ("paused", "interrupted"):
        with pytest.raises(ValueError, match=f"cannot be {outcome}"):
            block_search.tell(0, JobOutcome(outcome, (1.0,)))
    block_search.tell(0, FINISHED)
    with pytest.raises(ValueError, match="told already"):
        block_search.tell(0, FINISHED)
    for number in (-1, 5):
        with pytest.raises(ValueError, match="not handed out"):
            block_search.tell(number, FINISHED)
    with pytest.raises(InputError, match="at least one job at a time"):
        searched(TINY, Spy([]), parallel=0)


@samplers
def test_a_search_of_everything_ends_at_once(sampler: str) -> None:
    """Seven different blocks in nine derivations: each is trained once, and with the ninth there is nothing new."""
    block_search = search(TINY, sampler)
    trained = [job.mark for job in carried_out(block_search, surface(TINY, 0))]
    assert len(trained) == len(set(trained)) == block_search.trained == 7
    assert block_search.why_over == "exhausted"
    indices = [one.proposal.index for one in block_search.proposed]
    assert set(indices) == set(range(9))
    assert indices.count(indices[-1]) == 1
    assert block_search.folded == len(indices) - 7


@pytest.mark.parametrize("sampler", ["random", "evolution", "gp"])
def test_a_search_of_everything_that_is_admitted_ends(sampler: str) -> None:
    """Three of nine derivations are never proposed: a hundred known ones in a row end it."""
    small = grammar(
        "norm: [none, layer_norm, rms_norm]\nblock: [[$norm, attention, $norm, mlp]]",
        constraints="- {forbid: {mlp_norm: layer_norm}, because: none there}",
    )
    block_search = search(small, sampler)
    trained = [job.mark for job in carried_out(block_search, surface(small, 0))]
    assert len(trained) == len(set(trained)) == 6
    assert block_search.why_over == "exhausted"
    assert [one.same_as is None for one in block_search.proposed[-101:]] == [True] + [False] * 100


@dataclass
class Obstinate:
    """Proposes one derivation again and again, and counts how often it was called."""

    calls: int = 0

    def propose(self, k: int, history: Sequence[Result]) -> Proposal:
        self.calls += 1
        return Proposal(4, TINY.derive(4), 2, 0, {})


def test_a_sampler_that_only_repeats_itself_does_not_end_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten times it may; then uniform draws, which say that they are, until one is new."""
    stuck = Obstinate()
    found = searched(TINY, stuck)
    assert len(list(carried_out(found, surface(TINY, 0)))) == 7
    assert found.why_over == "exhausted"
    made = [one.proposal.random for one in found.proposed]
    assert made[:12] == [0] * 11 + [2]
    assert stuck.calls == made.count(0) <= 7 * 11
    monkeypatch.setattr("ablate.execute.search.search.STUCK", 1000)  # without which it does
    alone = searched(TINY, Obstinate())
    assert len(list(carried_out(alone, surface(TINY, 0)))) == 1
    assert (alone.why_over, alone.folded) == ("exhausted", 100)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("sampler", ["nsga2", "tpe"])
def test_a_sampler_is_told_each_derivation_once(sampler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what is new behind what it was told before: so NSGA-II finds its generations again."""
    shown: list[list[int]] = []
    plain = SampledProposer.propose

    def propose(self: SampledProposer, k: int, history: Sequence[Result]) -> Proposal:
        shown.append([result.index for result in history if result.outcome != "refused"])
        return plain(self, k, history)

    monkeypatch.setattr(SampledProposer, "propose", propose)
    block_search = search(SMALL, sampler, trials=60, seed=3)
    list(carried_out(block_search, surface(SMALL, 1)))
    proposed = [one.proposal.index for one in block_search.proposed]
    assert len(set(proposed)) < len(proposed)  # some were proposed twice
    assert shown[-1] == list(dict.fromkeys(proposed[:-1]))
    assert all(shown[-1][: len(before)] == before for before in shown)
    again = search(SMALL, sampler, trials=60, seed=3)
    list(carried_out(again, surface(SMALL, 1)))
    assert again.proposed == block_search.proposed


@samplers
def test_a_dead_end_is_found_before_anything_is_handed_out(sampler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = grammar(RULES, constraints="- {forbid: {mlp: any}, because: no mlp}\n" + FORBIDS_ATTENTION)
    monkeypatch.setattr("ablate.grammar.mutate.DRAWS", 500)
    with pytest.raises(InputError, match="500 blocks in a row were refused"):
        search(nothing, sampler).rehearse()
    rehearsed, straight = search(SMALL, sampler, trials=5), search(SMALL, sampler, trials=5)
    rehearsed.rehearse()
    assert not rehearsed.jobs and not rehearsed.proposed
    list(carried_out(rehearsed, surface(SMALL, 0)))
    list(carried_out(straight, surface(SMALL, 0)))
    assert rehearsed.proposed == straight.proposed


@pytest.mark.fast
def test_only_repeats_in_a_row_end_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ablate.execute.search.search.REPEATS", 3)
    found = searched(TINY, Spy([4, 4, 4, 8, 4, 8, 0, 0, 4, 8, 5]))
    assert len(list(carried_out(found, surface(TINY, 0)))) == 3
    assert (found.why_over, len(found.proposed), found.folded) == ("exhausted", 10, 7)


@pytest.mark.parametrize("workers", [1, 4])
def test_the_budget_is_of_all_workers_together(workers: int) -> None:
    """20 trials are 20 trials, the reference's among them."""
    block_search = search(SMALL, "random", parallel=workers, trials=20)
    run(block_search, surface(SMALL, 2), order=random.Random(1))
    assert len(block_search.jobs) == block_search.spent.trials == 20
    assert block_search.trained == 19
    assert all(block_search.came(job.number) is not None for job in block_search.jobs)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("sampler", QUICK)
def test_constraints_are_hard_and_what_they_removed_is_counted(sampler: str) -> None:
    block_search = search(SMALL, sampler, trials=41)
    jobs = list(carried_out(block_search, surface(SMALL, 5), until=60))
    assert all(not SMALL.refusals(one.proposal.block) for one in block_search.proposed)
    assert all(job.mark == fingerprint(job.block, SMALL.catalogue) for job in jobs)
    assert set(block_search.refused) == {"a norm before one of them"}
    free = search(grammar(RULES), sampler, trials=41)
    list(carried_out(free, surface(SMALL, 5), until=60))
    assert not free.refused


@pytest.mark.parametrize("sampler", ["tpe", "nsga2"])
def test_what_a_sampler_cannot_do_is_repaired(sampler: str) -> None:
    """One in 601 derivations is admitted: a sampler that knows nothing finds none in four attempts, nor in twenty."""
    clamps = ", ".join(f"{{clamp: {bound}}}" for bound in range(1, 601))
    tight = grammar(
        f"e: [none, {clamps}]\nblock: [[attention: {{entropy: $e}}, mlp: {{activation: {{one_of: [relu, gelu]}}}}]]",
        constraints="- {forbid: {attention.entropy: any}, because: none here}",
    )
    proposal = proposer(sampler, tight, 1, ("min",)).propose(0, [])
    assert proposal.repaired
    assert proposal.index in (0, 1)
    assert proposal.refused["none here"] >= 4
    assert proposal.random == proposal.choices == 2


def met_by_tpe(*, refusals: bool) -> int:
    """How many draws were refused on the way to 30 proposals of the shipped grammar."""
    made = SampledProposer(World(transformer()), 0, ("min",), tpe.seeded, tpe.STARTUP, True, refusals, tpe.ASKS)
    found = searched(transformer(), made)
    list(carried_out(found, surface(transformer(), 0), until=30))
    return sum(found.refused.values())


@pytest.mark.full
def test_tpe_learns_from_what_was_refused() -> None:
    """The twin that is not told proposes what is refused again and again."""
    assert 2 * met_by_tpe(refusals=True) < met_by_tpe(refusals=False)


@samplers
def test_only_tpe_learns_from_what_was_refused(sampler: str) -> None:
    came_to, rng = surface(SMALL, 1), random.Random(4)
    history = [came_to(rng.randrange(SMALL.count)) for _ in range(25)]
    met = [Result(rng.randrange(SMALL.count), "refused") for _ in range(15)]
    between = [*history[:5], *met[:10], *history[5:], *met[10:]]
    differ = [
        proposer(sampler, SMALL, seed, ("min",)).propose(25, history)
        != proposer(sampler, SMALL, seed, ("min",)).propose(25, between)
        for seed in range(6 if sampler != "gp" else 1)
    ]
    assert any(differ) == (sampler == "tpe")


def test_tpe_is_told_of_what_is_refused_before_it_draws_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also within one proposal; this history has no refusals, so that no other trial is told as pruned."""
    told: list[str] = []
    state = sampled._trial_state
    monkeypatch.setattr(sampled, "_trial_state", lambda name: told.append(name) or state(name))  # type: ignore[func-returns-value]
    came_to, rng = surface(transformer(), 1), random.Random(4)
    history = [came_to(rng.randrange(transformer().count)) for _ in range(12)]
    for seed in range(3):
        proposer("tpe", transformer(), seed, ("min",)).propose(12, history)
    assert "PRUNED" in told and "FAIL" not in told


def test_tpe_is_told_the_last_that_were_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """And none before there is a model: after ten that are told, of which five have values."""
    monkeypatch.setattr("ablate.execute.search.proposer.TOLD", 3)
    came_to, rng = surface(SMALL, 1), random.Random(4)
    results = [came_to(rng.randrange(SMALL.count)) for _ in range(12)]
    met = [Result(index, "refused") for index in range(5)]
    sampler = proposer("tpe", SMALL, 0, ("min",))
    assert isinstance(sampler, SampledProposer)

    def heard(*history: Result) -> list[Result]:
        return sampler._heard(history, sampler._starting(history))

    assert heard(*met, *results) == [*met[2:], *results]
    assert heard(*met[:4], *results, met[4]) == [*met[2:4], *results, met[4]]
    assert heard(*met[:2], *results) == [*met[:2], *results]
    assert heard(*met, *results[:5]) == [*met[2:], *results[:5]]
    assert heard(*met[:4], *results[:5]) == results[:5]
    assert heard(*met, *met, *results[:4]) == results[:4]


RARE = grammar(
    "e: [none, {clamp: 1}, {clamp: 2}, {clamp: 3}, {clamp: 4}, {clamp: 5}]\n"
    "f: [mlp, {mlp: {activation: relu}}, {mlp: {activation: silu}}]\n"
    "block: [[attention: {entropy: $e}], [$f], [$f, $f], [$f, $f, $f]]"
)


def test_tpe_models_a_choice_by_the_results_in_which_it_arose() -> None:
    """The attention's entropy, which a quarter of the results have: it is answered from them, and as was best there.

    The twin, which models only what all results chose, leaves it to chance now and then.
    """
    rng = random.Random(3)
    drawn = [rng.randrange(6) for _ in range(16)] + [rng.randrange(6, RARE.count) for _ in range(32)]
    rng.shuffle(drawn)
    history = [Result(index, "finished", (abs(index - 4.0) if index < 6 else 9.0,)) for index in drawn]

    def found(*, grouped: bool) -> list[Proposal]:
        made = (SampledProposer(World(RARE), seed, ("min",), tpe.seeded, 10, grouped) for seed in range(40))
        return [proposal for one in made if (proposal := one.propose(48, history)).index < 6]

    grouped, joint = found(grouped=True), found(grouped=False)
    assert len(grouped) > 20
    assert not any(proposal.random for proposal in grouped)
    assert fmean(abs(proposal.index - 4) for proposal in grouped) < 1
    assert any(proposal.random for proposal in joint)


@samplers
@pytest.mark.parametrize("outcome", ["diverged", "bug"])
def test_where_nothing_finished_proposals_are_draws(sampler: str, outcome: str) -> None:
    history = [Result(index, outcome) for index in range(25)]
    found = proposer(sampler, SMALL, 0, ("min", "min")).propose(25, history)
    assert found.random == found.choices


def test_the_share_that_was_left_to_chance() -> None:
    found = search(SMALL, "random", trials=6)
    list(carried_out(found, surface(SMALL, 0)))
    assert found.random_share == found.wholly_random == 1
    spied = searched(TINY, Spy([0, 4]), budget=Budget(trials=3))
    list(carried_out(spied, surface(TINY, 0)))
    assert (spied.random_share, spied.wholly_random) == (0.5, 0)
    assert search(SMALL, "tpe").random_share == 0


def evolved(seed: int, history: Sequence[Result], **said: int) -> Proposal:
    return EvolutionProposer(World(SMALL), seed, ("min",), **said).propose(len(history), history)


def test_what_evolution_derives_anew_was_left_to_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one parent and uncrossed, all that the child has not from it."""
    monkeypatch.setattr(evolution, "CROSSED", 0)
    came_to, rng = surface(SMALL, 1), random.Random(4)
    history = [came_to(rng.randrange(SMALL.count)) for _ in range(10)]
    parent = min(history, key=lambda result: result.values)
    taken = {one.name: one.taken for one in choices(SMALL.derivations, parent.index)}
    shares = set()
    for seed in range(60):
        child = evolved(seed, history, population=1)
        made = choices(SMALL.derivations, child.index)
        assert child.random == sum(taken.get(one.name) != one.taken for one in made)
        shares.add(child.random / child.choices)
    assert len(shares) > 2 and 0 < min(shares) < max(shares) <= 1


def test_what_evolution_crosses_was_not_left_to_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: without mutations nothing is."""
    came_to, rng = surface(SMALL, 1), random.Random(4)
    history = [came_to(rng.randrange(SMALL.count)) for _ in range(10)]
    assert 10 < sum(evolved(seed, history).random > 0 for seed in range(30)) < 30
    monkeypatch.setattr(evolution, "mutate", lambda template, k, rng: k)
    assert sum(evolved(seed, history).random for seed in range(30)) == 0


def test_optuna_is_not_imported_before_it_is_needed() -> None:
    code = (
        "import sys, ablate.execute.search.proposer, ablate.execute.search.search; "
        "sys.exit(any(name == 'optuna' or name.startswith('optuna.') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@settings(max_examples=examples_of(25), deadline=None)
@given(st.integers(0, 2**31 - 1), st.integers(0, 10**6))
def test_uniform_proposals_of_the_shipped_grammar_are_admitted(seed: int, k: int) -> None:
    found = proposer("random", transformer(), seed, ("min",)).propose(k, [])
    assert not transformer().refusals(found.block)
