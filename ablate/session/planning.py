"""What a space asks for, and what of it the results folder knows. Nothing is trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ablate.plan.build import build_plan
from ablate.plan.plan import Plan
from ablate.plan.proposals import most_trials
from ablate.space.space import Space

if TYPE_CHECKING:
    from ablate.data.report import CorpusReport
    from ablate.plan.trial import HeldOut, Trial
    from ablate.train.events import Outcome

PathLike: TypeAlias = "str | Path"


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, the corpus it is over, and the trials whose outcome the results folder knows already.

    `trial_seconds` is the median time of one trial of this recipe and size as measured before; None if none was.
    `repetition` is that of the corpus, where a model names it.
    """

    space: Space
    plan: Plan
    corpus: CorpusReport
    known: frozenset[str]
    trial_seconds: float | None
    repetition: float | None = None

    @property
    def to_run(self) -> tuple[Trial, ...]:
        """The trials of the plan, once each, that are not known."""
        trials = {trial.id: trial for trial in self.plan.trials}
        return tuple(trial for id, trial in trials.items() if id not in self.known)

    def seconds(self, workers: int | None = None) -> float | None:
        """How long what is not known will take on `workers` (default: as a run has); None where none was measured.

        Of a search at most so long, and None where its budget is not of trials.
        """
        search = self.space.design.search
        most = len(self.to_run) if search is None else most_trials(self.space)
        if self.trial_seconds is None or most is None:
            return None
        from ablate.execute.cores import default_workers

        at_once = workers or default_workers(self.space.threads)
        if search is not None:
            at_once = min(at_once, search.parallel * len(self.space.seeds))
        return self.trial_seconds * -(-most // at_once)


def check(space: Space) -> Plan:
    """Everything about a space that can be checked without reading its corpus; the plan, without its corpus."""
    from ablate.data.tokenizer import vocab_size_of

    return build_plan(space, vocab_size=vocab_size_of(space.data.tokenizer), corpus="")


def plan_space(
    space: Space, *, results: PathLike, limit: float | None = None, outcomes: Mapping[str, Outcome] | None = None
) -> Planned:
    """The plan of a space over its corpus, and what the results folder knows of it, for trials of `limit` seconds.

    `outcomes` are those of the folder, from whoever has read them already.
    """
    from ablate.data.streams import check_corpus, fingerprint
    from ablate.execute.policy import is_settled
    from ablate.execute.task import cache_of
    from ablate.store.ledger import known_outcomes

    check(space)  # so that a mistake in the space is told before its corpus is read
    folder = Path(results)
    corpus = fingerprint(space.data, space.folder, cache_of(folder))
    held_out: tuple[HeldOut, ...] = ("verdict",) if space.design.search is None else ("tuning", "verdict")
    check_corpus(corpus, space.model.context, space.recipe.batch, space.measure.evaluation.windows, held_out)
    repetition = _repetition(space, cache_of(folder)) if space.names_repetition else None
    built = build_plan(space, vocab_size=corpus.vocab_size, corpus=corpus.fingerprint, repetition=repetition)
    found = known_outcomes(folder) if outcomes is None else outcomes
    known = frozenset(id for id, outcome in found.items() if is_settled(outcome, limit))
    return Planned(space, built, corpus, known, _trial_seconds(built, known, folder), repetition)


def _repetition(space: Space, cache: Path) -> float:
    from ablate.data.repetition import measure_repetition

    return measure_repetition(space.data, space.folder, cache, space.model.context).value


def _trial_seconds(plan: Plan, known: frozenset[str], folder: Path) -> float | None:
    """The median time of finished trials of the recipe and size of those that are still to run."""
    to_run = [trial for trial in plan.trials if plan.open or trial.id not in known]
    if not to_run or not known:
        return None
    from ablate.store.pace import trial_seconds

    return trial_seconds(folder, to_run[0])
