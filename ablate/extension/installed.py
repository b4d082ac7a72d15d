"""Extensions of other distributions: their entry points, in a group for each kind.

    [project.entry-points."ablate.components"]          likewise ablate.probes, ablate.optimizers, …
    my_norm = "my_package.my_norm"                      the module that declares it, in a file like those that ship

Each file is found without importing anything, and its head is read like a plugin's. What cannot be read is reported in
a warning and left out: a broken distribution must not keep anyone from working with the others.
"""

from __future__ import annotations

import functools
import importlib.util
import warnings
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from ablate.errors import AblateWarning


@dataclass(frozen=True, slots=True)
class Installed:
    """A module of another distribution with declarations, and its file."""

    module: str
    path: Path
    entry: str


@functools.cache
def installed(group: str) -> tuple[Installed, ...]:
    """Return every entry point of a group whose file is there, by name; warn about the others."""
    modules = []
    for entry in sorted(entry_points(group=group), key=lambda entry: (entry.name, entry.value)):
        module = entry.value.partition(":")[0].strip()
        path = _file(module)
        if path is None:
            tell(_described(entry), f"there is no module {module}")
        else:
            modules.append(Installed(module, path, _described(entry)))
    return tuple(modules)


def tell(entry: str, why: str) -> None:
    """Warn that an entry point is left out, and say what to do about it."""
    way_out = "reinstall that distribution, or uninstall it"
    warnings.warn(f"{entry} is left out: {why}\n  = {way_out}", AblateWarning, stacklevel=2)


def _described(entry: EntryPoint) -> str:
    distribution = entry.dist
    from_where = f" of {distribution.name} {distribution.version}" if distribution is not None else ""
    return f"the entry point {entry.name!r}{from_where} in the group {entry.group}"


def _file(module: str) -> Path | None:
    """Return the file of a module; only its top level is looked up, since more would import the package."""
    first, *rest = module.split(".")
    try:
        spec = importlib.util.find_spec(first)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    if not rest:
        return Path(spec.origin) if spec.origin is not None and spec.has_location else None
    for folder in spec.submodule_search_locations or ():
        stem = Path(folder).joinpath(*rest)
        for path in (stem.with_name(f"{stem.name}.py"), stem / "__init__.py"):
            if path.is_file():
                return path
    return None
