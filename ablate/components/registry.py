"""The folder is the registry: every file below `components/` that declares a component is found.

A user's own come in by a plugin's path, or by the entry points of a distribution (`installed.py`).

`declarations()` reads only the heads of the files (`head.py`), up to their first import of torch, and gives the
catalogue.
`implementation(name)` imports the whole file and gives its module class.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
import types
from pathlib import Path
from typing import Any

from ablate.block.catalogue import Catalogue, ComponentSpec, Part, Parts
from ablate.components.declare import module_of
from ablate.components.head import Declared, read_head
from ablate.components.installed import installed, tell
from ablate.errors import InputError
from ablate.source.problems import Problems

FOLDER = Path(__file__).parent
NOT_COMPONENTS = {"__init__.py", "declare.py", "head.py", "protocols.py", "solved.py", "installed.py", "registry.py"}


def component_files() -> tuple[Path, ...]:
    """Every file of the folder that holds a component, in order of path."""
    return tuple(sorted(p for p in FOLDER.rglob("*.py") if p.name not in NOT_COMPONENTS))


@functools.cache
def declarations(plugins: tuple[Path, ...] = ()) -> Catalogue:
    """The catalogue of all components, the user's own files included; imports no torch.

    Raises InputError with every mistake in the plugins: one that cannot be read, declares nothing, or takes a name that
    is taken; an installed distribution of which this is true is left out with a warning.
    """
    problems = Problems()
    shipped = [one.spec for path in component_files() for one in read_head(path, problems)]
    others = _read_installed({spec.name for spec in shipped})
    own = [one for path in plugins for one in read_head(path, problems)]
    own = _once([*shipped, *others], own, problems)
    catalogue = Catalogue.of([*shipped, *others, *(one.spec for one in own)])
    for one in own if not len(problems) else ():  # what a wrong declaration would offer is not known
        _check_slots(one, catalogue, problems)
    problems.raise_if_any()
    return catalogue


def _once(taken: list[ComponentSpec], own: list[Declared], problems: Problems) -> list[Declared]:
    """The user's own components; of two of one name the first, and the other is noted."""
    paths = {spec.name: spec.path for spec in taken}
    found: dict[str, Declared] = {}
    for one in own:
        name = one.spec.name
        if name in paths or name in found:
            first = found.get(name)
            problems.add(
                f"component {name!r} is declared twice",
                one.place(),
                notes=("give one of them another name",)
                if first
                else (f"it is in {paths[name]}; give this another name",),
                also=((first.place(), "here first"),) if first else (),
            )
        found.setdefault(name, one)
    return [one for name, one in found.items() if name not in paths]


def _check_slots(one: Declared, catalogue: Catalogue, problems: Problems) -> None:
    """Note slots that no component offers, and fields whose slot no component fits."""
    fields = [kind for spec in catalogue for kind in spec.fields.values() if isinstance(kind, Part | Parts)]
    offered = sorted({"part", "norm", "init", *(kind.slot for kind in fields)})
    for slot in one.spec.slots:
        if slot not in offered:
            place = one.place("slots", slot)
            problems.add_unknown(f"nothing has a slot {slot!r}", place, slot, offered, "there are slots for")
    filled = sorted({slot for spec in catalogue for slot in spec.slots})
    for name, kind in one.spec.fields.items():
        if isinstance(kind, Part | Parts) and kind.slot not in filled:
            message = f"no component fits the slot {kind.slot!r} of field {name!r}"
            problems.add_unknown(message, one.place(name), kind.slot, filled, "components fit")


@functools.cache
def implementation(spec_name: str, path: Path) -> Any:
    """The module class of a declared component; imports torch."""
    for value in vars(_import_or_refuse(path)).values():
        if isinstance(getattr(value, "spec", None), ComponentSpec) and value.spec.name == spec_name:
            if not hasattr(value, "implementation"):
                raise InputError(
                    f"component {spec_name!r} has no module: {path}\n"
                    "  = decorate its nn.Module with @implements(Config), below the first import of torch"
                )
            return module_of(value)
    raise LookupError(f"{path} declares no component {spec_name!r}")


def _read_installed(taken: set[str]) -> list[ComponentSpec]:
    """The declarations of other distributions; what is wrong with one of them is told, and the others are kept."""
    found: dict[str, ComponentSpec] = {}
    for one in installed():
        problems = Problems()
        specs = [declared.spec for declared in read_head(one.path, problems)]
        if len(problems):
            problem = next(iter(problems))
            line = "" if problem.span is None else f", in line {problem.span.line} of {one.path}"
            tell(one.entry, f"{problem.message}{line}")
            continue
        for spec in specs:
            if spec.name in taken or spec.name in found:
                tell(one.entry, f"there is a component {spec.name!r} already")
            found.setdefault(spec.name, spec)
    return [spec for name, spec in found.items() if name not in taken]


@functools.cache
def _import_or_refuse(path: Path) -> types.ModuleType:
    """A component's whole file. What it raises keeps its trace; that it ends the process (`sys.exit()`) is refused."""
    try:
        return _import_whole(path)
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise InputError(
            f"error: the plugin {path} ends the process when it is imported: {type(error).__name__}: {error}\n"
            '  = take that out of it, or put it under `if __name__ == "__main__":`'
        ) from error


def _import_whole(path: Path) -> types.ModuleType:
    if path.is_relative_to(FOLDER):
        relative = path.relative_to(FOLDER).with_suffix("")
        return importlib.import_module(".".join(("ablate.components", *relative.parts)))
    dotted = next((one.module for one in installed() if one.path == path), None)
    if dotted is not None:
        return importlib.import_module(dotted)
    name = f"ablate_plugin_{path.stem}"
    module_spec = importlib.util.spec_from_file_location(name, path)
    if module_spec is None or module_spec.loader is None:
        raise LookupError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[name] = module
    module_spec.loader.exec_module(module)
    return module
