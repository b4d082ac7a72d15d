"""What runs were asked for: `runs.jsonl`, a line for each run of a space, so that it can be gone on with or repeated.

["run", {"space": …, "path": …, "profile": …, "settings": […], "plugins": […], "place": {…}, "mirror": …, "at": …}]
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from ablate.store import lines
from ablate.store.lines import Appender

FILE = "runs.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A run as it was asked for: the space's name and file, what was laid over it, and where its trials ran.

    `place` is what the executor was told: its name, workers, address, resources, limit. `mirror` is whether and where
    MLflow was to be told (a URI without secrets). Paths are absolute. `at` is seconds since 1970.
    """

    space: str
    path: str
    profile: str | None = None
    settings: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    place: Mapping[str, Any] = field(default_factory=dict)
    mirror: bool | str = True
    at: float = field(default_factory=time.time)


def record(folder: Path, request: Request) -> None:
    """Add a run, unless the last one was asked for in the same way; needs the folder's lock."""
    if any(replace(last, at=request.at) == request for last in [*latest(folder).values()][-1:]):
        return
    appender = Appender(folder / FILE)
    try:
        appender.write([["run", asdict(request)]])
    finally:
        appender.close()


def latest(folder: Path) -> dict[str, Request]:
    """The last run of each space, the one asked last coming last."""
    found: dict[str, Request] = {}
    for record in lines.read(folder / FILE).records:
        request = _of(record[1])
        found.pop(request.space, None)
        found[request.space] = request
    return found


def listing(folder: Path) -> str:
    """The command that lists the spaces of a folder."""
    return f"ablate status --results {shlex.quote(str(folder))}"


def _of(document: Mapping[str, Any]) -> Request:
    # What a newer version says besides is of no use to this one.
    known = {one.name: document[one.name] for one in fields(Request) if one.name in document}
    settings, plugins = tuple(document["settings"]), tuple(document["plugins"])
    return Request(**{**known, "settings": settings, "plugins": plugins})
