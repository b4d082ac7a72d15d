"""A plan, and what the results folder knows of it: the start of showing, running or resuming a space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ablate.block.sizes import Sizes
from ablate.data.epochs import Epochs, describe_epochs
from ablate.data.report import CorpusReport
from ablate.execute.cores import default_workers
from ablate.execute.forecaster import Forecaster
from ablate.plan.build import build_plan
from ablate.plan.known import NOTHING, Known
from ablate.plan.models import Models
from ablate.plan.plan import Plan
from ablate.plan.proposals import most_trials
from ablate.plan.trial import Trial
from ablate.report import wording
from ablate.session.stages import Stage, has_time_budget
from ablate.space.batch_ramp import sequences_of
from ablate.space.documents import Data, Recipe
from ablate.space.metrics import BITS, NATS, SMOOTHED, judgeable
from ablate.space.objective_fit import PAIRS
from ablate.space.space import Space
from ablate.space.streamed import example_length, needed_bytes

if TYPE_CHECKING:
    from ablate.statistics import Floor
    from ablate.store.noise import KnownNoise
    from ablate.verdict.judgement import Account


@dataclass(frozen=True, slots=True)
class Plans:
    """The plans of a space over its corpus: one for each state of knowledge, each built only once.

    With a `forecaster` they have forecasts of their variants.
    """

    models: Models
    forecaster: Forecaster | None = None
    _built: list[tuple[Known, Plan]] = field(default_factory=list, repr=False, compare=False)

    def of(self, known: Known = NOTHING) -> Plan:
        """Return the plan that follows from what is known; InputError if there is none."""
        for before, plan in self._built:
            if before == known:
                return plan
        models = self.models
        plan = build_plan(
            models.space,
            vocab_size=models.vocab_size,
            corpus=models.corpus,
            repetition=models.repetition,
            read=models.read,
            known=known,
        )
        if self.forecaster is not None:
            plan = self.forecaster.of_plan(plan)
        self._built.append((known, plan))
        return plan


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, its corpus, and the trials whose outcome the results folder knows already.

    Of these, `failed` have no result, with the kind of their outcome: they are trained again only on request.
    `trial_seconds` is the median time of earlier trials of this recipe and size; None if there are none. `plans` builds
    the plans of the same space as more becomes known. `noise` is the known noise of the judged metrics under the plan's
    conditions, or None. `account` says how often its questions were judged before, and what was found. `stage` is the
    current stage of a plan that depends on its own results.
    """

    space: Space
    plan: Plan
    plans: Plans
    corpus: CorpusReport
    known: frozenset[str]
    trial_seconds: float | None = None
    noise: KnownNoise | None = None
    stage: Stage | None = None
    failed: Mapping[str, str] = field(default_factory=dict)
    account: Account = field(default_factory=dict)

    def __repr__(self) -> str:
        known = len({trial.id for trial in self.plan.trials} & self.known)
        failed = wording.failed(self.failed[trial.id] for trial in self.plan.trials if trial.id in self.failed)
        state = f"{len(self.to_run)} to run, {known} known{f', of which {failed}' if failed else ''}"
        return f"<Planned {self.plan.space}: {self.plan.design}, {wording.trials_of(self.plan)}; {state}>"

    @property
    def models(self) -> Models:
        """The space over its corpus."""
        return self.plans.models

    @property
    def epochs(self) -> tuple[Epochs, ...]:
        """How much of the space's text the training of each kind of trial reads, in ascending order."""
        space = self.space
        reads = {self._read(space.recipe, space.sizes(self.corpus.vocab_size))}
        if trials := [trial for trial in self.plan.trials if trial.data == space.data]:
            reads = {self._read(trial.recipe, trial.architecture.sizes) for trial in trials}
        return tuple(sorted(reads))

    def _read(self, recipe: Recipe, sizes: Sizes) -> Epochs:
        """Return how much of the space's text training at these sizes reads."""
        corpus, windows = self.corpus, sequences_of(recipe)
        if corpus.records is not None or self.space.reads == PAIRS:
            return Epochs(windows=windows, seq_len=1, held=corpus.examples("train"), noun=corpus.noun)
        return Epochs(windows=windows, seq_len=self.space.objective.window(sizes), held=corpus.train.tokens)

    @property
    def texts(self) -> tuple[Data, ...]:
        """The texts that trials are trained on: that of the space first, then those of its treatments."""
        return tuple(dict.fromkeys([self.space.data, *(trial.data for trial in self.plan.trials)]))

    @property
    def read(self) -> tuple[str, ...]:
        """The epochs in words."""
        space = self.space
        windows = space.measure.evaluation.windows
        length = example_length(space.model, space.recipe, space.grammar.catalogue)
        wanted = needed_bytes(space.data, space.recipe, length=length, windows=windows, layout=space.layout)
        return describe_epochs(self.epochs, space.data, wanted)

    @property
    def floors(self) -> tuple[Floor, ...]:
        """The noise floors of the judged metrics that were measured under the plan's conditions, in any space."""
        return self.noise.floors if self.noise else ()

    @property
    def awaits_step_times(self) -> bool:
        """True if seconds per step must be measured before all numbers of steps are known."""
        return self.stage is not None and has_time_budget(self.space) and not self.stage.known.paces

    @property
    def to_run(self) -> tuple[Trial, ...]:
        """The trials of the plan that are not known, once each."""
        trials = {trial.id: trial for trial in self.plan.trials}
        return tuple(trial for id, trial in trials.items() if id not in self.known)

    def seconds(self, workers: int | None = None) -> float | None:
        """Estimate how long the trials to run will take on `workers` (default: as in a run); None without measurements.

        For a search it is the longest time, and None if its budget is not in trials.
        """
        search = self.space.design.search
        most = len(self.to_run) if search is None else most_trials(self.space)
        if self.trial_seconds is None or most is None:
            return None
        at_once = workers or default_workers(self.space.threads)
        if search is not None:
            at_once = min(at_once, search.parallel * len(self.space.seeds))
        return self.trial_seconds * -(-most // at_once)


def meanings_in(space: Space, measured: Mapping[str, str]) -> dict[str, str]:
    """Return what each metric means: for judged metrics and losses the final number of a trial; for all others what was
    `measured`, row by row.
    """
    known = {name: filled(each.definition, space) for name, each in judgeable(space.grammar.catalogue).items()}
    search = space.design.search
    judged = {NATS, BITS, *space.judge.metrics, *(search.objective if search else ())}
    return {**known, **measured, **{name: known[name] for name in judged}}


def filled(definition: str, space: Space) -> str:
    """Return a definition with the value that a space gives to the field it names."""
    decay = space.measure.train_loss_ema
    return definition if decay is None else definition.replace(f"measure.{SMOOTHED}", f"{decay:g}")
