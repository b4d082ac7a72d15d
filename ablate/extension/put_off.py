"""The lazy import of a file: its part below the first import of torch runs when something of it is first needed.

A declaration is read while planning, without torch; what implements it is needed when a model is built. Both are in
one module: `import_head` runs the statements above the first import of torch and puts the module into `sys.modules`,
and the first access to a name that is not there yet, by an `import` statement or as an attribute, runs the others. So a
class that a file declares is the same class wherever it is used.
"""

from __future__ import annotations
import __future__

import ast
import importlib.util
import sys
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ablate.extension.kinds import PACKAGE

HEAVY = frozenset({"torch", "jaxtyping", "optuna", "cmaes", "datasets"})
"""Libraries whose import ends the head, the part that planning runs."""
HEAVY_WITHIN = HEAVY | {"numpy"}
"""The same of the files of this package, which planning reads without NumPy; in other files it may stand anywhere."""
HEAVY_ROOMS = (
    "ablate.kernels",
    "ablate.compiler",
    "ablate.probes.measure",
    "ablate.execute.search.proposer",
    "ablate.execute.search.sampled",
)
"""Rooms and files of ours that import one of them, or that planning does not need."""
REST = "__put_off__"
LOCK = threading.RLock()

RunStatement = Callable[[ast.stmt, Callable[[], None]], bool]
"""Run one statement by calling the function given; False if the head ends there because the statement failed."""


class _PutOff(types.ModuleType):
    """A module of which only the head has run."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Python itself looks these up, such as __path__; no file defines them
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        complete(self)
        try:
            return self.__dict__[name]
        except KeyError:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}") from None


def import_head(name: str, path: Path, tree: ast.Module, run: RunStatement) -> types.ModuleType:
    """Import the head of a file, whose syntax is `tree`, under a name; return the module if it is imported already.

    `run` is given each statement of the head. If it ends the head early, or raises, the module is not kept.
    """
    with LOCK:
        known = sys.modules.get(name)
        if known is not None and getattr(known, "__file__", None) == str(path):
            return known
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None:
            raise LookupError(f"{path} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        module.__class__ = _PutOff
        module.__doc__ = ast.get_docstring(tree, clean=False)
        head = tuple(until_heavy(tree.body, path))
        flags = _features(tree.body)
        module.__dict__[REST] = (tree.body[len(head) :], str(path), flags)
        sys.modules[name] = module
        try:
            for statement in head:
                if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                    continue  # compiled alone, a string would become the module's docstring
                code = compile(ast.Module([statement], []), str(path), "exec", flags=flags, dont_inherit=True)
                if not run(statement, lambda code=code: exec(code, module.__dict__)):  # type: ignore[misc]
                    break
            else:
                _bind(name, module)
                return module
        except BaseException:
            sys.modules.pop(name, None)
            raise
        sys.modules.pop(name, None)
        return module


def _bind(name: str, module: types.ModuleType) -> None:
    """Make a module an attribute of its package, as an import does, if the package is imported."""
    package, _, last = name.rpartition(".")
    if package in sys.modules:
        setattr(sys.modules[package], last, module)


def complete(module: types.ModuleType) -> None:
    """Run what was put off, if anything. Exceptions are passed on, and it can be run again afterwards."""
    with LOCK:
        rest = module.__dict__.pop(REST, None)
        if rest is None:
            return
        body, path, flags = rest
        body = [ast.Pass(lineno=1, col_offset=0), *body]  # a leading string would become the module's docstring
        try:
            exec(compile(ast.Module(body, []), path, "exec", flags=flags, dont_inherit=True), module.__dict__)
        except BaseException:
            module.__dict__[REST] = rest
            raise
        module.__class__ = types.ModuleType


def put_off(module: types.ModuleType) -> bool:
    """Return whether part of a module has not run yet."""
    return REST in module.__dict__


def until_heavy(body: Sequence[ast.stmt], path: Path) -> Iterator[ast.stmt]:
    """Yield the statements of a file above the first import of torch or another heavy library."""
    heavy = HEAVY_WITHIN if path.is_relative_to(PACKAGE) else HEAVY
    for statement in body:
        names = (
            [alias.name for alias in statement.names]
            if isinstance(statement, ast.Import)
            else [statement.module or ""]
            if isinstance(statement, ast.ImportFrom)
            else []
        )
        if any(name.split(".")[0] in heavy or name.startswith(HEAVY_ROOMS) for name in names):
            return
        yield statement


def _features(body: Sequence[ast.stmt]) -> int:
    """Return the compiler flags of what the file imports from `__future__`, which hold for every statement."""
    imports = [node for node in body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    names = [alias.name for node in imports for alias in node.names]
    return sum(getattr(__future__, name).compiler_flag for name in names if hasattr(__future__, name))
