"""Earlier runs: what was asked, as a results folder stores it, and asked again: reported, resumed, or tried again.

None of the author's files is needed, except for plans of earlier versions, which kept none: their spaces are read where
they were. A file that is there and has changed is told.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ablate.components.registry import declarations
from ablate.data.corpus import CorpusReport
from ablate.errors import AblateError, InputError, RefusedError
from ablate.execute.executor import FAILED, ExecutorOptions
from ablate.extension.loader import is_plugin
from ablate.grammar.named_files import is_shipped, portable, shipped_files
from ablate.plan.models import Models, TokenisedText
from ablate.plan.syntax_hash import syntax_hash
from ablate.session.planning import RESULTS, KnownTexts, PathLike, Planned, filled, plan_space
from ablate.session.stages import has_time_budget
from ablate.source.located import Mapping as Located
from ablate.source.located import to_python
from ablate.source.problems import Problems, quote, unknown
from ablate.source.yaml import is_file, parse_yaml
from ablate.space.data import SavedTokenizer, text_of
from ablate.space.load import grammar_file, load_space
from ablate.space.metrics import Definition
from ablate.space.space import KeptTexts, Space
from ablate.store import files
from ablate.store.documents import Documents, ResolvedSpace, TextDocument, digest, plan_id
from ablate.store.durable import check_folder, compact, write_whole, writing
from ablate.store.files import digest_of
from ablate.store.records import KeptPlan, Request, status_command
from ablate.store.snapshot import Snapshot, growing, standings, unjudged, unplanned
from ablate.train.definitions import definitions
from ablate.train.events import WITH_RESULT

if TYPE_CHECKING:
    from ablate.store.results import Results
    from ablate.store.snapshot import Growing, TrialStatus

PAGES = "pages"
APART = "trials"  # the key of a resolved space that tells its plan from one of the same words, but with other trials
ID_DIGITS = 8
KEYS_TOLD = 4


@dataclass(frozen=True, slots=True)
class KeptSpace:
    """A space as it was run, its plugins, and its known texts; `changed` says which files have changed since."""

    space: Space
    plugins: tuple[Path, ...]
    texts: KnownTexts | None = None
    changed: str = ""


def files_of(planned: Planned, name: str) -> dict[str, bytes]:
    """The files that decide a plan, by role and portable name: `space/spaces/tiny.yaml`; its space is at `name`.

    A `grammar` is the user's own, `shipped` one of ablate's; an `include` is of either; plugins are numbered.
    """
    space, grammar = planned.space, planned.space.grammar
    role = "shipped" if is_shipped(grammar.path, "grammar") else "grammar"
    contents = {f"space/{name}": space.text.encode()}
    for included, text in grammar.texts.items():
        contents[f"include/{included}" if included else f"{role}/{portable(grammar.path)}"] = text.encode()
    for data in planned.texts:
        if isinstance(data.tokenizer, SavedTokenizer):
            contents[f"tokenizer/{data.tokenizer.file}"] = text_of(data.tokenizer, space.folder).encode()
    declared = [*grammar.catalogue, *(each for kind in grammar.catalogue.others.values() for each in kind.values())]
    plugins = sorted({each.path for each in declared if is_plugin(each)})
    return {**contents, **{f"plugin/{n}/{path.name}": path.read_bytes() for n, path in enumerate(plugins, start=1)}}


def documents(planned: Planned, store: Results, request: Request, *, train: bool) -> Documents:
    space, decided = planned.space, files_of(planned, request.shown[0])
    if train:
        defined = tuple(
            replace(each, definition=filled(each.definition, space)) for each in definitions(space.grammar.catalogue)
        )
    else:
        from ablate.store.query import query  # loads DuckDB, which asking again does not need

        rows = query(store.folder, "SELECT DISTINCT metric, definition, source FROM definitions ORDER BY metric").rows
        defined = tuple(Definition(*row) for row in rows)
    return Documents(
        source=space.text,
        resolved=resolved_of(planned, store.folder),
        definitions=defined,
        corpus=planned.corpus.model_dump(mode="json"),
        sources={name: files.keep_source(store.folder, of) for name, of in decided.items()},
        profile=space.profile,
        settings=space.settings,
        texts=texts_of(planned.models),
    )


def texts_of(models: Models) -> tuple[TextDocument, ...]:
    own: TextDocument = {"repetition": models.repetition}
    changed: Iterator[TextDocument] = (
        {
            "changes": changes,
            "vocab_size": text.vocab_size,
            "fingerprint": text.fingerprint,
            "repetition": text.repetition,
        }
        for changes, text in models.texts.items()
    )
    return (own, *changed)


def resolved_of(planned: Planned, folder: Path) -> ResolvedSpace:
    """A resolved space, which identifies its plan, marked if an earlier plan of the same words has other trials.

    A plan that has grown, or fits other steps into the same time, is the same.
    """
    now, same = {trial.id for trial in planned.plan.trials}, of_same_words(planned.space, folder)
    for plan in same:
        then = {str(trial_id) for trial_id, *_ in plan.document["trials"]}
        if then <= now or now <= then or (has_time_budget(planned.space) and _decides_alike(planned, plan)):
            return dict(plan.document["resolved"])
    resolved: ResolvedSpace = to_python(planned.space.located)
    return {**resolved, APART: digest(sorted(now))} if same else resolved


def of_same_words(space: Space, folder: Path) -> list[KeptPlan]:
    plain, plans = json.loads(compact(to_python(space.located))), Snapshot(folder).plans.of_space.get(space.name, ())
    return [plan for plan in reversed(plans) if unmarked(plan.document["resolved"]) == plain]


def unmarked(resolved: ResolvedSpace) -> ResolvedSpace:
    return {key: value for key, value in resolved.items() if key != APART}


def _decides_alike(planned: Planned, plan: KeptPlan) -> bool:
    kept = {name: mark for name, mark in plan.document.get("sources", {}).items() if not name.startswith("space/")}
    now = {name: digest_of(content) for name, content in files_of(planned, "").items() if name != "space/"}
    return plan.document["corpus"].get("fingerprint") == planned.corpus.fingerprint and kept in ({}, now)


def page_of(folder: Path, space: str, resolved: ResolvedSpace) -> Path:
    """The page of a plan: of the plan of a space that was run first it has the space's name, of any other also the
    beginning of the plan's id, so that no plan overwrites the page of another."""
    plans, own = Snapshot(folder).plans.of_space.get(space, ()), plan_id(space, asked=digest(resolved))
    first = min(plans, key=lambda plan: plan.first_seen or 0.0).id if plans else own
    return folder / PAGES / (f"{space}.html" if first == own else f"{space}.{own[:ID_DIGITS]}.html")


def requests_of(folder: Path, name: str | None = None, *, notes: tuple[str, ...] = ()) -> dict[str, Request]:
    """The last request of each space, or of `name` alone. InputError if nothing was run, or not that space."""
    check_folder(folder)
    now = Snapshot(folder)
    if not now.requests and not files.has_results(folder):
        raise InputError(f"nothing was run in {folder}\n  = run a space first, or name another folder with --results")
    if name is None:
        return dict(now.requests)
    if name not in now.requests and name in now.plans.of_space:
        raise forgotten(folder, name)
    if name in now.tables:
        message = f"{name} is a judged table, whose runs were trained elsewhere"
        raise InputError(f"{message}\n  = `ablate report {name}` writes its page, `ablate judge` judges it again")
    if name not in now.requests:
        message, command = f"no run of the space {quote(name)} in {folder}", status_command(folder)
        raise unknown(message, name, now.requests, "there are", command=command, notes=notes)
    return {name: now.requests[name]}


def forgotten(folder: Path, space: str) -> RefusedError:
    return RefusedError(
        f"{folder} does not say how {space} was run\n"
        f"  = `ablate doctor --results {folder}` recovers what can be recovered; or run it again with `ablate run`"
    )


def as_run(folder: Path, request: Request) -> KeptSpace:
    """A space as it was last run, from what the folder keeps of it, else from its file."""
    plan = Snapshot(folder).plans.current(request.space)
    names: Mapping[str, str] = {} if plan is None else plan.document.get("sources", {})
    if plan is None or not names:
        return where_it_was(folder, request)
    roles: dict[str, dict[str, bytes]] = {}
    for name, mark in names.items():
        role, _, rest = name.partition("/")
        roles.setdefault(role, {})[rest] = _read(folder, request.space, name, mark)
    own = roles.pop("plugin", {})
    plugins = tuple(
        next((where for where in _places(request, name) if where.read_bytes() == content), None)
        or _laid_out(folder, request.space, f"plugin/{name}", names[f"plugin/{name}"])
        for name, content in own.items()
    )
    texts = {role: {rest: content.decode() for rest, content in of.items()} for role, of in roles.items()}
    grammar, named = next(iter((texts.get("grammar") or texts["shipped"]).items()))
    kept = KeptTexts(
        next(iter(texts["space"].values())),
        shipped_files("grammar").get(Path(grammar).stem, Path(grammar)) if "shipped" in roles else Path(grammar),
        {"": named, **texts.get("include", {})},
        texts.get("tokenizer", {}),
    )
    profile, settings = plan.document.get("profile"), tuple(plan.document.get("settings", ()))
    space = load_space(Path(request.path), declarations(plugins), profile=profile, settings=settings, kept=kept)
    changed = list(_changed(space, request, own))
    verb = "has" if len(changed) == 1 else "have"
    said = f"{', '.join(changed)} {verb} changed since {space.name} was run" if changed else ""
    return KeptSpace(space, plugins, _known_texts(plan), said)


def where_it_was(folder: Path, request: Request) -> KeptSpace:
    """The space of a run without a plan, or whose plan keeps no files, read where it was; errors say what it lacks."""
    plugins = tuple(map(Path, request.plugins))
    try:
        catalogue = declarations(plugins)
        space = load_space(Path(request.path), catalogue, profile=request.profile, settings=request.settings)
    except InputError as error:
        if Path(request.path).exists() and all(path.exists() for path in plugins):
            raise
        raise RefusedError(
            f"{error}\n  = {folder} keeps no files of the last run of {request.space}: it was not planned yet, or by "
            f"an earlier version; put {', '.join(request.shown)} back"
        ) from error
    return KeptSpace(space, plugins)


def _read(folder: Path, space: str, name: str, kept: str) -> bytes:
    """A file that was kept of a space; RefusedError if it is lost or has changed."""
    source = f"{files.SOURCES}/{kept}"
    content, fault = files.whole(folder, source)
    if content is None:
        _, _, file = name.partition("/")
        raise RefusedError(
            f"lost: {source} {fault}: it was {file}, one of the files with which {space} was run\n"
            f"  = `ablate doctor --results {folder}` recovers it if it can; else put {file} back as it was and run it "
            "again with `ablate run`, which trains nothing that is known"
        )
    return content


def _laid_out(folder: Path, space: str, name: str, kept: str) -> Path:
    """A file that was kept, under its own name: a plugin, which workers import. RefusedError as `_read`."""
    content, path = _read(folder, space, name, kept), folder / files.SOURCES / f"{kept}.files" / Path(name).name
    if not path.exists() or path.read_bytes() != content:
        with writing(path):
            path.parent.mkdir(exist_ok=True)
        write_whole(path, content)
    return path.resolve()


def _places(request: Request, name: str) -> list[Path]:
    return [Path(path) for path in request.plugins if Path(path).name == Path(name).name and is_file(Path(path))]


def _changed(space: Space, request: Request, plugins: Mapping[str, bytes]) -> Iterator[str]:
    path, kept = Path(request.path), space.kept
    assert kept is not None
    if is_file(path) and path.read_bytes() != kept.space.encode() and (what := _keys_changed(space, request)):
        yield f"{request.shown[0]} ({what})"
    assert isinstance(space.located, Located)
    grammar = grammar_file(space.located, path, Problems())
    if grammar is not None and not is_shipped(grammar, "grammar"):
        for name, text in kept.grammars.items():
            file = grammar.parent / name if name else grammar
            if is_file(file) and _content(file.read_bytes(), _as_yaml) != _as_yaml(text):
                yield portable(file)
    for name, text in kept.tokenizers.items():
        if is_file(file := path.parent / Path(name).expanduser()) and file.read_bytes() != text.encode():
            yield portable(file)
    for name, content in plugins.items():
        there = [where.read_bytes() for where in _places(request, name)]
        if there and all(_content(each, syntax_hash) != _content(content, syntax_hash) for each in there):
            yield Path(name).name


def _keys_changed(space: Space, request: Request) -> str:
    try:
        plugins = tuple(Path(plugin) for plugin in request.plugins)
        now = load_space(Path(request.path), declarations(plugins), profile=space.profile, settings=space.settings)
    except AblateError:
        return "it cannot be read as it is now"
    keys = list(_unequal(to_python(space.located), to_python(now.located)))
    more = f" and {len(keys) - KEYS_TOLD} more" if len(keys) > KEYS_TOLD else ""
    return ", ".join(keys[:KEYS_TOLD]) + more


def _unequal(before: object, now: object, at: str = "") -> Iterator[str]:
    if isinstance(before, dict) and isinstance(now, dict) and (not at or before.keys() & now.keys()):
        for key in {**before, **now}:
            yield from _unequal(before.get(key), now.get(key), f"{at}.{key}" if at else str(key))
    elif before != now:
        yield at


def _content(content: bytes, read: Callable[[str], object]) -> object:
    """The content of a file as `read` has it, comments and layout aside; its bytes if it cannot be read."""
    try:
        return read(content.decode())
    except (InputError, SyntaxError, ValueError):
        return content


def _as_yaml(text: str) -> object:
    return to_python(parse_yaml(text))


def _known_texts(plan: KeptPlan) -> KnownTexts | None:
    if "texts" not in plan.document:
        return None
    own, *others = plan.document["texts"]
    changed = {
        tuple((address, value) for address, value in each["changes"]): TokenisedText(
            vocab_size=each["vocab_size"], fingerprint=each["fingerprint"], repetition=each["repetition"]
        )
        for each in others
    }
    return KnownTexts(CorpusReport.model_validate_json(compact(plan.document["corpus"])), own["repetition"], changed)


# Runs taken up again as they were requested, with the same file, profile, settings, plugins and executor options:
# unfinished ones resumed, failed trials of any trained again on request. All other results stay.

WHAT_FAILED = f"ablate status lists how trials have ended; retry takes those that ended as {', '.join(FAILED)}"


@dataclass(frozen=True, slots=True)
class Resumable:
    """A run that can be resumed: the space as it was, its executor options, plugins and mirror, and the trials left.

    `left` counts the trials requested so far: at least one for a plan that may still grow, 0 if all have ended and were
    not judged, or the run was stopped before it was planned. `changed` says which of its files have changed.
    """

    space: Space
    options: ExecutorOptions
    plugins: tuple[Path, ...]
    mirror: bool | str
    left: int
    changed: str = ""

    def __repr__(self) -> str:
        return f"<Resumable {self.space.name}: {self.left} left, {self.options.executor}>"


@dataclass(frozen=True, slots=True)
class Retriable:
    """A run, and those of its trials that are to be trained again."""

    run: Resumable
    trials: tuple[TrialStatus, ...]


def resumable(
    results: PathLike = RESULTS, name: str | None = None
) -> tuple[tuple[Resumable, ...], tuple[AblateError, ...]]:
    """The unfinished runs of a results folder with their original options, the oldest first; only of `name` if given.

    Such a run has trials left, or all have ended and it was killed before they were judged; `ablate resume` continues
    it as it was requested, whatever its files say by now. One whose texts or code have changed cannot be resumed, since
    it would be another question: the second value says why not. InputError if nothing was run, or not that space.
    """
    folder, now = Path(results), Snapshot(Path(results))
    requests, grows, to_judge, stopped = requests_of(folder, name), growing(now), unjudged(now), unplanned(now)
    trials: dict[str, list[TrialStatus]] = {space: [] for space in requests}
    for status in standings(now):
        trials.setdefault(status.space, []).append(status)
    over = {space for space, of_space in trials.items() if {trial.state for trial in of_space} <= set(WITH_RESULT)}
    runs: list[Resumable] = []
    lost = [space for space in trials if space not in requests and space not in over and name is None]
    refused: list[AblateError] = [forgotten(folder, space) for space in lost]
    for space, request in requests.items():
        kept = grows.get(space)
        ended = space in over or (kept is not None and kept.search)
        if ended and not (kept and kept.open) and space not in to_judge and space not in stopped:
            continue
        try:
            run = _as_requested(folder, request, kept, None if space in stopped else trials[space])
        except AblateError as error:
            refused.append(error)
            continue
        runs += [run] if run.left or space in to_judge or space in stopped else []
    return tuple(runs), tuple(refused)


def retriable(
    results: PathLike = RESULTS,
    name: str | None = None,
    *,
    trials: Collection[str] = (),
    outcomes: Collection[str] = (),
) -> tuple[tuple[Retriable, ...], tuple[AblateError, ...]]:
    """The runs of a results folder with failed trials, only of the space `name`; `ablate retry` trains these again.

    `trials` are ids, `outcomes` kinds of failure (default: all). The second value says why others cannot be trained
    again. InputError if nothing was run, and if something named has not failed, or does not exist.
    """
    folder, now = Path(results), Snapshot(Path(results))
    requests, grows = requests_of(folder, name), growing(now)
    there = [status for status in standings(now) if status.space in requests]
    chosen = _chosen(there, trials, outcomes)
    runs: list[Retriable] = []
    refused: list[AblateError] = []
    for space in [space for space in requests if any(status.space == space for status in chosen)]:
        again, kept = tuple(status for status in chosen if status.space == space), grows.get(space)
        try:
            if kept and kept.search and any(status.state != "lost" for status in again):
                raise RefusedError(
                    f"{space} is a search: its later proposals depend on which trials had failed\n"
                    "  = train all of it again: ablate run --fresh"
                )
            of_space = [status for status in there if status.space == space]
            runs.append(Retriable(_as_requested(folder, requests[space], kept, of_space), again))
        except AblateError as error:
            refused.append(error)
    return tuple(runs), tuple(refused)


def _as_requested(
    folder: Path, request: Request, kept: Growing | None, trials: Sequence[TrialStatus] | None
) -> Resumable:
    """The run of a request, given its trials (None: not planned yet); RefusedError if it would train others.

    If trials depend on results, the stored plan of a killed run may have fewer than follow, or more after a retry.
    """
    options = ExecutorOptions.of(request.place)
    if trials is None:
        run = where_it_was(folder, request)
        if request.source and digest_of(run.space.text.encode()) != request.source:
            raise RefusedError(
                f"{request.shown[0]} has changed since its run was stopped, before it was planned\n"
                "  = ask what it asks now with `ablate run`"
            )
        return Resumable(run.space, options, run.plugins, request.mirror, 0)
    run = as_run(folder, request)
    if kept is not None:
        question, written = unmarked(kept.resolved), json.loads(compact(to_python(run.space.located)))
        if changed := [key for key in {**question, **written} if question.get(key) != written.get(key)]:
            raise RefusedError(
                f"{request.shown[0]} describes another {'search' if kept.search else 'question'} than when it was run: "
                f"{', '.join(changed)} changed\n"
                "  = ask the new question with `ablate run`, under another space name"
            )
    if kept is not None and kept.search:
        left = len({trial.trial_id for trial in trials if trial.state not in WITH_RESULT}) or 1
    else:
        planned = plan_space(run.space, results=folder, limit=options.limit, forecasts="none")
        then, now = {trial.trial_id for trial in trials}, {trial.id for trial in planned.plan.trials}
        if now != then and (kept is None or not (then <= now or now <= then)):
            raise RefusedError(
                f"{request.shown[0]} asks for other trials than when it was run: {len(then - now)} of {len(then)} are "
                f"gone, {len(now - then)} are new\n"
                "  = the space, its texts or the code has changed; ask the new question with `ablate run`"
            )
        left = len(planned.to_run) or int(kept is not None and kept.open)
    return Resumable(run.space, options, run.plugins, request.mirror, left, run.changed)


def _chosen(
    there: Sequence[TrialStatus], trials: Collection[str], outcomes: Collection[str]
) -> tuple[TrialStatus, ...]:
    for outcome in outcomes:
        if outcome not in FAILED:
            raise unknown(f"{quote(outcome)} is not a kind of failure", outcome, FAILED, "there are")
    failed = [status for status in there if status.state in FAILED]
    by_id = {status.trial_id: status for status in there}
    for trial in trials:
        if trial not in by_id:
            ids = [status.trial_id for status in failed]
            raise unknown(f"no trial {quote(trial)}", trial, ids, "those that failed")
        if (status := by_id[trial]).state not in FAILED:
            raise InputError(
                f"trial {trial} ({status.variant}, seed {status.seed}) has not failed: it is {status.state}\n"
                f"  = {WHAT_FAILED}"
            )
    chosen = tuple(
        status
        for status in failed
        if (not trials or status.trial_id in trials) and (not outcomes or status.state in outcomes)
    )
    if failed and not chosen:
        listed = "\n".join(f"  = {s.state}: {s.variant}, seed {s.seed}: {s.trial_id}" for s in failed)
        raise InputError(f"no failed trial matches; there are:\n{listed}")
    return chosen
