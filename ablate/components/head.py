"""The head of a component file: what it declares, read without torch, and every mistake in it told at its place.

The head ends at the first import of torch (or of jaxtyping or kernels, which come with it). It is run a statement at a
time, so that one wrong declaration does not hide the next; what stands below it is looked at, and not run.
"""

from __future__ import annotations
import __future__

import ast
import sys
import traceback
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ablate.block.catalogue import ComponentSpec
from ablate.components.declare import DeclarationError, Fault
from ablate.source.located import Source, Span
from ablate.source.problems import Problem, Problems

LIKE = "a plugin is a Python file like those in ablate/components/: what it declares, then its torch imports"


@dataclass(frozen=True, slots=True)
class Declared:
    """A component, and the file and class that declare it."""

    spec: ComponentSpec
    text: _Text
    node: ast.ClassDef | None

    def place(self, at: str = "name", word: object = None) -> Span:
        """Where a field, a keyword of @component or its `name` stands, or that `word` among its values."""
        return self.text.span_of(self.node, at, word) if self.node is not None else self.text.source.span(0, 0)


def read_head(path: Path, problems: Problems) -> list[Declared]:
    """What a file declares; what is wrong with it is noted, and is then not among them."""
    try:
        text = _Text(Source(str(path), path.read_text(encoding="utf-8")))
        tree = ast.parse(text.source.text, filename=str(path))
    except SyntaxError as error:
        start = (error.lineno or 1, error.offset or 1)
        end = (error.end_lineno or start[0], max(error.end_offset or 0, start[1] + 1))
        place = Span(text.source, *start, *(end if end > start else (start[0], start[1] + 1)))
        problems.add(f"this is no Python: {error.msg}", place, notes=(LIKE,))
        return []
    except (OSError, ValueError) as error:
        problems.add(f"cannot read the plugin {path}: {type(error).__name__}: {error}", notes=(LIKE,))
        return []
    head, before = list(_until_torch(tree.body)), len(problems)
    declared = _run(head, ast.get_docstring(tree), path, text, problems)
    found = [one for one in declared if not _note_without_module(one, tree, problems)]
    for node in tree.body[len(head) :]:
        _note_below(node, text, problems)
    if not found and len(problems) == before:
        _note_nothing(tree, path, text, problems)
    return found


def _run(head: Sequence[ast.stmt], document: str | None, path: Path, text: _Text, problems: Problems) -> list[Declared]:
    """What the statements declare, up to one that fails; what is wrong is noted."""
    module = types.ModuleType(f"ablate._heads.{path.stem}", document)
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    found: list[Declared] = []
    wrong: set[str] = set()
    for node in head:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue  # a docstring, or what is said below a constant
        try:
            code = compile(ast.Module([node], []), str(path), "exec", flags=_features(head), dont_inherit=True)
            exec(code, module.__dict__)
        except DeclarationError as error:
            wrong |= {node.name} if isinstance(node, ast.ClassDef) else set()
            for fault in error.faults:
                problems.append(text.problem(node, fault))
            continue
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  whatever the user's own code raises, `sys.exit()` too
            if isinstance(error, NameError) and error.name in wrong:
                continue  # it speaks of a declaration that is told already
            problems.append(text.failure(error, node))
            return found
        if not isinstance(node, ast.ClassDef):
            continue
        spec = getattr(module.__dict__.get(node.name), "spec", None)
        if isinstance(spec, ComponentSpec):
            earlier = next((one for one in found if one.node is not None and one.node.name == node.name), None)
            if earlier is None:
                found.append(Declared(spec, text, node))
            else:
                message, way = f"class {node.name} stands twice, and hides the one before it", "give it another name"
                also = ((earlier.place("class"), "which would have no module"),)
                problems.add(message, text.span_of(node, "class"), notes=(way,), also=also)
    known = {one.spec.name for one in found}
    specs = (getattr(value, "spec", None) for value in list(vars(module).values()))
    others = {spec.name: spec for spec in specs if isinstance(spec, ComponentSpec) and spec.name not in known}
    return [*found, *(Declared(spec, text, None) for spec in others.values())]


def _features(head: Sequence[ast.stmt]) -> int:
    """What the file imports from `__future__`, for each statement alike."""
    names = [
        a.name for node in head if isinstance(node, ast.ImportFrom) and node.module == "__future__" for a in node.names
    ]
    return sum(getattr(__future__, name).compiler_flag for name in names if hasattr(__future__, name))


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


def _note_without_module(one: Declared, tree: ast.Module, problems: Problems) -> bool:
    """Whether nothing in the file says that it carries out the declaration."""
    if one.node is None:
        return False
    bound = {
        ast.unparse(call.args[0])
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and _called(call) == "implements" and call.args
    }
    if one.node.name in bound:
        return False
    problems.add(
        f"component {one.spec.name!r} has no module",
        one.text.span_of(one.node, "class"),
        label="nothing in the file implements it",
        notes=(f"decorate its nn.Module with @implements({one.node.name}), below the first import of torch",),
    )
    return True


def _note_below(node: ast.stmt, text: _Text, problems: Problems) -> None:
    """Note a declaration that stands where it is not read."""
    if isinstance(node, ast.ClassDef) and any(_called(one) == "component" for one in node.decorator_list):
        problems.add(
            "a component is declared below the first import of torch, and is not found there",
            text.span_of(node, "class"),
            notes=("move the class above that import: checking and planning read no further",),
        )


def _note_nothing(tree: ast.Module, path: Path, text: _Text, problems: Problems) -> None:
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    meant = [
        classes[call.args[0].id]
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and _called(call) == "implements"
        if call.args and isinstance(call.args[0], ast.Name) and call.args[0].id in classes
    ]
    problems.add(
        f"the plugin {path} declares no component",
        text.span_of(meant[0], "class") if meant else None,
        notes=("decorate its Config with @component(…), above the first import of torch",),
    )


def _called(node: ast.expr) -> str:
    """The last name of what is called, or stands there uncalled."""
    function = node.func if isinstance(node, ast.Call) else node
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


@dataclass(frozen=True)
class _Text:
    source: Source

    def span(self, node: ast.stmt | ast.expr | ast.keyword, end: int | None = None) -> Span:
        """The characters of a node; Python counts columns in bytes."""
        line, end_line = node.lineno, node.end_lineno or node.lineno
        stop = node.end_col_offset or 0
        start = self._column(line, node.col_offset)
        return Span(self.source, line, start, end_line, self._column(end_line, stop) if end is None else start + end)

    def _column(self, line: int, offset: int) -> int:
        return len(self.source.line(line).encode()[:offset].decode(errors="ignore")) + 1

    def span_of(self, node: ast.stmt, at: str, word: object = None) -> Span:
        """Where a field of a class, or a keyword of its @component, stands; its name where there is none."""
        if not isinstance(node, ast.ClassDef):
            return self.span(node)
        decorator = next((one for one in node.decorator_list if _called(one) == "component"), None)
        if isinstance(decorator, ast.Call):
            values: dict[str | None, ast.expr] = {one.arg: one.value for one in decorator.keywords}
            values |= {"name": decorator.args[0]} if decorator.args else {}
            if at in values:
                constants = [one for one in ast.walk(values[at]) if isinstance(one, ast.Constant) and one.value == word]
                return self.span(next(iter(constants), values[at]))
        for line in node.body:
            targets = [line.target] if isinstance(line, ast.AnnAssign) else getattr(line, "targets", [])
            if at in [ast.unparse(target) for target in targets]:
                return self.span(line)
        if at == "class" or decorator is None:
            return Span(
                self.source, node.lineno, node.col_offset + 1, node.lineno, node.col_offset + 7 + len(node.name)
            )
        return self.span(decorator)

    def problem(self, node: ast.stmt, fault: Fault) -> Problem:
        return Problem(fault.message, self.span_of(node, fault.at, fault.word), fault.label, fault.notes)

    def failure(self, error: BaseException, node: ast.stmt) -> Problem:
        """What the file's own code raises while it is read, at the line of it that ran last."""
        lines = [
            line
            for frame, line in traceback.walk_tb(error.__traceback__)
            if frame.f_code.co_filename == self.source.name
        ]
        line = lines[-1] if lines else node.lineno
        text = self.source.line(line)
        start = len(text) - len(text.lstrip())
        said = f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")
        return Problem(
            f"the file fails while it is read: {said}",
            Span(self.source, line, start + 1, line, len(text) + 1),
            notes=("mend it there: what stands above the first import of torch is run to see what is declared",),
        )
