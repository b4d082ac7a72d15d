"""Proposer: a proposal from the results of a search: the protocol, the choice of a sampler, and Optuna's samplers.

A proposal is a function of the seed, of its number k and of the results it may see. No state is kept between
proposals, so a resumed search proposes what an uninterrupted one would have.
"""

from __future__ import annotations

import copy
import hashlib
import math
import random
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ablate.block.catalogue import Catalogue
from ablate.errors import InputError
from ablate.execute.search.ranking import Losses, Result, told
from ablate.extension.loader import implementation
from ablate.grammar.choices import Decision, Derived, OpenChoice, choices, decide
from ablate.grammar.mutate import DerivationSource, draw, mutate, solved
from ablate.plan.proposals import Treated
from ablate.source.problems import quote
from ablate.space.design import Goal, SamplerSpec, Search, ZeroCost
from ablate.space.documents import Choice

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler
    from optuna.study import Study
    from optuna.trial import FrozenTrial, Trial, TrialState

    from ablate.execute.search.search_space import SearchGround
    from ablate.store.foreign_tables import Parts, Table


@dataclass(frozen=True)
class Proposal:
    """Derivation `index`, which is admitted, and the block that it makes, as the ground of the search gave it.

    Of its `choices`, `random` were drawn without regard to the results. `refused` counts the earlier draws by what
    refused them, and `met` are the first of these derivations, which later proposals find in their history; `repaired`
    means that the sampler's draws were all refused, and the last one was mutated until it was admitted. `passed_over`
    counts proposals made along with it that were worse by the zero-cost order; their choices and refusals count, too.
    """

    index: int
    block: Treated
    choices: int
    random: int
    refused: Mapping[str, int]
    repaired: bool = False
    passed_over: int = 0
    met: tuple[int, ...] = ()


class Proposer(Protocol):
    """Makes proposals. The same seed, k and history give the same proposal, on every machine and every time."""

    def propose(self, k: int, history: Sequence[Result]) -> Proposal:
        """Return proposal k, from the results it may see. InputError if constraints leave practically nothing.

        Between the results are the derivations that were refused on the way to earlier proposals, with the outcome
        `refused` and no values.
        """


def uniform(ground: DerivationSource, rng: random.Random) -> Proposal:
    """Draw uniformly from the admitted derivations; InputError if there are practically none."""
    drawn = draw(ground, rng)
    made = len(choices(ground.derivations, drawn.index))
    return Proposal(drawn.index, drawn.block, made, made, drawn.refused, met=drawn.met)


def generator(seed: int, k: int) -> random.Random:
    """Return the random generator of proposal k."""
    return random.Random(seed_of(seed, k))


def seed_of(seed: int, k: int) -> int:
    return int.from_bytes(hashlib.sha256(f"proposal {seed} {k}".encode()).digest()[:4])


def proposer_for(search: Search, ground: SearchGround, catalogue: Catalogue) -> Proposer:
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
    return int.from_bytes(hashlib.sha256(f"order {seed} {n}".encode()).digest()[:4]) >> 1


@dataclass(frozen=True)
class Ordered:
    """A proposer that takes, of the proposals of several, the one with the smallest `by`; of equal ones the first. It
    reports the refusals and the choices of all of them."""

    ground: SearchGround
    proposers: tuple[Proposer, ...]
    by: ZeroCost

    def propose(self, k: int, history: Sequence[Result]) -> Proposal:
        made = [proposer.propose(k, history) for proposer in self.proposers]
        refused: Counter[str] = Counter()
        for proposal in made:
            refused.update(proposal.refused)
        return replace(
            min(made, key=self._measure),
            choices=sum(proposal.choices for proposal in made),
            random=sum(proposal.random for proposal in made),
            refused=dict(refused),
            passed_over=len(made) - 1,
            met=tuple(dict.fromkeys(index for proposal in made for index in proposal.met)),
        )

    def _measure(self, proposal: Proposal) -> float:
        """NaN counts as the worst."""
        value = self.ground.measure(self.by, proposal.block)
        return math.inf if math.isnan(value) else value


# Optuna's samplers on derivations: one parameter for each choice, suggested only where the choice arises: an integer
# for ordered numbers, their position, so that samplers can model that neighbours are alike; else a categorical one.
#
# Optuna keeps no state for us: every proposal has a fresh sampler, seeded by (seed, k), and a fresh study in memory
# whose trials are the history. Our constraints are hard: after a proposal that one refuses another is requested, and
# after some of them the last one is repaired, by as few mutations as possible. A refused derivation is told as pruned
# to a sampler that learns from `refusals`: Optuna ranks that below every value. To the others it is marked as failed,
# which they forget.
#
# A sampler that is `grouped` models each set of choices that arise together by the trials that made them, and is told
# trials as they are. The others (GP, NSGA-II) only model choices that all trials made. So each categorical choice
# that any trial made has one more answer, "not asked". If a sampler gives that answer to a choice that does arise, or
# was never told about the choice, it is drawn uniformly; `Proposal.random` counts those, and the changes of a repair.
# Ordered numbers have no such answer: at any position, it would be the neighbour of some number. That they did not
# arise is implied by the categorical choices before them; such a trial is given a uniformly drawn position, the same
# one in every proposal, which favours none.

Known: TypeAlias = tuple[tuple[str, int, bool], ...]
"""Choices by name, each with the number of its alternatives and whether they are ordered numbers."""

STARTUP = 10  # trials with a value before TPE and GP model anything
POPULATION = 20  # trials of one generation of NSGA-II
ASKS = 4  # the number of draws from a sampler that forgets what was refused before its last proposal is repaired
TOLD = 200
"""The most refused derivations that a sampler is told of, the last ones: a proposal takes a fraction of a second."""
LONG_AGO = datetime(2000, 1, 1)  # a dummy time: Optuna requires times of trials, and nothing reads them here
MUTATED = 200  # how often a refused proposal is mutated before one more mutation is added


@dataclass(frozen=True)
class _Answers:
    derived: Derived
    trial: Trial
    guided: dict[str, int]


@dataclass(frozen=True)
class SampledProposer:
    """A proposer by one of Optuna's samplers; it only caches the choices of derivations, and past trials.

    `sampler` makes a fresh sampler from a seed, which models nothing until `startup` trials have a value. `grouped`
    ones model choices that only some trials made, and `refusals` are told to those that learn from them. After `asks`
    draws the last one is repaired.
    """

    ground: DerivationSource
    seed: int
    goals: tuple[Goal, ...]
    sampler: Callable[[int], BaseSampler]
    startup: int
    grouped: bool = False
    refusals: bool = False
    asks: int = ASKS
    _apart: dict[int, tuple[Decision, ...]] = field(default_factory=dict, repr=False, compare=False)
    _past: dict[tuple[int, str, Losses | None, int, Known], FrozenTrial] = field(
        default_factory=dict, repr=False, compare=False
    )

    def propose(self, k: int, history: Sequence[Result]) -> Proposal:
        rng = generator(self.seed, k)
        starting = self._starting(history)
        history = self._heard(history, starting)
        losses = told(history, self.goals)
        made = {taken.name: taken.choice for result in history for taken in self._choices(result.index)}
        known = tuple((name, len(choice.words), choice.ordered) for name, choice in made.items())
        bad = "PRUNED" if self.refusals and not starting else "FAIL"
        draws: list[_Answers] = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Optuna's, on samplers it calls experimental
            study = self._study(k, history, losses, known)
            repairs = count()

            def propose() -> int:
                if len(draws) == self.asks:
                    return mutated(self.ground, draws[-1].derived.index, 1 + next(repairs) // MUTATED, rng)
                if draws:
                    study.tell(draws[-1].trial, state=_trial_state(bad))
                draws.append(self._ask(study, known, rng))
                return draws[-1].derived.index

            admitted = solved(self.ground, propose)
        final = self._choices(admitted.index)
        guided = {} if starting else draws[-1].guided
        unguided = sum(guided.get(choice.name) != choice.taken for choice in final)
        repaired = admitted.index != draws[-1].derived.index
        return Proposal(
            admitted.index, admitted.block, len(final), unguided, admitted.refused, repaired, met=admitted.met
        )

    def _starting(self, history: Sequence[Result]) -> bool:
        """True while fewer than `startup` values are known. To a sampler that learns from refusals each counts as one,
        but half of `startup` must be values."""
        values = sum(loss is not None for loss in told(history, self.goals))
        met = sum(result.outcome == "refused" for result in history) if self.refusals else 0
        return values + met < self.startup or 2 * values < self.startup

    def _heard(self, history: Sequence[Result], starting: bool) -> list[Result]:
        """The results and, of the refused derivations, the last `TOLD`; none of those while starting, since Optuna
        would count them, and none for a sampler that does not learn from them."""
        met = [place for place, result in enumerate(history) if result.outcome == "refused"]
        left_out = set(met[:-TOLD] if self.refusals and not starting else met)
        return [result for place, result in enumerate(history) if place not in left_out]

    def _ask(self, study: Study, known: Known, rng: random.Random) -> _Answers:
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
                answer = int(trial.suggest_categorical(choice.name, range(n if self.grouped else n + 1)))
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
            study.add_trial(self._frozen(result, loss, generation, known))
            values += loss is not None
        return study

    def _frozen(self, result: Result, loss: Losses | None, generation: int, known: Known) -> FrozenTrial:
        """A past trial in Optuna's form, with an answer to every choice in `known`; if grouped, only to its own.
        NSGA-II finds its generations by an attribute that it leaves on trials."""
        made = {choice.name: choice for choice in self._choices(result.index)}
        if self.grouped:
            known = tuple((name, len(one.choice.words), one.choice.ordered) for name, one in made.items())
        index, refused = result.index, result.outcome == "refused"
        key = (index, result.outcome, loss, generation, known)
        if key not in self._past:
            from optuna.distributions import CategoricalDistribution, IntDistribution
            from optuna.samplers import NSGAIISampler

            not_asked = {name: some_place(name, index, n) if ordered else n for name, n, ordered in known}
            self._past[key] = _past_trial()(
                number=0,  # the study numbers them
                trial_id=0,
                state=_trial_state("COMPLETE" if loss is not None else "PRUNED" if refused else "FAIL"),
                value=None,
                values=loss,
                datetime_start=LONG_AGO,
                datetime_complete=LONG_AGO,
                params=not_asked | {name: one.taken for name, one in made.items()},
                distributions={
                    name: IntDistribution(0, n - 1)
                    if ordered
                    else CategoricalDistribution(range(n if self.grouped else n + 1))
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
    for _ in range(times):
        index = mutate(ground.derivations, index, rng)
    return index


def some_place(name: str, index: int, n: int) -> int:
    """Draw one of n positions uniformly by the SHA-256 of a choice and a derivation in which it did not arise."""
    return int.from_bytes(hashlib.sha256(f"not asked {name} {index}".encode()).digest()[:8]) * n >> 64


@cache
def _past_trial() -> type[FrozenTrial]:
    """A class of past trials without deep copies: Optuna copies each added trial, which took most of the time of a
    proposal, and no trial changes after its end."""
    from optuna.trial import FrozenTrial

    class PastTrial(FrozenTrial):
        def __deepcopy__(self, memo: dict[int, Any]) -> FrozenTrial:
            return copy.copy(self)

    return PastTrial


def _trial_state(name: str) -> TrialState:
    from optuna.trial import TrialState

    return TrialState[name]


# The trials of anybody's Optuna study as a table, from its storage.


def read_study(name: str, study: str, uri: str) -> Table:
    """Read the trials of a study; InputError for one that cannot be read or is not there."""
    import optuna
    from sqlalchemy.exc import SQLAlchemyError

    from ablate.store.foreign_tables import check_sqlite, tabulated

    check_sqlite(uri, "studies", "Optuna")
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        storage = optuna.storages.RDBStorage(uri, skip_table_creation=True)
        if study not in (known := optuna.get_all_study_names(storage)):
            raise InputError(f"{uri} has no study {quote(study)}\n  = it has {', '.join(known) or 'none'}")
        trials = optuna.load_study(study_name=study, storage=storage).get_trials(deepcopy=False)
    except (SQLAlchemyError, ImportError, ValueError, RuntimeError) as error:
        raise InputError(f"{uri} cannot be read: {str(error).splitlines()[0]}") from None
    finally:
        optuna.logging.set_verbosity(level)
    return tabulated(name, [_parts_of_trial(trial) for trial in trials])


def _parts_of_trial(trial: FrozenTrial) -> Parts:
    values = trial.values or ()
    names = ("value",) if len(values) == 1 else tuple(f"value_{k}" for k in range(len(values)))
    return {
        "": {"number": trial.number, "state": trial.state.name},
        "params": trial.params,
        "metrics": dict(zip(names, values, strict=True)),
        "user_attrs": trial.user_attrs,
    }
