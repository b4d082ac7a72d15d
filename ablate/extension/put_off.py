"""The import of a file whose part below its first import of torch is put off until something of it is asked for.

A declaration is read while planning, without torch; the module that carries it out is needed when a model is built. It
is one module either way: `import_head` runs the statements above the first import of torch and puts the module among
Python's own (`sys.modules`), and whoever asks for a name that is not there yet, by an `import` statement or as an
attribute, has the other statements run first. So a class that a file declares is one class, whoever asks for it.
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

HEAVY = frozenset({"torch", "jaxtyping", "optuna", "cmaes", "datasets"})
"""Libraries whose import ends the part that planning runs."""
HEAVY_ROOMS = (
    "ablate.kernels",
    "ablate.compiler",
    "ablate.probes.measure",
    "ablate.execute.search.proposer",
    "ablate.execute.search.sampled",
)
"""Rooms and files of ours that import one of them, or that what is planned has no need of."""
REST = "__put_off__"
LOCK = threading.RLock()

RunStatement = Callable[[ast.stmt, Callable[[], None]], bool]
"""Runs one statement by calling what it is given; False where the head ends at it, for what it has raised."""


class _PutOff(types.ModuleType):
    """A module of which the head has run."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what Python itself looks for, such as __path__, is in no file's rest
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        complete(self)
        try:
            return self.__dict__[name]
        except KeyError:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}") from None


def import_head(name: str, path: Path, tree: ast.Module, run: RunStatement) -> types.ModuleType:
    """The module of a file, whose syntax is `tree`, under its name; imported already, it is taken as it is.

    `run` is handed each statement of the head. Where it ends the head early, or raises, the module is not kept.
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
        head = tuple(until_heavy(tree.body))
        flags = _features(tree.body)
        module.__dict__[REST] = (tree.body[len(head) :], str(path), flags)
        sys.modules[name] = module
        try:
            for statement in head:
                if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                    continue  # alone, the text below a constant would become the module's own
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
    """Make a module an attribute of its package, as an import does, where that is imported."""
    package, _, last = name.rpartition(".")
    if package in sys.modules:
        setattr(sys.modules[package], last, module)


def complete(module: types.ModuleType) -> None:
    """Run what was put off; nothing where nothing is. What it raises is raised, and it can be run again."""
    with LOCK:
        rest = module.__dict__.pop(REST, None)
        if rest is None:
            return
        body, path, flags = rest
        body = [ast.Pass(lineno=1, col_offset=0), *body]  # a text that comes first would become the module's own
        try:
            exec(compile(ast.Module(body, []), path, "exec", flags=flags, dont_inherit=True), module.__dict__)
        except BaseException:
            module.__dict__[REST] = rest
            raise
        module.__class__ = types.ModuleType


def put_off(module: types.ModuleType) -> bool:
    """Whether something of a module has not run yet."""
    return REST in module.__dict__


def until_heavy(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements above the first import of torch, or of what comes with it."""
    for statement in body:
        names = (
            [alias.name for alias in statement.names]
            if isinstance(statement, ast.Import)
            else [statement.module or ""]
            if isinstance(statement, ast.ImportFrom)
            else []
        )
        if any(name.split(".")[0] in HEAVY or name.startswith(HEAVY_ROOMS) for name in names):
            return
        yield statement


def _features(body: Sequence[ast.stmt]) -> int:
    """What the file imports from `__future__`, for each statement alike."""
    imports = [node for node in body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    names = [alias.name for node in imports for alias in node.names]
    return sum(getattr(__future__, name).compiler_flag for name in names if hasattr(__future__, name))
