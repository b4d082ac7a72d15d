"""The plan of a space, and what the results folder knows of it. Nothing is trained."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from ablate.block.added import untold
from ablate.block.fingerprint import digest
from ablate.block.sizes import Sizes
from ablate.data.corpus import outputs_of, survey
from ablate.data.pair_stream import Pairs, cut_notes
from ablate.data.refusal import CorpusError
from ablate.data.repetition import measure_repetition
from ablate.data.report import CorpusReport
from ablate.data.streams import check_corpus, fingerprint, prepare
from ablate.errors import AblateError, InputError, RefusedError
from ablate.execute.forecaster import Forecaster
from ablate.execute.policy import FAILED, is_settled
from ablate.execute.task import cache_of
from ablate.plan.build import build_plan
from ablate.plan.models import Models, TokenisedText
from ablate.plan.plan import Plan
from ablate.plan.trial import HeldOut
from ablate.session.planned import Planned, Plans
from ablate.session.stages import Stage, adapts, counts, has_time_budget, unfold
from ablate.session.step_time import read_step_times
from ablate.source.located import to_python
from ablate.source.problems import Problems, together
from ablate.space.fair import Tune
from ablate.space.objective_fit import PAIRS
from ablate.space.origin import PROFILE
from ablate.space.space import Space
from ablate.store import questions
from ablate.store.kept_forecasts import reusable_forecasts
from ablate.store.ledger import known_outcomes
from ablate.train.events import Outcome

if TYPE_CHECKING:
    from ablate.session.known_results import KnownResults

PathLike: TypeAlias = "str | Path"
RESULTS = Path("results")
Forecasting: TypeAlias = Literal["none", "quick", "kept"]
"""Whether a plan has forecasts, and over how many tokens: see `execute/forecaster.py`."""


def check(space: Space, *, files: bool = True) -> Plan:
    """Check everything about a space that needs no reading of its corpus, and return the plan without its corpus.

    With `files` the files of the corpus must exist; a data set of the hub is not requested. InputError with every
    mistake; RefusedError if only the corpus is wrong.
    """
    errors: list[AblateError] = []
    try:
        plan = build_plan(space, vocab_size=_outputs(space), corpus="", read=_unread)
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
) -> Planned:
    """Plan a space over its corpus, with what the results folder knows of it under a time limit of `limit` seconds.

    `outcomes` are those of the folder, if they were read already. Each variant has a forecast or a reason: over
    few tokens if they are `quick`, over more if they are to be `kept` with the results; unless there are `none`. Those
    that the folder keeps of the same variant are not made again unless `fresh`, and `say` is told if making them takes
    long.
    """
    check(space)  # so that a mistake in the space is reported before its corpus is read
    folder = Path(results)
    corpus = _report(space, cache_of(folder))
    repetition = _repetition(space, cache_of(folder)) if space.names_repetition else None
    read = partial(_read, cache=cache_of(folder))
    models = Models(space, corpus.vocab_size, corpus.fingerprint, repetition, read)
    forecaster = None if forecasts == "none" else Forecaster(models, cache_of(folder), forecasts == "quick", say=say)
    if forecaster is not None and not fresh:
        kept = partial(reusable_forecasts, folder, space.name, to_python(space.located))
        forecaster = replace(forecaster, kept=kept)
    plans = Plans(models, forecaster)
    return plan_from(plans, corpus, results=folder, limit=limit, outcomes=outcomes)


def _report(space: Space, cache: Path) -> CorpusReport:
    """Return the report on the corpus of a space; RefusedError where it is too small for the space."""
    with corpus_located(space):
        corpus = fingerprint(space.data, space.folder, cache, space.grammar.catalogue)
        sizes, of_pairs = space.sizes(corpus.vocab_size), space.reads == PAIRS
        window, windows = space.objective.window(sizes), space.measure.evaluation.windows
        check_corpus(corpus, window, space.recipe.batch, windows, _held_out(space), of_pairs=of_pairs)
        notes = (*corpus.notes, *_token_notes(corpus, sizes), *_cut_notes(space, sizes, cache))
    return corpus.model_copy(update={"notes": notes})


def _token_notes(corpus: CorpusReport, sizes: Sizes) -> Iterator[str]:
    """Yield what the vocabulary of the model has beside the tokens of the text."""
    if more := sizes.vocab_size - corpus.vocab_size:
        tokens = "1 token that stands" if more == 1 else f"{more:,} tokens that stand"
        yield f"the vocabulary of the model is {sizes.vocab_size:,}, with {tokens} for no text"


def _cut_notes(space: Space, sizes: Sizes, cache: Path) -> tuple[str, ...]:
    """Return what says that not all of some pairs is read."""
    if space.reads != PAIRS:
        return ()
    if space.layout is not None:
        longest, room = space.layout.targets, sizes.seq_len
        return () if longest <= room else (f"of targets, which have up to {longest:,} tokens, {room:,} are read",)
    assert sizes.source_len is not None
    streams = prepare(space.data, space.folder, cache, space.grammar.catalogue)
    return cut_notes(Pairs(streams.train, sizes.separator), sizes.source_len, sizes.seq_len)


def _read(space: Space, cache: Path) -> TokenisedText:
    """Return the text of a space that a treatment has changed."""
    corpus = _report(space, cache)
    repetition = _repetition(space, cache) if space.names_repetition else None
    return TokenisedText(vocab_size=corpus.vocab_size, fingerprint=corpus.fingerprint, repetition=repetition)


def _unread(space: Space) -> TokenisedText:
    """Return what is known of a text before it is read: that other data are another text."""
    data = space.data.model_dump(mode="json", exclude=untold(space.data))
    return TokenisedText(vocab_size=_outputs(space), fingerprint=digest(data, 64))


def _outputs(space: Space) -> int:
    """Return what a model of a space chooses among: the vocabulary, or the classes."""
    return outputs_of(space.data, space.grammar.catalogue)


def plan_from(
    plans: Plans,
    corpus: CorpusReport,
    *,
    results: PathLike,
    limit: float | None = None,
    outcomes: Mapping[str, Outcome] | None = None,
) -> Planned:
    """Plan a space as `plan_space` does, from its plans over a corpus that was read."""
    space, folder = plans.models.space, Path(results)
    outcomes = known_outcomes(folder) if outcomes is None else outcomes
    known = frozenset(id for id, outcome in outcomes.items() if is_settled(outcome, limit))
    stage = _stage(space, plans, folder, outcomes) if adapts(space) else None
    plan = plans.of() if stage is None else stage.plan
    judged = space.design.search is None and bool(questions.read(folder))
    read = _known_results(folder, space) if known or judged else None
    return Planned(
        space,
        plan,
        plans,
        corpus,
        known,
        trial_seconds=read.trial_seconds(plan, known) if read and known else None,
        noise=read.noise(plan) if read and known else None,
        stage=stage,
        failed={id: outcomes[id].kind for id in known if outcomes[id].kind in FAILED},
        account=read.account(plan) if read and judged else {},
    )


def _stage(space: Space, plans: Plans, folder: Path, outcomes: Mapping[str, Outcome]) -> Stage:
    """Return the stage of an adaptive run that follows from what the folder knows."""
    return unfold(
        space,
        plans.of,
        ended=frozenset(id for id, outcome in outcomes.items() if counts(outcome)),
        finals=lambda trial_ids: _known_results(folder, space).finals(trial_ids),
        paces=read_step_times(folder, plans) if has_time_budget(space) else {},
        account=lambda plan, finals: _known_results(folder, space).account(plan, finals),
    )


def _known_results(folder: Path, space: Space) -> KnownResults:
    from ablate.session.known_results import KnownResults  # loads DuckDB and SciPy, which a new folder does not need

    return KnownResults(folder, space.judge)


def _held_out(space: Space) -> tuple[HeldOut, ...]:
    """Return the held-out splits that the space evaluates on."""
    tunes = space.design.search is not None or isinstance(space.fair.tune, Tune)
    return ("tuning", "verdict") if tunes else ("verdict",)


def _repetition(space: Space, cache: Path) -> float:
    return measure_repetition(space.data, space.folder, cache, space.model.context, space.grammar.catalogue).value
