"""What runs were asked for: `runs.jsonl`, a line for each run of a space, so that it can be gone on with or repeated.

["run", {"space": …, "path": …, "profile": …, "settings": […], "plugins": […], "place": {…}, "mirror": …, "at": …}]

Each line stands in `plans.jsonl` once more: nothing else in a results folder says how a run was asked for. Where
neither has it, the plan still says what the space's file was, and that file may be found by its text.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from ablate.grammar.named_files import as_typed
from ablate.store import checksummed_lines, ledger
from ablate.store.checksummed_lines import Appender, Reading
from ablate.store.ledger import KeptPlans
from ablate.store.records import RunRecord, understood

FILE = "runs.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A run as it was asked for: the space's name and file, what was laid over it, and where its trials ran.

    `place` is what the executor was told: the document of `execute.executor_options.ExecutorOptions`. `mirror` is
    whether and where MLflow was to be told (a URI without secrets). Paths are absolute. `at` is seconds since 1970.
    `commit` is that of the repository which the file is in, where there is one.
    """

    space: str
    path: str
    profile: str | None = None
    settings: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    place: Mapping[str, Any] = field(default_factory=dict)
    mirror: bool | str = True
    commit: str | None = None
    at: float = field(default_factory=time.time)


def record(folder: Path, request: Request) -> None:
    """Add a run, unless the last one was asked for in the same way; needs the folder's lock."""
    if any(replace(last, at=request.at) == request for last in [*latest(folder).values()][-1:]):
        return
    for name in (FILE, ledger.PLANS):
        append(folder / name, [request])


def length(request: Request) -> int:
    """The bytes of the line of a request."""
    return len(checksummed_lines.encode(["run", asdict(request)]))


def append(path: Path, requests: list[Request]) -> None:
    """Write requests behind what is there."""
    appender = Appender(path)
    try:
        appender.write([["run", asdict(request)] for request in requests])
    finally:
        appender.close()


def latest(folder: Path) -> dict[str, Request]:
    """The last run of each space, the one asked last coming last; what one of the two files has lost, by the other."""
    return last_of(kept(checksummed_lines.read(folder / FILE), checksummed_lines.read(folder / ledger.PLANS)))


def last_of(requests: tuple[Request, ...]) -> dict[str, Request]:
    """The last one of each space, in the order in which they were asked for."""
    found: dict[str, Request] = {}
    for request in requests:
        found.pop(request.space, None)
        found[request.space] = request
    return found


def command(request: Request, results: Path) -> str:
    """The command that runs it, or goes on with it."""
    words = ["ablate", "run", as_typed(Path(request.path))]
    words += ["--profile", request.profile] if request.profile else []
    words += [word for setting in request.settings for word in ("--set", setting)]
    words += [word for plugin in request.plugins for word in ("--plugin", plugin)]
    words += [] if results == Path("results") else ["--results", str(results)]
    return shlex.join(words)


def listing(folder: Path) -> str:
    """The command that lists the spaces of a folder."""
    return f"ablate status --results {shlex.quote(str(folder))}"


def kept(runs: Reading, plans: Reading) -> tuple[Request, ...]:
    """Every run that was asked for, in order, by both files: they are written in one order, so what only the copies
    have stands before the next one that both have."""
    own, copies = _of_lines(runs), _of_lines(plans)
    found: list[Request] = []
    for copy in copies:
        if copy in own:
            place = own.index(copy) + 1
            found += [one for one in own[:place] if one not in found]
            own = own[place:]
        elif copy not in found:
            found.append(copy)
    return (*found, *own)


def lacking(runs: Reading, plans: Reading) -> tuple[list[Request], list[Request]]:
    """What `runs.jsonl` lacks and its copies have, and the other way round where there are copies."""
    own, copies = _of_lines(runs), _of_lines(plans)
    return [one for one in copies if one not in own], [one for one in own if one not in copies]


def found_again(asked: KeptPlans, known: Mapping[str, Request]) -> dict[str, Request | None]:
    """The spaces of plans that no request is known of: a request for the file that has the text of their plan, as far
    as there is one in the folder it was in; what was laid over it, and where its trials ran, is not known."""
    return {space: _by_text(asked, space) for space in asked.plans.keys() - known.keys()}


def _by_text(asked: KeptPlans, space: str) -> Request | None:
    plan = asked.plans[space][1]
    trials = (asked.trials[trial_id] for trial_id, *_ in plan["trials"] if trial_id in asked.trials)
    folders = sorted({str(trial["folder"]) for trial in trials if "folder" in trial})
    for folder in folders:
        for path in sorted(Path(folder).glob("*.y*ml")):
            if _text_of(path) == plan["source"]:
                return Request(space=space, path=str(path))
    return None


def _text_of(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):  # a folder of that name, or not ours to read: then it is not the file we look for
        return None


def _of_lines(reading: Reading) -> list[Request]:
    bodies = [body for body in reading.bodies if body.startswith(b'["run"')]
    records = Reading(tuple(bodies), (), 0, (), reading.path).records
    return [_of(understood(RunRecord, next(iter(said), None), reading.path)) for _, *said in records]


def _of(document: Mapping[str, Any]) -> Request:
    # What a newer version says besides is of no use to this one.
    known = {one.name: document[one.name] for one in fields(Request) if one.name in document}
    settings, plugins = tuple(document["settings"]), tuple(document["plugins"])
    return Request(**{**known, "settings": settings, "plugins": plugins})
