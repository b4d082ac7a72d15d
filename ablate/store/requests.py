"""The requested runs: `runs.jsonl`, a line for each run of a space, so that it can be resumed or repeated.

["run", {"space": …, "path": …, "profile": …, "settings": […], "plugins": […], "place": {…}, "mirror": …, "at": …}]

Each line is also in `plans.jsonl`: nothing else in a results folder says how a run was requested. Where neither has it,
the plan still has the text of the space's file, by which that file may be found.
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
    """A run as it was requested: the space's name and file, the settings that override it, and where its trials ran.

    `place` has the options of the executor: the document of `execute.executor_options.ExecutorOptions`. `mirror` is
    whether to mirror to MLflow, or where (a URI without secrets). Paths are absolute. `at` is seconds since 1970.
    `commit` is that of the repository that the file is in, if any.
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
    """Add a run, unless the last one was requested in the same way; needs the folder's lock."""
    if any(replace(last, at=request.at) == request for last in [*latest(folder).values()][-1:]):
        return
    for name in (FILE, ledger.PLANS):
        append(folder / name, [request])


def length(request: Request) -> int:
    """Return the length in bytes of the line of a request."""
    return len(checksummed_lines.encode(["run", asdict(request)]))


def append(path: Path, requests: list[Request]) -> None:
    """Append requests to a file."""
    appender = Appender(path)
    try:
        appender.write([["run", asdict(request)] for request in requests])
    finally:
        appender.close()


def latest(folder: Path) -> dict[str, Request]:
    """Return the last run of each space in order of request; what one of the files has lost comes from the other."""
    return last_of(kept(checksummed_lines.read(folder / FILE), checksummed_lines.read(folder / ledger.PLANS)))


def last_of(requests: tuple[Request, ...]) -> dict[str, Request]:
    """Return the last request of each space, in order of request."""
    last: dict[str, Request] = {}
    for request in requests:
        last.pop(request.space, None)
        last[request.space] = request
    return last


def command(request: Request, results: Path) -> str:
    """Return the command that runs it, or resumes it."""
    words = ["ablate", "run", as_typed(Path(request.path))]
    words += ["--profile", request.profile] if request.profile else []
    words += [word for setting in request.settings for word in ("--set", setting)]
    words += [word for plugin in request.plugins for word in ("--plugin", plugin)]
    words += [] if results == Path("results") else ["--results", str(results)]
    return shlex.join(words)


def listing(folder: Path) -> str:
    """Return the command that lists the spaces of a folder."""
    return f"ablate status --results {shlex.quote(str(folder))}"


def kept(runs: Reading, plans: Reading) -> tuple[Request, ...]:
    """Return every requested run, in order, from both files: both are written in the same order, so a request that only
    the copies have belongs before the next one that both have."""
    own, copies = _of_lines(runs), _of_lines(plans)
    merged: list[Request] = []
    for copy in copies:
        if copy in own:
            place = own.index(copy) + 1
            merged += [request for request in own[:place] if request not in merged]
            own = own[place:]
        elif copy not in merged:
            merged.append(copy)
    return (*merged, *own)


def lacking(runs: Reading, plans: Reading) -> tuple[list[Request], list[Request]]:
    """Return what `runs.jsonl` lacks and its copies have, and vice versa where there are copies."""
    own, copies = _of_lines(runs), _of_lines(plans)
    return [copy for copy in copies if copy not in own], [request for request in own if request not in copies]


def found_again(plans: KeptPlans, known: Mapping[str, Request]) -> dict[str, Request | None]:
    """Reconstruct a request for each space without a known one, from the file that has the text of its plan, if there
    is one in the folder where it was; its settings, and where its trials ran, are not known."""
    return {space: _by_text(plans, space) for space in plans.plans.keys() - known.keys()}


def _by_text(plans: KeptPlans, space: str) -> Request | None:
    plan = plans.plans[space][1]
    trials = (plans.trials[trial_id] for trial_id, *_ in plan["trials"] if trial_id in plans.trials)
    folders = sorted({str(trial["folder"]) for trial in trials if "folder" in trial})
    for folder in folders:
        for path in sorted(Path(folder).glob("*.y*ml")):
            if _text_of(path) == plan["source"]:
                return Request(space=space, path=str(path))
    return None


def _text_of(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):  # a folder of that name, or unreadable: then it is not the file we look for
        return None


def _of_lines(reading: Reading) -> list[Request]:
    bodies = [body for body in reading.bodies if body.startswith(b'["run"')]
    records = Reading(tuple(bodies), (), 0, (), reading.path).records
    return [_of(understood(RunRecord, next(iter(content), None), reading.path)) for _, *content in records]


def _of(document: Mapping[str, Any]) -> Request:
    # Fields that a newer version adds are ignored.
    known = {each.name: document[each.name] for each in fields(Request) if each.name in document}
    settings, plugins = tuple(document["settings"]), tuple(document["plugins"])
    return Request(**{**known, "settings": settings, "plugins": plugins})
