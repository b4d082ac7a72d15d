"""A file's hash changes with what it computes, and with nothing that only its readers see."""

from __future__ import annotations

import ast
import builtins

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import ROOT

from ablate.plan.syntax_hash import syntax_hash

SAME = {
    "comments, layout and documentation": (
        'X = 1\n"""What X is."""\n\n\ndef f(a: int) -> int:\n    """Doc."""\n    return a + X  # why\n',
        "X=1\ndef f(a: int) -> int: return (a+X)\n",
    ),
    "a class that has a text alone": ('class A:\n    "only a text"\n', "class A: pass"),
    "a local": ("def f(a):\n    b = a\n    return b", "def f(a):\n    c = a\n    return c"),
    "a loop's": ("def f(a):\n for i in a: g(i)", "def f(a):\n for step in a: g(step)"),
    "one of with": ("def f():\n with g() as x: x()", "def f():\n with g() as y: y()"),
    "an exception's": (
        "def f():\n try: g()\n except E as a: h(a)",
        "def f():\n try: g()\n except E as b: h(b)",
    ),
    "a comprehension's": ("X = [i for i in range(3) if i]", "X = [j for j in range(3) if j]"),
    "one that an inner function reads": (
        "def f():\n a = 1\n def g(): return a\n return g",
        "def f():\n b = 1\n def h(): return b\n return h",
    ),
    "one bound by :=": (
        "def f(x):\n return [y for x in x if (y := x)]",
        "def f(x):\n return [z for w in x if (z := w)]",
    ),
    "a lambda's around it": ("def f():\n a = 1\n return lambda x: a + x", "def f():\n b = 1\n return lambda x: b + x"),
}
OTHER = {
    "a constant": ("X = 1\ndef f(): return X", "X = 2\ndef f(): return X"),
    "a sign": ("def f(x): return x", "def f(x): return -x"),
    "a default": ("def f(a): return a", "def f(a=0): return a"),
    "a type of number": ("X = 1", "X = 1.0"),
    "a text": ("f('a')", "f('b')"),
    "a parameter, which a caller may name": ("def f(a): return a", "def f(b): return b"),
    "a global": ("A = 1\ndef f(): return A", "B = 1\ndef f(): return B"),
    "a global that a function writes": (
        "def f():\n global a\n a = 1",
        "def f():\n global b\n b = 1",
    ),
    "an attribute": ("def f(x): return x.a", "def f(x): return x.b"),
    "a field of a class": ("class A:\n a = 1", "class A:\n b = 1"),
    "a method": ("class A:\n def a(self): return 1", "class A:\n def b(self): return 1"),
    "which of two locals": (
        "def f(x):\n a = x\n b = 2 * x\n return a",
        "def f(x):\n a = x\n b = 2 * x\n return b",
    ),
    "a local that hides a global": (
        "def f(x):\n y = x\n return g(y)",
        "def f(x):\n g = x\n return g(g)",
    ),
    "the order of two lines": ("def f():\n a()\n b()", "def f():\n b()\n a()"),
}


@pytest.mark.fast
@pytest.mark.parametrize("name", SAME)
def test_what_a_reader_alone_sees_is_not_meant(name):
    one, other = SAME[name]
    assert syntax_hash(one) == syntax_hash(other)


@pytest.mark.fast
@pytest.mark.parametrize("name", OTHER)
def test_what_is_computed_is_meant(name):
    one, other = OTHER[name]
    assert syntax_hash(one) != syntax_hash(other)


class Renamed(ast.NodeTransformer):
    """Renames one name wherever it is a local variable of a function."""

    def __init__(self, name: str, new: str):
        self.name, self.new = name, new

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self.new, node.ctx) if node.id == self.name else node


def plain_functions() -> list[str]:
    """Functions of ours as texts, each with locals and without a scope inside it."""
    found = []
    for path in sorted((ROOT / "ablate" / "train").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            inner = [n for n in ast.walk(node) if isinstance(n, ast.FunctionDef | ast.Lambda | ast.comprehension)]
            if isinstance(node, ast.FunctionDef) and inner == [node] and stored(node):
                found.append(ast.unparse(node))
    return found


def stored(tree: ast.AST) -> list[str]:
    names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    arguments = {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    return sorted(names - arguments - set(vars(builtins)))


@given(st.sampled_from(plain_functions()), st.randoms(use_true_random=False))
def test_any_local_of_any_function_may_be_renamed(text, rng):
    tree = ast.parse(text)
    renamed = ast.unparse(Renamed(rng.choice(stored(tree)), "quite_another_name").visit(tree))
    assert renamed != text and syntax_hash(renamed) == syntax_hash(text)


@given(st.sampled_from(plain_functions()), st.randoms(use_true_random=False))
def test_any_number_that_is_another_is_seen(text, rng):
    """The twin: a change of one number in the same functions."""
    tree = ast.parse(text)
    numbers = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, int | float)]
    if not numbers:
        return
    constant = rng.choice(numbers)
    constant.value = constant.value + 1 if not isinstance(constant.value, bool) else not constant.value
    assert syntax_hash(ast.unparse(tree)) != syntax_hash(text)
