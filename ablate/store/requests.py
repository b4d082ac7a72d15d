"""The requested runs, a file each, so that a run can be resumed or repeated.

{"space": …, "path": …, "profile": …, "settings": […], "plugins": […], "place": {…}, "mirror": …, "commit": …,
"source": …, "packages": …, "at": …}
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from ablate.errors import AblateError
from ablate.grammar.named_files import portable
from ablate.store import files


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A run as it was requested: the space's name and file, the settings that override it, and where its trials ran.

    `place` has the options of the executor: the document of `execute.executor_options.ExecutorOptions`. `mirror` is
    whether to mirror to MLflow, or where (a URI without secrets). `path` and `plugins` are absolute, to find the files
    again, and never shown: `typed` are the same files as a command names them, the space first. `at` is seconds since
    1970. `commit` is that of the repository that the file is in, if any. `source` is the digest of the space's text,
    `packages` that of the list of all installed packages, kept among the sources.
    """

    space: str
    path: str
    profile: str | None = None
    settings: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    typed: tuple[str, ...] = ()
    place: Mapping[str, object] = field(default_factory=dict)
    mirror: bool | str = True
    commit: str | None = None
    source: str = ""
    packages: str = ""
    at: float = field(default_factory=time.time)

    @property
    def shown(self) -> tuple[str, ...]:
        """The file of the space and those of plugins as a command names them; requests of before have no such names."""
        return self.typed or tuple(portable(Path(path)) for path in (self.path, *self.plugins))

    def is_planned_as(self, plan: Mapping[str, Any]) -> bool:
        """Return whether the document of a plan is of this text with this profile and these settings. Earlier versions
        did not keep these."""
        if not (self.source and "sources" in plan):
            return True
        asked = plan.get("profile"), tuple(plan.get("settings", ()))
        return self.source in plan["sources"].values() and asked == (self.profile, self.settings)


READ = TypeAdapter(Request)
"""Reads a document; fields that a newer version adds are ignored."""


def record(folder: Path, request: Request) -> str | None:
    """Keep a run, unless the last one was requested in the same way, and return its file; needs the folder's lock."""
    kept, _ = files.documents(folder, "runs")
    if kept and replace(READ.validate_python(kept[-1].content), at=request.at) == request:
        return None
    return files.keep(folder, "runs", asdict(request), files.next_number(kept)).name


@contextmanager
def withdrawn_if_refused(folder: Path, name: str | None) -> Iterator[None]:
    """Withdraw a recorded run that cannot be planned. One that is stopped while it is planned can be resumed."""
    try:
        yield
    except AblateError:  # no other: libraries make errors of their own of an interrupt
        if name is not None:
            files.withdraw(folder, name)
        raise


def last_of(documents: Iterable[files.Document[Mapping[str, object]]]) -> dict[str, Request]:
    last: dict[str, Request] = {}
    for document in documents:
        request = READ.validate_python(document.content)
        last.pop(request.space, None)
        last[request.space] = request
    return last


def command(request: Request, results: Path) -> str:
    """Return the command that runs it, or resumes it; it says nothing of the machine on which it ran."""
    space, *plugins = request.shown
    words = ["ablate", "run", space]
    words += ["--profile", request.profile] if request.profile else []
    words += [word for setting in request.settings for word in ("--set", setting)]
    words += [word for plugin in plugins for word in ("--plugin", plugin)]
    words += [] if (folder := portable(results)) == "results" else ["--results", folder]
    return shlex.join(words)


def listing(folder: Path) -> str:
    return f"ablate status --results {shlex.quote(str(folder))}"
