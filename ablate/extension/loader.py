"""Loader: all extensions of every kind, those that ship, those of other distributions, and a user's own files.

The folder of a kind is the list of what ships. A file may have several declarations; a user's own file, of several
kinds. Only heads are run here (`head.py`); `implementation` runs the rest of a file.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import sys
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from ablate.errors import AblateWarning, InputError
from ablate.extension.declaration import KINDS, PACKAGE, Declaration, Kind, declaration_in
from ablate.extension.head import Declared, complete, declares, put_off, read_head
from ablate.source.problems import Problems

# Extensions of other distributions: their entry points, in a group for each kind.
#
#     [project.entry-points."ablate.components"]          likewise ablate.probes, ablate.optimizers, …
#     my_norm = "my_package.my_norm"                      the module that declares it, in a file like those that ship
#
# Each file is found without importing anything, and its head is read like a plugin's. What cannot be read is reported
# in a warning and left out: a broken distribution must not keep anyone from working with the others.


@dataclass(frozen=True, slots=True)
class Installed:
    module: str
    path: Path
    entry: str


@functools.cache
def installed(group: str) -> tuple[Installed, ...]:
    """Every entry point of a group whose file is there, by name; warn about the others."""
    modules = []
    for entry in sorted(entry_points(group=group), key=lambda entry: (entry.name, entry.value)):
        module = entry.value.partition(":")[0].strip()
        path = _file_of_module(module)
        if path is None:
            warn_of(_described(entry), f"there is no module {module}")
        else:
            modules.append(Installed(module, path, _described(entry)))
    return tuple(modules)


def warn_of(entry: str, why: str) -> None:
    way_out = "reinstall that distribution, or uninstall it"
    warnings.warn(f"{entry} is left out: {why}\n  = {way_out}", AblateWarning, stacklevel=2)


def _described(entry: EntryPoint) -> str:
    distribution = entry.dist
    from_where = f" of {distribution.name} {distribution.version}" if distribution is not None else ""
    return f"the entry point {entry.name!r}{from_where} in the group {entry.group}"


def _file_of_module(module: str) -> Path | None:
    """Only the top level of a module is looked up, since more would import the package."""
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


# All of them together

OWN = "ablate_plugin_"  # the beginning of the module names of a user's own files


@functools.cache
def shipped(kind: Kind) -> tuple[Declaration, ...]:
    problems = Problems()
    specs = [
        declared.spec
        for path in kind.files()
        if declares(path, kind)
        for declared in read_head(path, module_name(path), problems)
    ]
    problems.raise_if_any()
    return tuple(specs)


def of_distributions(kind: Kind, taken: Iterable[str]) -> list[Declaration]:
    """Additions of other distributions whose names are not `taken`; broken ones are left out with a warning."""
    taken = set(taken)
    by_name: dict[str, Declaration] = {}
    for entry in installed(kind.group):
        problems = Problems()
        specs = [declared.spec for declared in read_head(entry.path, entry.module, problems)]
        if len(problems):
            problem = next(iter(problems))
            line = "" if problem.span is None else f", in line {problem.span.line} of {entry.path}"
            warn_of(entry.entry, f"{problem.message}{line}")
            continue
        for spec in specs:
            if spec.kind != kind:
                continue
            if spec.name in taken or spec.name in by_name:
                warn_of(entry.entry, f"there is {kind.a_noun} {spec.name!r} already")
            by_name.setdefault(spec.name, spec)
    return [spec for name, spec in by_name.items() if name not in taken]


def of_plugins(paths: Sequence[Path], problems: Problems) -> list[Declared]:
    return [declared for path in paths for declared in read_head(path, module_name(path), problems)]


def without_doubles(taken: Iterable[Declaration], own: list[Declared], problems: Problems) -> list[Declared]:
    """Of declarations with the same name the first is kept, and the others are noted."""
    paths = {spec.name: spec.path for spec in taken}
    by_name: dict[str, Declared] = {}
    for declared in own:
        name = declared.spec.name
        if name in paths or name in by_name:
            first = by_name.get(name)
            way = "give one of them another name" if first else f"it is in {paths[name]}; give this another name"
            also = ((first.place(), "here first"),) if first else ()
            noun = declared.spec.kind.noun
            problems.add(f"{noun} {name!r} is declared twice", declared.place(), notes=(way,), also=also)
        by_name.setdefault(name, declared)
    return [declared for name, declared in by_name.items() if name not in paths]


def things(kind: Kind, own: list[Declared], problems: Problems) -> list[Declaration]:
    ships = shipped(kind)
    others = of_distributions(kind, (spec.name for spec in ships))
    mine = [declared for declared in own if declared.spec.kind == kind]
    return [*ships, *others, *(each.spec for each in without_doubles([*ships, *others], mine, problems))]


def module_name(path: Path) -> str:
    """The name to import a file under: its dotted name if it ships or is installed, else one made from its hash.

    A changed plugin is thus another module, so that a notebook sees the change.
    """
    if path.is_relative_to(PACKAGE):
        return ".".join(("ablate", *path.relative_to(PACKAGE).with_suffix("").parts))
    dotted = next((each.module for kind in KINDS for each in installed(kind.group) if each.path == path), None)
    return dotted or f"{OWN}{path.stem}_{stamp(path)[:12]}"


def is_plugin(spec: Declaration) -> bool:
    return spec.module.startswith(OWN)


def stamp(path: Path) -> str:
    """A hash of a file's path and bytes; of its path alone if it cannot be read."""
    try:
        content = path.read_bytes()
    except OSError:
        content = b""
    return hashlib.sha256(str(path).encode() + b"\0" + content).hexdigest()


def is_complete(spec: Declaration) -> bool:
    return not put_off(sys.modules[spec.module])


def implementation(spec: Declaration) -> Any:
    """Import the implementation of a declaration, and torch.

    An exception of the file keeps its traceback; ending the process (`sys.exit()`) is an InputError.
    """
    module = sys.modules[spec.module]
    try:
        complete(module)
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise InputError(
            f"error: the plugin {spec.path} ends the process when it is imported: {type(error).__name__}: {error}\n"
            '  = remove that, or put it under `if __name__ == "__main__":`'
        ) from error
    for value in list(vars(module).values()):
        declared = declaration_in(value)
        if declared is not None and (declared.kind, declared.name) == (spec.kind, spec.name):
            if "implementation" in vars(value):
                return value.implementation
            raise InputError(
                f"{spec.kind.noun} {spec.name!r} has no {spec.kind.below}: {spec.path}\n"
                f"  = {spec.kind.way} @implements(…), below the first import of torch"
            )
    raise LookupError(f"{spec.path} declares no {spec.kind.noun} {spec.name!r}")
