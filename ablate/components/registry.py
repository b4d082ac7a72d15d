"""The folder is the registry: every file below `components/` that declares a component is found.

A user's own come in by a plugin's path, or by the entry points of a distribution (`installed.py`).

`declarations()` reads only the heads of the files, up to their first import of torch (or of jaxtyping or kernels,
which come with it), and gives the catalogue.
`implementation(name)` imports the whole file and gives its module class.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import sys
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ablate.block.catalogue import Catalogue, ComponentSpec
from ablate.components.declare import module_of
from ablate.components.installed import installed, tell
from ablate.errors import InputError

FOLDER = Path(__file__).parent
NOT_COMPONENTS = {"__init__.py", "declare.py", "protocols.py", "solved.py", "installed.py", "registry.py"}


def component_files() -> tuple[Path, ...]:
    """Every file of the folder that holds a component, in order of path."""
    return tuple(sorted(p for p in FOLDER.rglob("*.py") if p.name not in NOT_COMPONENTS))


@functools.cache
def declarations(plugins: tuple[Path, ...] = ()) -> Catalogue:
    """The catalogue of all components, the user's own files included; imports no torch.

    Raises InputError for a plugin that cannot be read, declares nothing, or takes a name that is taken; an installed
    distribution of which this is true is left out with a warning.
    """
    shipped = [spec for path in component_files() for spec in _read_head(path)]
    others = _read_installed({spec.name for spec in shipped})
    own = [spec for path in plugins for spec in _read_plugin(path)]
    try:
        return Catalogue.of([*shipped, *others, *own])
    except ValueError as error:
        raise InputError(f"error: {error}\n  = give the one in the plugin another name") from None


@functools.cache
def implementation(spec_name: str, path: Path) -> Any:
    """The module class of a declared component; imports torch."""
    for value in vars(_import_whole(path)).values():
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
        try:
            specs = _read_plugin(one.path)
        except InputError as error:
            tell(one.entry, str(error).removeprefix("error: ").partition("\n")[0])
            continue
        for spec in specs:
            if spec.name in taken or spec.name in found:
                tell(one.entry, f"there is a component {spec.name!r} already")
            found.setdefault(spec.name, spec)
    return [spec for name, spec in found.items() if name not in taken]


def _read_plugin(path: Path) -> list[ComponentSpec]:
    """The declarations in a user's own file; whatever is wrong with it is the user's to mend, so it is told as such."""
    try:
        specs = list(_read_head(path))
    except Exception as error:
        raise InputError(
            f"error: cannot read the plugin {path}: {type(error).__name__}: {error}\n"
            "  = a plugin is a Python file like those in ablate/components/: what it declares, then its torch imports"
        ) from error
    if not specs:
        raise InputError(
            f"error: the plugin {path} declares no component\n"
            "  = decorate its Config with @component(…), above the first import of torch"
        )
    return specs


def _read_head(path: Path) -> Iterator[ComponentSpec]:
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    module = types.ModuleType(f"ablate._heads.{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    head = ast.Module(body=list(_until_torch(tree.body)), type_ignores=[])
    exec(compile(head, str(path), "exec", dont_inherit=True), module.__dict__)
    for value in list(vars(module).values()):
        if isinstance(getattr(value, "spec", None), ComponentSpec):
            yield value.spec


def _until_torch(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        names = (
            [alias.name for alias in statement.names]
            if isinstance(statement, ast.Import)
            else [statement.module or ""]
            if isinstance(statement, ast.ImportFrom)
            else []
        )
        if any(name.split(".")[0] in {"torch", "jaxtyping"} or name.startswith("ablate.kernels") for name in names):
            return
        yield statement


@functools.cache
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
