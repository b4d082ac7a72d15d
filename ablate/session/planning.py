"""The plan of a space, and what the results folder knows of it; nothing is trained."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from ablate.block.catalogue import additions_at_default
from ablate.block.normal_form import digest
from ablate.block.sizes import Sizes
from ablate.data.corpus import CorpusReport, check_corpus, outputs_of, survey
from ablate.data.corpus_statistics import Epochs, describe_epochs, measure_repetition
from ablate.data.pair_stream import Pairs, cut_notes
from ablate.data.sources import CorpusError
from ablate.data.streams import fingerprint, prepare
from ablate.errors import AblateError, InputError, RefusedError
from ablate.execute.executor import FAILED, cache_of, default_workers, is_settled
from ablate.execute.forecaster import Forecaster
from ablate.plan.build import build_plan
from ablate.plan.models import Models, TokenisedText
from ablate.plan.plan import HeldOut, Plan, Trial
from ablate.plan.proposals import most_trials
from ablate.report import wording
from ablate.session.stages import Plans, Stage, counts, has_time_budget, read_step_times, unfold
from ablate.source.located import to_python
from ablate.source.problems import Problems, together
from ablate.space.data import Data
from ablate.space.fair import Tune
from ablate.space.fits import PAIRS, example_length, needed_bytes
from ablate.space.metrics import BITS, NATS, SMOOTHED, judgeable
from ablate.space.overlay import PROFILE
from ablate.space.schedule import sequences_of
from ablate.space.space import Space
from ablate.space.variants import Changes
from ablate.store import machines
from ablate.store.durable import check_folder
from ablate.store.machines import CPU, installed, mixed
from ablate.store.predictions import Stamps, reusable_forecasts, unkept
from ablate.store.snapshot import Snapshot
from ablate.train.events import Outcome
from ablate.verdict.summary import Stamp

if TYPE_CHECKING:
    from ablate.statistics import Floor
    from ablate.store.measurements import PlanNoise
    from ablate.verdict.experiment import Finals
    from ablate.verdict.judgement import Account
    from ablate.verdict.power import ClaimPower

PathLike: TypeAlias = "str | Path"
RESULTS = Path("results")
Forecasting: TypeAlias = Literal["none", "quick", "kept"]
"""Whether a plan has forecasts, and over how many tokens: see `execute/forecaster.py`."""


@dataclass(frozen=True, slots=True)
class KnownTexts:
    """The facts about texts that planning needs; `changed` are those of treatments, by what they change."""

    corpus: CorpusReport
    repetition: float | None
    changed: Mapping[Changes, TokenisedText] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, its corpus, and the trials whose outcome the results folder knows already.

    `failed` are the known trials without a result, with the kind of their outcome: they are trained again only on
    request. `trial_seconds` is the median time of earlier trials of this recipe and size, or None. `plans` builds the
    plans of the same space as more becomes known. `noise` is the known noise of the judged metrics, or None. `account`
    has the earlier judgements of its questions. `stage` is the stage that a run of it is at. `mixed` are the versions
    in which its trials differ, in lines. `gpus` are the bytes of each GPU of this machine, if recorded. `stamps` say of
    each claim when it was made.
    """

    plan: Plan
    plans: Plans
    corpus: CorpusReport
    known: frozenset[str]
    stage: Stage
    trial_seconds: float | None = None
    noise: PlanNoise | None = None
    failed: Mapping[str, str] = field(default_factory=dict)
    account: Account = field(default_factory=dict)
    mixed: tuple[str, ...] = ()
    gpus: tuple[int, ...] = ()
    stamps: tuple[Stamp, ...] = ()

    def __repr__(self) -> str:
        known = len({trial.id for trial in self.plan.trials} & self.known)
        failed = wording.failed(self.failed[trial.id] for trial in self.plan.trials if trial.id in self.failed)
        state = f"{len(self.to_run)} to run, {known} known{f', of which {failed}' if failed else ''}"
        return f"<Planned {self.plan.space}: {self.plan.design}, {wording.trials_of(self.plan)}; {state}>"

    @property
    def space(self) -> Space:
        return self.models.space

    @property
    def models(self) -> Models:
        return self.plans.models

    @property
    def epochs(self) -> tuple[Epochs, ...]:
        """The passes over the text, of each kind of trial, in ascending order."""
        space, corpus = self.space, self.corpus
        works = [trial.work for trial in self.plan.trials]
        kinds = [(work.recipe, work.architecture.sizes) for work in works if work.data == space.data]
        reads = (
            Epochs(windows=sequences_of(recipe), seq_len=1, held=corpus.examples("train"), noun=corpus.noun)
            if corpus.records is not None or space.reads == PAIRS
            else Epochs(windows=sequences_of(recipe), seq_len=space.objective.window(sizes), held=corpus.train.tokens)
            for recipe, sizes in kinds or [(space.recipe, space.sizes(corpus.vocab_size))]
        )
        return tuple(sorted(set(reads)))

    @property
    def texts(self) -> tuple[Data, ...]:
        """The texts of trials: that of the space first, then those of its treatments."""
        return tuple(dict.fromkeys([self.space.data, *(trial.work.data for trial in self.plan.trials)]))

    @property
    def read(self) -> tuple[str, ...]:
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
    def claim_powers(self) -> tuple[ClaimPower, ...]:
        """The power of each claim, or why it has none."""
        from ablate.verdict.power import claim_powers  # loads SciPy

        means = self.noise.means if self.noise else {}
        return claim_powers(self.plan, self.space.judge, self.floors, means, self.account)

    @property
    def awaits_step_times(self) -> bool:
        """True if seconds per step must be measured before all numbers of steps are known."""
        return has_time_budget(self.space) and not self.stage.known.paces

    @property
    def to_run(self) -> tuple[Trial, ...]:
        trials = {trial.id: trial for trial in self.plan.trials}
        return tuple(trial for id, trial in trials.items() if id not in self.known)

    def seconds(self, workers: int | None = None) -> float | None:
        """An upper bound for the trials to run, on `workers` (default: as in a run); None if not known."""
        search = self.space.design.search
        most = len(self.to_run) if search is None else most_trials(self.space)
        if self.trial_seconds is None or most is None:
            return None
        at_once = workers or default_workers(self.space.threads, self.gpus)
        if search is not None:
            at_once = min(at_once, search.parallel * len(self.space.seeds))
        return self.trial_seconds * -(-most // at_once)


def check(space: Space, *, files: bool = True) -> Plan:
    """Check everything about a space that needs no reading of its corpus, and return the plan without its corpus.

    With `files` the corpus files must exist; a data set of the hub is not requested. InputError with every mistake;
    RefusedError if only the corpus is wrong.
    """
    errors: list[AblateError] = []
    try:
        plan = build_plan(space, vocab_size=outputs_of(space.data, space.grammar.catalogue), corpus="", read=_unread)
    except InputError as error:
        errors.append(error)
    try:
        with corpus_located(space):
            if files:
                survey(space.data, space.folder, space.grammar.catalogue)
    except RefusedError as error:
        errors.append(error)
    if len(errors) > 1:
        raise together(errors)
    if errors:
        raise errors[0]
    return plan


@contextmanager
def corpus_located(space: Space) -> Iterator[None]:
    """Show what is wrong with a corpus at its place in the space, or in the option that was laid over it."""
    try:
        yield
    except CorpusError as error:
        problems, origins = Problems(), space.origins
        for fault in error.faults:
            beside = (keys for keys in fault.beside if origins.layer(origins.key(*keys)) >= PROFILE)
            origins.add(problems, fault.message, fault.at, *beside, label=fault.label, notes=fault.notes)
        raise RefusedError(problems.text(), problems.mistakes()) from error


def plan_space(
    space: Space,
    *,
    results: PathLike,
    limit: float | None = None,
    outcomes: Mapping[str, Outcome] | None = None,
    forecasts: Forecasting = "quick",
    fresh: bool = False,
    say: Callable[[str], None] | None = None,
    texts: KnownTexts | None = None,
) -> Planned:
    """Plan a space over its corpus, with what the results folder knows of it under a time limit of `limit` seconds.

    `outcomes` are those of the folder, if read already. Each variant has a forecast or a reason, unless `forecasts` are
    `none`: over few tokens if they are `quick`, over more if they are to be `kept` with the results. Kept forecasts are
    not made again unless `fresh`; `say` is told if making them takes long. Known `texts` are not read.
    """
    if texts is None:
        check(space, files=space.kept is None)  # a mistake in the space comes before one in its corpus
    folder = Path(results)
    check_folder(folder)
    cache, read = cache_of(folder), None
    if texts is None:
        texts, read = _texts(space, cache), partial(_read, cache=cache)
    corpus, changed = texts.corpus, dict(texts.changed)
    models = Models(space, corpus.vocab_size, corpus.fingerprint, texts.repetition, read, texts=changed)
    kept = dict if fresh else partial(reusable_forecasts, folder, space.name, to_python(space.located))
    forecaster = None if forecasts == "none" else Forecaster(models, cache, forecasts == "quick", kept=kept, say=say)
    return plan_from(Plans(models, forecaster), corpus, results=folder, limit=limit, outcomes=outcomes)


def plan_from(
    plans: Plans,
    corpus: CorpusReport,
    *,
    results: PathLike,
    limit: float | None = None,
    outcomes: Mapping[str, Outcome] | None = None,
) -> Planned:
    space, folder = plans.models.space, Path(results)
    now = Snapshot(folder)
    outcomes = now.outcomes() if outcomes is None else outcomes
    known = frozenset(id for id, outcome in outcomes.items() if is_settled(outcome, limit))

    def finals(trial_ids: Collection[str]) -> Finals:
        from ablate.store import measurements  # loads DuckDB and SciPy, which a new folder does not need

        return measurements.finals(folder, trial_ids)

    def account(plan: Plan, ended: Finals) -> Account:
        from ablate.session.accounts import account_of  # loads DuckDB and SciPy, as below

        return account_of(plan, ended, rules=space.judge, folder=folder)

    stage = unfold(
        space,
        plans.of,
        ended=frozenset(id for id, outcome in outcomes.items() if counts(outcome)),
        finals=finals,
        paces=read_step_times(folder, plans),
        account=account,
    )
    plan, seconds, noise = stage.plan, None, None
    if known:
        # They load DuckDB and SciPy, which a new folder does not need.
        from ablate.store.measurements import noise_of, trial_seconds

        like = next((trial for trial in plan.trials if plan.open or trial.id not in known), None)
        seconds = None if like is None else trial_seconds(folder, like)
        noise = noise_of(folder, plan, space.judge)
    judged = space.design.search is None and now.questions
    return Planned(
        plan,
        plans,
        corpus,
        known,
        stage,
        trial_seconds=seconds,
        noise=noise,
        failed={id: outcomes[id].kind for id in known if outcomes[id].kind in FAILED},
        account=account(plan, finals([trial.id for trial in plan.trials])) if judged else {},
        mixed=mixed_versions(plan, now, known),
        gpus=here.gpus if (here := machines.remembered(folder, space.recipe.dtype)) else (),
        stamps=Stamps(now).of(unkept(plan, to_python(space.located))) if space.judge.expect else (),
    )


def mixed_versions(plan: Plan, now: Snapshot, known: Container[str] | None = None) -> tuple[str, ...]:
    """The versions in which the ended trials of a plan differ, in lines; given the `known`, also those to run,
    as far as it is recorded what this machine computes."""
    here: dict[str, Mapping[str, str]] = {}
    sets: list[tuple[Mapping[str, str], str]] = []
    for trial in {trial.id: trial for trial in plan.trials}.values():
        if known is not None and trial.id not in known:
            dtype = trial.work.recipe.dtype
            if dtype not in here:
                installed_here = {name: version for name, version in installed().items() if name != CPU}
                machine = machines.remembered(now.folder, dtype)
                here[dtype] = installed_here if machine is None else machine.versions
            sets.append((here[dtype], "to run"))
        elif trial.id in now.endings:
            sets.append((now.endings[trial.id].versions, "trial"))
    return mixed(sets)


def _read(space: Space, cache: Path) -> TokenisedText:
    of = _texts(space, cache)
    return TokenisedText(vocab_size=of.corpus.vocab_size, fingerprint=of.corpus.fingerprint, repetition=of.repetition)


def _texts(space: Space, cache: Path) -> KnownTexts:
    corpus, repetition = _report(space, cache), None
    if space.names_repetition:
        of = (space.data, space.folder, cache, space.model.context, space.grammar.catalogue, corpus.fingerprint)
        repetition = measure_repetition(*of).value
    return KnownTexts(corpus, repetition)


def _unread(space: Space) -> TokenisedText:
    """The stand-in for a text before it is read: other data are another text."""
    data = space.data.model_dump(mode="json", exclude=additions_at_default(space.data))
    outputs = outputs_of(space.data, space.grammar.catalogue)
    return TokenisedText(vocab_size=outputs, fingerprint=digest(data, 64))


def _report(space: Space, cache: Path) -> CorpusReport:
    """The report on the corpus of a space; RefusedError where it is too small for the space."""
    tunes = space.design.search is not None or isinstance(space.fair.tune, Tune)
    held_out: tuple[HeldOut, ...] = ("tuning", "verdict") if tunes else ("verdict",)
    with corpus_located(space):
        corpus = fingerprint(space.data, space.folder, cache, space.grammar.catalogue, kept=space.kept is not None)
        sizes, of_pairs = space.sizes(corpus.vocab_size), space.reads == PAIRS
        window, windows = space.objective.window(sizes), space.measure.evaluation.windows
        check_corpus(corpus, window, space.recipe.batch, windows, held_out, of_pairs=of_pairs)
        notes = (*corpus.notes, *_notes(space, corpus, sizes, cache))
    return corpus.model_copy(update={"notes": notes})


def _notes(space: Space, corpus: CorpusReport, sizes: Sizes, cache: Path) -> Iterator[str]:
    """Notes on tokens of the vocabulary that stand for no text, and on pairs that are not wholly read."""
    if more := sizes.vocab_size - corpus.vocab_size:
        tokens = "1 token that stands" if more == 1 else f"{more:,} tokens that stand"
        yield f"the vocabulary of the model is {sizes.vocab_size:,}, with {tokens} for no text"
    if space.reads == PAIRS and space.layout is not None:
        longest, room = space.layout.targets, sizes.seq_len
        if longest > room:
            yield f"of targets, which have up to {longest:,} tokens, {room:,} are read"
    elif space.reads == PAIRS:
        assert sizes.source_len is not None
        streams = prepare(space.data, space.folder, cache, space.grammar.catalogue)
        yield from cut_notes(Pairs(streams.train, sizes.separator), sizes.source_len, sizes.seq_len)


def meanings_in(space: Space, measured: Mapping[str, str]) -> dict[str, str]:
    """The meaning of each metric: of judged ones and losses a trial's final number, else as `measured` by row."""
    known = {name: filled(each.definition, space) for name, each in judgeable(space.grammar.catalogue).items()}
    search = space.design.search
    judged = {NATS, BITS, *space.judge.metrics, *(search.objective if search else ())}
    return {**known, **measured, **{name: known[name] for name in judged}}


def filled(definition: str, space: Space) -> str:
    decay = space.measure.train_loss_ema
    return definition if decay is None else definition.replace(f"measure.{SMOOTHED}", f"{decay:g}")
