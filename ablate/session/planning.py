"""What a space asks for, and what of it the results folder knows. Nothing is trained."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ablate.errors import AblateError, InputError, RefusedError
from ablate.plan.build import build_plan
from ablate.plan.known import NOTHING, Known
from ablate.plan.models import Models
from ablate.plan.plan import Plan
from ablate.plan.proposals import most_trials
from ablate.session.staged import Stage, counts, learns, paced, unfold
from ablate.source.problems import Problems, together
from ablate.space.fair import Tune
from ablate.space.origin import PROFILE
from ablate.space.space import Space

if TYPE_CHECKING:
    from ablate.data.epochs import Epochs
    from ablate.data.report import CorpusReport
    from ablate.plan.trial import HeldOut, Trial
    from ablate.report.finals import Finals
    from ablate.report.judgement import Account
    from ablate.space.documents import Judge
    from ablate.statistics import Floor
    from ablate.store.noise import Noise
    from ablate.train.events import Outcome

PathLike: TypeAlias = "str | Path"


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, the corpus it is over, and the trials whose outcome the results folder knows already.

    Of these `failed` have no result, with the kind of their outcome: they are not trained again unless one asks for it.
    `trial_seconds` is the median time of one trial of this recipe and size as measured before; None if none was.
    `repetition` is that of the corpus, where a model names it. `noise` is what is known of the judged metrics under the
    plan's conditions, None where nothing is. `account` says how often what it asks was judged before, and what was
    found. Of a plan that learns from its trials `stage` is what they have come to.
    """

    space: Space
    plan: Plan
    corpus: CorpusReport
    known: frozenset[str]
    trial_seconds: float | None
    repetition: float | None = None
    noise: Noise | None = None
    stage: Stage | None = None
    failed: Mapping[str, str] = field(default_factory=dict)
    account: Account = field(default_factory=dict)

    def __repr__(self) -> str:
        from ablate.report import wording

        known = len({trial.id for trial in self.plan.trials} & self.known)
        failed = wording.failed(self.failed[trial.id] for trial in self.plan.trials if trial.id in self.failed)
        said = f"{len(self.to_run)} to run, {known} known{f', of which {failed}' if failed else ''}"
        return f"<Planned {self.plan.space}: {self.plan.design}, {wording.trials_of(self.plan)}; {said}>"

    @property
    def models(self) -> Models:
        """The space over its corpus."""
        return Models(self.space, self.corpus.vocab_size, self.corpus.fingerprint, self.repetition)

    @property
    def epochs(self) -> tuple[Epochs, ...]:
        """What the training of each kind of trial reads of the text, by how much it is."""
        from ablate.data.epochs import Epochs

        seq_len, held = self.space.model.context, self.corpus.train.tokens
        recipes = [trial.recipe for trial in self.plan.trials] or [self.space.recipe]
        windows = sorted({recipe.steps * recipe.batch for recipe in recipes})
        return tuple(Epochs(windows=each, seq_len=seq_len, held=held) for each in windows)

    @property
    def read(self) -> tuple[str, ...]:
        """The same in words."""
        from ablate.data.epochs import describe_epochs
        from ablate.space.streamed import asked_bytes

        space = self.space
        windows = space.measure.evaluation.windows
        asked = asked_bytes(space.data, space.recipe, context=space.model.context, windows=windows)
        return describe_epochs(self.epochs, space.data, asked)

    @property
    def floors(self) -> tuple[Floor, ...]:
        """The noise floors of the judged metrics that were measured under the plan's conditions, in whatever space."""
        return self.noise.floors if self.noise else ()

    @property
    def unpaced(self) -> bool:
        """Whether it must be measured how long steps take before all of them are known."""
        return self.stage is not None and paced(self.space) and not self.stage.known.paces

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


def check(space: Space, *, files: bool = True) -> Plan:
    """Everything about a space that can be checked without reading its corpus; the plan, without its corpus.

    With `files` the files of the corpus must be there; a data set of the hub is not asked for. InputError with every
    mistake; RefusedError where all that is wrong is the corpus.
    """
    from ablate.data.corpus import survey
    from ablate.data.tokenizer import vocab_size_of

    found: list[AblateError] = []
    try:
        plan = build_plan(space, vocab_size=vocab_size_of(space.data.tokenizer), corpus="")
    except InputError as error:
        found.append(error)
    try:
        with corpus_located(space):
            if files:
                survey(space.data, space.folder)
    except RefusedError as error:
        found.append(error)
    if len(found) > 1:
        raise together(found)
    if found:
        raise found[0]
    return plan


@contextmanager
def corpus_located(space: Space) -> Iterator[None]:
    """Show what is wrong with a corpus where the space says it, or the option that was laid over that."""
    from ablate.data.refusal import CorpusError

    try:
        yield
    except CorpusError as error:
        problems, origins = Problems(), space.origins
        for fault in error.faults:
            beside = (keys for keys in fault.beside if origins.layer(origins.key(*keys)) >= PROFILE)
            origins.add(problems, fault.message, fault.at, *beside, label=fault.label, notes=fault.notes)
        raise RefusedError(problems.text(), problems.mistakes()) from error


def plan_space(
    space: Space, *, results: PathLike, limit: float | None = None, outcomes: Mapping[str, Outcome] | None = None
) -> Planned:
    """The plan of a space over its corpus, and what the results folder knows of it, for trials of `limit` seconds.

    `outcomes` are those of the folder, from whoever has read them already.
    """
    from ablate.data.streams import check_corpus, fingerprint
    from ablate.execute.policy import FAILED, is_settled
    from ablate.execute.task import cache_of
    from ablate.store.ledger import known_outcomes

    check(space)  # so that a mistake in the space is told before its corpus is read
    folder = Path(results)
    held_out = _held_out(space)
    with corpus_located(space):
        corpus = fingerprint(space.data, space.folder, cache_of(folder))
        check_corpus(corpus, space.model.context, space.recipe.batch, space.measure.evaluation.windows, held_out)
    repetition = _repetition(space, cache_of(folder)) if space.names_repetition else None
    found = known_outcomes(folder) if outcomes is None else outcomes
    known = frozenset(id for id, outcome in found.items() if is_settled(outcome, limit))
    models = Models(space, corpus.vocab_size, corpus.fingerprint, repetition)
    stage = None
    if learns(space):
        ended = frozenset(id for id, outcome in found.items() if counts(outcome))
        build, finals = partial(plan_of, models), partial(_finals, folder)
        account = partial(_account, space.judge, folder)
        stage = unfold(space, build, ended=ended, finals=finals, paces=_paces(models, folder), account=account)
    plan = plan_of(models, NOTHING) if stage is None else stage.plan
    noise = _noise(plan, space, folder) if known else None
    seconds = _trial_seconds(plan, known, folder)
    failed = {id: found[id].kind for id in known if found[id].kind in FAILED}
    before = {} if space.design.search is not None else _account(space.judge, folder, plan)
    return Planned(
        space,
        plan,
        corpus,
        known,
        seconds,
        repetition,
        noise=noise,
        stage=stage,
        failed=failed,
        account=before,
    )


def plan_of(models: Models, known: Known) -> Plan:
    """The plan of a space over its corpus, from what is known."""
    return build_plan(
        models.space, vocab_size=models.vocab_size, corpus=models.corpus, repetition=models.repetition, known=known
    )


def _held_out(space: Space) -> tuple[HeldOut, ...]:
    """The splits that anything is evaluated on."""
    tunes = space.design.search is not None or isinstance(space.fair.tune, Tune)
    return ("tuning", "verdict") if tunes else ("verdict",)


def _paces(models: Models, folder: Path) -> Mapping[str, float]:
    if not paced(models.space):
        return {}
    from ablate.session.pacing import read_paces

    return read_paces(folder, models)


def _finals(folder: Path, trial_ids: Collection[str]) -> Finals:
    from ablate.store.ends import ends_now

    return ends_now(folder, trial_ids)  # type: ignore[return-value]


def _noise(plan: Plan, space: Space, folder: Path) -> Noise:
    from ablate.store.noise import noise_of

    return noise_of(folder, plan, space.judge)


def _account(rules: Judge, folder: Path, plan: Plan, finals: Finals | None = None) -> Account:
    """Which judgement of its questions the seeds of a plan will have."""
    from ablate.store import questions

    if not questions.read(folder):
        return {}
    from ablate.session.judging import account_of

    return account_of(plan, rules, folder, finals or _finals(folder, [trial.id for trial in plan.trials]))


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
