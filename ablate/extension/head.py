"""Head of a file: its declarations, read without torch, with every mistake reported at its place.

The head ends at the first import of torch or another heavy library. It is run statement by statement, so that one wrong
declaration does not hide the next; the code below it is only parsed, and runs when something of it is first needed.
"""

from __future__ import annotations
import __future__

import ast
import importlib.util
import sys
import threading
import traceback
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ablate.extension.declaration import (
    COMPONENT,
    KINDS,
    PACKAGE,
    Declaration,
    DeclarationError,
    DeclarationFault,
    Kind,
    declaration_in,
)
from ablate.source.located import Source, Span
from ablate.source.problems import Problem, Problems
from ablate.source.yaml import neighbour, reason

# The lazy import
#
# A declaration is read while planning, without torch; what implements it is needed when a model is built. Both are in
# one module: `import_head` runs the statements above the first import of torch and puts the module into
# `sys.modules`, and the first access to a name that is not there yet, by an `import` statement or as an attribute,
# runs the others. So a class that a file declares is the same class wherever it is used.

HEAVY = frozenset({"torch", "jaxtyping", "optuna", "cmaes", "datasets"})
"""Libraries whose import ends the head, the part that planning runs."""
HEAVY_WITHIN = HEAVY | {"numpy"}
"""The same of the files of this package, which planning reads without NumPy; in other files it may stand anywhere."""
HEAVY_ROOMS = (
    "ablate.kernels",
    "ablate.compiler",
    "ablate.probes.measure",
    "ablate.execute.search.proposer",
)
"""Rooms and files of ours that import one of them, or that planning does not need."""
REST = "__put_off__"
LOCK = threading.RLock()

RunStatement = Callable[[ast.stmt, Callable[[], None]], bool]
"""Run one statement by calling the function given; False if the head ends there because the statement failed."""


class _PutOff(types.ModuleType):
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
                if not run(statement, partial(exec, code, module.__dict__)):
                    break
            else:
                package, _, last = name.rpartition(".")
                if package in sys.modules:
                    setattr(sys.modules[package], last, module)  # as an import does
                return module
        except BaseException:
            sys.modules.pop(name, None)
            raise
        sys.modules.pop(name, None)
        return module


def complete(module: types.ModuleType) -> None:
    """Run the code below the head, once. Exceptions are passed on, and it can be run again afterwards."""
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
    return REST in module.__dict__


def until_heavy(body: Sequence[ast.stmt], path: Path) -> Iterator[ast.stmt]:
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
    """The compiler flags of the imports from `__future__`, which hold for every statement."""
    imports = [node for node in body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    names = [alias.name for node in imports for alias in node.names]
    return sum(getattr(__future__, name).compiler_flag for name in names if hasattr(__future__, name))


# The declarations of a head, and its mistakes

LIKE = "a plugin is a Python file like those in ablate/components/: its declarations, then its torch imports"
NAMES = {kind.name: kind for kind in KINDS}


@dataclass(frozen=True, slots=True)
class Declared:
    spec: Declaration
    text: _Text
    node: ast.stmt | None

    def place(self, at: str = "name", word: object = None) -> Span:
        return self.text.span_of(self.node, at, word) if self.node is not None else self.text.source.span(0, 0)


def declares(path: Path, kind: Kind) -> bool:
    text = path.read_text(encoding="utf-8")
    return f"{kind.name}(" in text and any(_kind_of(node) == kind for node in ast.parse(text).body)


def read_head(path: Path, module: str, problems: Problems) -> list[Declared]:
    """Import the head of a file as `module`, and return its declarations without mistakes; the others are noted."""
    try:
        text = _Text(Source(str(path), path.read_text(encoding="utf-8")))
        tree = ast.parse(text.source.text, filename=str(path))
    except SyntaxError as error:
        start = (error.lineno or 1, error.offset or 1)
        end = (error.end_lineno or start[0], max(error.end_offset or 0, start[1] + 1))
        place = Span(text.source, *start, *(end if end > start else (start[0], start[1] + 1)))
        problems.add(f"this is not Python: {error.msg}", place, notes=(LIKE,))
        return []
    except (OSError, ValueError) as error:
        problems.add(f"cannot read the plugin {path}: {reason(error)}", label=neighbour(path, error), notes=(LIKE,))
        return []
    before = len(problems)
    declared = _Reading(path, text, problems).run(tree, module)
    implemented = [each for each in declared if not _note_without_below(each, tree, problems)]
    for node in tree.body[len(list(until_heavy(tree.body, path))) :]:
        _note_below(node, text, problems)
    if not implemented and len(problems) == before:
        _note_nothing(tree, path, text, problems)
    return implemented


@dataclass
class _Reading:
    path: Path
    text: _Text
    problems: Problems

    def run(self, tree: ast.Module, name: str) -> list[Declared]:
        self.wrong: set[str] = set()
        self.failed = False
        before = len(self.problems)
        try:
            module = import_head(name, self.path, tree, self._statement)
        except LookupError as error:
            self.problems.add(str(error), notes=(LIKE,))
            return []
        declared = list(self._declared(tree, module))
        if len(self.problems) > before:
            sys.modules.pop(name, None)  # so that the corrected file is read again
        return declared

    def _statement(self, node: ast.stmt, run: Callable[[], None]) -> bool:
        try:
            run()
        except DeclarationError as error:
            self.wrong |= {node.name} if isinstance(node, ast.ClassDef) else set()
            for fault in error.faults:
                self.problems.append(self.text.problem(node, fault))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  whatever the user's own code raises, `sys.exit()` too
            if not (isinstance(error, NameError) and error.name in self.wrong):  # else it is reported already
                self.problems.append(self.text.failure(error, node))
                return False
        return True

    def _declared(self, tree: ast.Module, module: types.ModuleType) -> Iterator[Declared]:
        stated: dict[str, ast.stmt] = {}
        known: set[str] = set()
        for node in tree.body:
            name = _name_of(node)
            spec = None if name is None else declaration_in(module.__dict__.get(name))
            if name is None or spec is None or not self._is_here(spec):
                continue
            if name in stated:
                message, way = f"class {name} is defined twice, and hides the first one", "give it another name"
                also = ((self.text.span_of(stated[name], "class"), "which would have no module"),)
                self.problems.add(message, self.text.span_of(node, "class"), notes=(way,), also=also)
                continue
            stated[name] = node
            known.add(spec.name)
            yield Declared(spec, self.text, node)
        others = filter(None, map(declaration_in, list(vars(module).values())))
        for spec in {
            other.name: other for other in others if other.name not in known and self._is_here(other)
        }.values():
            yield Declared(spec, self.text, None)

    def _is_here(self, spec: Declaration) -> bool:
        """Not one that is imported from another file."""
        return spec.path == self.path


def _name_of(node: ast.stmt) -> str | None:
    if isinstance(node, ast.ClassDef):
        return node.name
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return node.target.id if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else None


def _declaring(node: ast.stmt) -> ast.expr | None:
    if isinstance(node, ast.ClassDef):
        return next((each for each in node.decorator_list if _called(each) in NAMES), None)
    value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
    return value if isinstance(value, ast.Call) and _called(value) in NAMES else None


def _kind_of(node: ast.stmt) -> Kind | None:
    declaring = _declaring(node)
    return None if declaring is None else NAMES[_called(declaring)]


def _note_without_below(declared: Declared, tree: ast.Module, problems: Problems) -> bool:
    """Note a declaration that nothing in the file implements though it must be; return whether that is so."""
    kind = declared.spec.kind
    name = None if declared.node is None else _name_of(declared.node)
    if not declared.spec.needs_below or declared.node is None or name is None or name in _carried_out(tree):
        return False
    problems.add(
        f"{kind.noun} {declared.spec.name!r} has no {kind.below}",
        declared.text.span_of(declared.node, "class"),
        label="nothing in the file implements it",
        notes=(f"{kind.way} @implements({name}), below the first import of torch",),
    )
    return True


def _carried_out(tree: ast.Module) -> set[str]:
    return {
        ast.unparse(call.args[0])
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and _called(call) == "implements" and call.args
    }


def _note_below(node: ast.stmt, text: _Text, problems: Problems) -> None:
    kind = _kind_of(node)
    if kind is not None:
        problems.add(
            f"{kind.a_noun} is declared below the first import of torch, where it is not read",
            text.span_of(node, "class"),
            notes=("move the class above that import: checking and planning read no further than that",),
        )


def _note_nothing(tree: ast.Module, path: Path, text: _Text, problems: Problems) -> None:
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    meant = [classes[name] for name in _carried_out(tree) if name in classes]
    others = ", ".join(f"@{kind.name}" for kind in KINDS if kind != COMPONENT)
    problems.add(
        f"the plugin {path} declares no component, and nothing of another kind",
        text.span_of(meant[0], "class") if meant else None,
        notes=(
            "decorate its Config with @component(…), above the first import of torch",
            f"or use the decorator of another kind: {others}",
        ),
    )


def _called(node: ast.expr) -> str:
    function = node.func if isinstance(node, ast.Call) else node
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


@dataclass(frozen=True)
class _Text:
    source: Source

    def span(self, node: ast.stmt | ast.expr | ast.keyword, end: int | None = None) -> Span:
        """Python counts columns in bytes, spans in characters."""
        line, end_line = node.lineno, node.end_lineno or node.lineno
        stop = node.end_col_offset or 0
        start = self._column(line, node.col_offset)
        return Span(self.source, line, start, end_line, self._column(end_line, stop) if end is None else start + end)

    def _column(self, line: int, offset: int) -> int:
        return len(self.source.line(line).encode()[:offset].decode(errors="ignore")) + 1

    def span_of(self, node: ast.stmt, at: str, word: object = None) -> Span:
        """The span of a field of a class, or of a keyword of its decorator; of its name if there is none."""
        declaring = _declaring(node)
        if isinstance(declaring, ast.Call):
            values: dict[str | None, ast.expr] = {each.arg: each.value for each in declaring.keywords}
            values |= {"name": declaring.args[0]} if declaring.args else {}
            if at in values:
                constants = [c for c in ast.walk(values[at]) if isinstance(c, ast.Constant) and c.value == word]
                return self.span(next(iter(constants), values[at]))
        if not isinstance(node, ast.ClassDef):
            return self.span(node)
        for line in node.body:
            targets = [line.target] if isinstance(line, ast.AnnAssign) else getattr(line, "targets", [])
            if at in [ast.unparse(target) for target in targets]:
                return self.span(line)
        if at == "class" or declaring is None:
            return Span(
                self.source, node.lineno, node.col_offset + 1, node.lineno, node.col_offset + 7 + len(node.name)
            )
        return self.span(declaring)

    def problem(self, node: ast.stmt, fault: DeclarationFault) -> Problem:
        return Problem(fault.message, self.span_of(node, fault.at, fault.word), fault.label, fault.notes)

    def failure(self, error: BaseException, node: ast.stmt) -> Problem:
        """An exception of the file's own code as a problem, at the line of the file that ran last."""
        lines = [
            line
            for frame, line in traceback.walk_tb(error.__traceback__)
            if frame.f_code.co_filename == self.source.name
        ]
        line = lines[-1] if lines else node.lineno
        text = self.source.line(line)
        start = len(text) - len(text.lstrip())
        message = f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")
        return Problem(
            f"the file fails when it is read: {message}",
            Span(self.source, line, start + 1, line, len(text) + 1),
            notes=("fix it there: the code above the first import of torch is run to see what is declared",),
        )
