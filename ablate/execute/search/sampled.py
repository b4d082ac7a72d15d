"""Optuna's samplers on derivations: one parameter for each choice, suggested only where the choice arises.

A choice among ordered numbers is an integer, its position among them, so that samplers can model that neighbours are
alike; any other choice is categorical.

Optuna keeps no state for us: every proposal has a fresh sampler, seeded by (seed, k), and a fresh study in memory whose
trials are the history. Its constraints are soft; ours are hard: a proposal that a constraint refuses is marked as
failed and another one is requested; after `ASKS` of them the last one is repaired, by as few mutations as possible.

Joint samplers (TPE with `multivariate`, GP, NSGA-II) only model choices that all trials made. So each categorical
choice that any trial made has one more answer, "not asked". If a sampler gives that answer to a choice that does arise,
or was never told about the choice, it is drawn uniformly; `Proposal.random` counts those, and the changes of a repair.
Ordered numbers have no such answer: at any position, it would be the neighbour of some number. That they did not arise
is implied by the categorical choices before them; such a trial is given a uniformly drawn position, the same one in
every proposal, which favours none.
"""

from __future__ import annotations

import copy
import hashlib
import random
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

from ablate.execute.search.proposer import Proposal, generator, seed_of
from ablate.execute.search.result import Losses, Result, told
from ablate.grammar.choices import Decision, Derived, OpenChoice, choices, decide
from ablate.grammar.mutate import DerivationSource, mutate, solved
from ablate.space.design import Goal

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler
    from optuna.study import Study
    from optuna.trial import FrozenTrial, Trial

Known: TypeAlias = tuple[tuple[str, int, bool], ...]
"""Choices by name, each with the number of its alternatives and whether they are ordered numbers."""

STARTUP = 10
"""Trials with a value before TPE and GP model anything."""
POPULATION = 20
"""Trials of one generation of NSGA-II."""
ASKS = 4
"""The number of draws from a sampler before its last proposal is repaired."""
LONG_AGO = datetime(2000, 1, 1)
"""A dummy time: Optuna requires times of trials, and nothing reads them here."""
MUTATED = 200
"""How often a refused proposal is mutated before one more mutation is added."""


@dataclass(frozen=True)
class _Answers:
    """The choices of a trial; `guided` are those that the sampler itself made from the history."""

    derived: Derived
    trial: Trial
    guided: dict[str, int]


@dataclass(frozen=True)
class SampledProposer:
    """A proposer by one of Optuna's samplers; it only caches the choices of derivations, and past trials.

    `sampler` makes a fresh sampler from a seed, which models nothing until `startup` trials have a value.
    """

    ground: DerivationSource
    seed: int
    goals: tuple[Goal, ...]
    sampler: Callable[[int], BaseSampler]
    startup: int
    _apart: dict[int, tuple[Decision, ...]] = field(default_factory=dict, repr=False, compare=False)
    _past: dict[tuple[int, Losses | None, int, Known], FrozenTrial] = field(
        default_factory=dict, repr=False, compare=False
    )

    def propose(self, k: int, history: Sequence[Result]) -> Proposal:
        """Return the proposal of a fresh sampler, seeded by (seed, k), after these results."""
        rng = generator(self.seed, k)
        losses = told(history, self.goals)
        known = self._known(history)
        draws: list[_Answers] = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Optuna's, on samplers it calls experimental
            study = self._study(k, history, losses, known)
            repairs = count()

            def propose() -> int:
                if len(draws) == ASKS:
                    return mutated(self.ground, draws[-1].derived.index, 1 + next(repairs) // MUTATED, rng)
                if draws:
                    study.tell(draws[-1].trial, state=_trial_state("FAIL"))
                draws.append(self._ask(study, known, rng))
                return draws[-1].derived.index

            admitted = solved(self.ground, propose)
        final = self._choices(admitted.index)
        guided = {} if self._starting(losses) else draws[-1].guided
        unguided = sum(guided.get(choice.name) != choice.taken for choice in final)
        repaired = admitted.index != draws[-1].derived.index
        return Proposal(admitted.index, admitted.block, len(final), unguided, admitted.refused, repaired)

    def _starting(self, losses: Sequence[Losses | None]) -> bool:
        """Return whether there are too few values to model anything."""
        return sum(loss is not None for loss in losses) < self.startup

    def _known(self, history: Sequence[Result]) -> Known:
        """Return the choices that were made before."""
        made = {taken.name: taken.choice for result in history for taken in self._choices(result.index)}
        return tuple((name, len(choice.words), choice.ordered) for name, choice in made.items())

    def _ask(self, study: Study, known: Known, rng: random.Random) -> _Answers:
        """Make the choices of a fresh trial, and note which of them are the sampler's own."""
        trial = study.ask()
        before = {name for name, _, _ in known}
        guided: dict[str, int] = {}

        def chooser(choice: OpenChoice) -> int:
            n = len(choice.words)
            if choice.name not in before:
                return rng.randrange(n)
            if choice.ordered:
                answer = trial.suggest_int(choice.name, 0, n - 1)
            else:
                answer = int(trial.suggest_categorical(choice.name, range(n + 1)))
            if answer == n:
                return rng.randrange(n)
            if choice.name in trial.relative_params:
                guided[choice.name] = answer
            return answer

        return _Answers(decide(self.ground.derivations, chooser), trial, guided)

    def _study(self, k: int, history: Sequence[Result], losses: Sequence[Losses | None], known: Known) -> Study:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        study = optuna.create_study(
            directions=["minimize"] * len(self.goals), sampler=self.sampler(seed_of(self.seed, k))
        )
        values = 0
        for result, loss in zip(history, losses, strict=True):
            generation = values // POPULATION
            study.add_trial(self._frozen(result.index, loss, generation, known))
            values += loss is not None
        return study

    def _frozen(self, index: int, loss: Losses | None, generation: int, known: Known) -> FrozenTrial:
        """Return a past trial in Optuna's form, with an answer to every choice in `known`.

        NSGA-II finds its generations by an attribute that it leaves on trials.
        """
        key = (index, loss, generation, known)
        if key not in self._past:
            from optuna.distributions import CategoricalDistribution, IntDistribution
            from optuna.samplers import NSGAIISampler

            not_asked = {name: some_place(name, index, n) if ordered else n for name, n, ordered in known}
            self._past[key] = _past_trial()(
                number=0,  # the study numbers them
                trial_id=0,
                state=_trial_state("FAIL" if loss is None else "COMPLETE"),
                value=None,
                values=loss,
                datetime_start=LONG_AGO,
                datetime_complete=LONG_AGO,
                params=not_asked | {choice.name: choice.taken for choice in self._choices(index)},
                distributions={
                    name: IntDistribution(0, n - 1) if ordered else CategoricalDistribution(range(n + 1))
                    for name, n, ordered in known
                },
                user_attrs={},
                system_attrs={NSGAIISampler._get_generation_key(): generation},
                intermediate_values={},
            )
        return self._past[key]

    def _choices(self, index: int) -> tuple[Decision, ...]:
        if index not in self._apart:
            self._apart[index] = choices(self.ground.derivations, index)
        return self._apart[index]


def mutated(ground: DerivationSource, index: int, times: int, rng: random.Random) -> int:
    """Mutate a derivation `times` times."""
    for _ in range(times):
        index = mutate(ground.derivations, index, rng)
    return index


def some_place(name: str, index: int, n: int) -> int:
    """Draw one of n positions uniformly by the SHA-256 of a choice and a derivation in which it did not arise."""
    return int.from_bytes(hashlib.sha256(f"not asked {name} {index}".encode()).digest()[:8]) * n >> 64


@cache
def _past_trial() -> type[FrozenTrial]:
    """Return a class of past trials without deep copies: Optuna deep-copies each added trial, which took most of the
    time of a proposal, and nothing changes a trial that has ended.
    """
    from optuna.trial import FrozenTrial

    class PastTrial(FrozenTrial):
        def __deepcopy__(self, memo: dict[int, Any]) -> FrozenTrial:
            return copy.copy(self)

    return PastTrial


def _trial_state(name: str) -> Any:
    from optuna.trial import TrialState

    return TrialState[name]
