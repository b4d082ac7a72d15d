"""The hash of what a Python file computes: of its syntax, without what only readers need.

Comments, layout, documentation, annotations of locals and the names of local variables are left out, so that changing
them is not a change; any change of the remaining syntax tree counts as one until it is proved otherwise.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Scope: TypeAlias = Function | ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def syntax_hash(source: str) -> str:
    """Hash a Python text by what it computes, with SHA-256; SyntaxError for a text that is not Python.

    >>> syntax_hash('def f(x):\\n    "doc"\\n    y = x  # why\\n    g(y)') == syntax_hash("def f(x): z = x; g(z)")
    True
    >>> syntax_hash("def f(x): return x + 1") == syntax_hash("def f(x): return x + 2")
    False
    """
    tree = ast.parse(source)
    _without_documentation(tree)
    _Renaming().visit(tree)
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


def _without_documentation(tree: ast.Module) -> None:
    """Remove texts that stand alone, and leave `pass` where nothing else is left."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [each for each in body if not _documents(each)] or [ast.Pass()]  # type: ignore[attr-defined]


def _documents(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


class _Renaming(ast.NodeTransformer):
    """Renames the locals of every function by number, in the order in which they are first bound.

    Parameters keep their names, which callers may use. A nested function sees the outer function's locals under their
    new names, except those that it binds itself.
    """

    def __init__(self) -> None:
        self.names: list[dict[str, str | None]] = []
        self.count = 0

    def visit(self, node: ast.AST) -> Any:
        if not isinstance(node, SCOPES):
            return super().visit(node)
        inside = self._visit_outside(node)
        first = None if isinstance(node, ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef) else node.generators[0]
        outside = None if first is None else first.iter
        if first is not None:  # its iterable was visited in the outer scope already
            first.iter = ast.Constant(None)
        kept: dict[str, str | None] = dict.fromkeys(_parameters(node))
        own: dict[str, str | None] = {}
        before = self.count
        for name in _locals(node):
            if name not in kept and name not in own:
                own[name] = f"_{self.count}"
                self.count += 1
        self.names.append({**own, **kept})
        for field in inside:
            value = getattr(node, field)
            setattr(node, field, [self.visit(each) for each in value] if isinstance(value, list) else self.visit(value))
        self.names.pop()
        self.count = before
        if first is not None and outside is not None:
            first.iter = outside
        return node

    def _visit_outside(self, node: Scope) -> tuple[str, ...]:
        """Visit decorators, defaults and first iterables, which the outer scope evaluates; return the fields left."""
        if isinstance(node, ast.Lambda):
            node.args = self.visit(node.args)
            return ("body",)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.name = self._new(node.name)
            node.decorator_list = [self.visit(each) for each in node.decorator_list]
            node.args = self.visit(node.args)
            node.returns = None if node.returns is None else self.visit(node.returns)
            return ("body",)
        node.generators[0].iter = self.visit(node.generators[0].iter)
        return ("generators", *(("key", "value") if isinstance(node, ast.DictComp) else ("elt",)))

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self._new(node.id), node.ctx)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        node.name = self._new(node.name) if node.name else None
        return self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Rename a class; its attributes keep their names, since they are accessed by name."""
        node.name = self._new(node.name)
        self.names.append(dict.fromkeys(_written(node.body)))
        visited = self.generic_visit(node)
        self.names.pop()
        return visited

    def _new(self, name: str) -> str:
        for scope in reversed(self.names):
            if name in scope:
                return scope[name] or name
        return name


def _parameters(scope: Scope) -> list[str]:
    arguments = getattr(scope, "args", None)
    if not isinstance(arguments, ast.arguments):
        return []
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return [each.arg for each in every if each is not None]


def _locals(scope: Scope) -> Iterator[str]:
    """Yield the names that a function or comprehension binds itself, in order, without global and nonlocal ones."""
    if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
        apart = {
            name for node in _own(scope.body) if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names
        }
        yield from (name for name in _written(scope.body) if name not in apart)
    elif not isinstance(scope, ast.Lambda):
        for generator in scope.generators:
            yield from (node.id for node in ast.walk(generator.target) if isinstance(node, ast.Name))


def _written(body: Iterable[ast.stmt]) -> Iterator[str]:
    """Yield the names that statements bind, without those inside nested functions."""
    for node in _own(body):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            yield node.id
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or (
            isinstance(node, ast.ExceptHandler) and node.name
        ):
            yield str(node.name)


def _own(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield every node of statements in order, except those inside another scope."""
    for node in body:
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if isinstance(node, SCOPES):  # `:=` in a comprehension binds in the function around it
            yield from (each for each in ast.walk(node) if isinstance(each, ast.Name) and _is_walrus(each, node))
            continue
        yield from _own(ast.iter_child_nodes(node))


def _is_walrus(name: ast.Name, inside: ast.AST) -> bool:
    return any(isinstance(node, ast.NamedExpr) and node.target is name for node in ast.walk(inside))
