"""Pairs of code and summary, the functions of Python's standard library and the first paragraphs of their docstrings.

It needs no download. As for `python_stdlib`, the library differs between builds, so results are compared by
fingerprint, never by name.
"""

from __future__ import annotations

import ast
import inspect
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TypeAlias

from ablate.data.corpora.declare import Settings, Skipped, Text, corpus, implements
from ablate.data.corpora.python_stdlib import StandardLibrary, standard_library

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


@corpus("code_docstrings", source="after Miceli Barone & Sennrich 2017, arXiv:1707.02275", version=1)
class CodeDocstrings(Settings):
    """No settings: `corpus: code_docstrings`."""

    @property
    def pairs(self) -> bool:
        return True


@implements(CodeDocstrings)
def read(settings: CodeDocstrings, folder: Path) -> DocumentedFunctions:
    """The functions of the library that `import` would use. Raises CorpusError if it has no source files."""
    return DocumentedFunctions(standard_library("code_docstrings").root)


@dataclass(frozen=True)
class DocumentedFunctions(StandardLibrary):
    """Every function and method with a docstring below `root`, those inside other functions left out.

    The source is its code as it is written, from `def` on, without the docstring and moved to the left margin; the
    target is the docstring's first paragraph on one line. A function that is nothing but its docstring has no code to
    speak of and is left out, as is one with byte 0 in either, which may be what ends a text.
    """

    name: ClassVar[str] = "code_docstrings"

    def texts(self) -> Iterator[Text | Skipped]:
        """Yield each function and then its docstring, ordered by file and line; files that do not parse are skipped."""
        for document in super().texts():
            if isinstance(document, Skipped):
                yield document
                continue
            try:
                tree = _parsed(document)
            except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
                yield Skipped(document.name, f"is not Python: {str(error).partition(chr(10))[0]}")
                continue
            for function in _functions(tree):
                summary = _summary(function)
                code = _without_docstring(document.content, function) if summary else ""
                if code and "\0" not in code + summary:
                    name = f"{document.name}/{function.lineno:06d}:{function.name}"
                    yield Text(f"{name}/code", code.encode())
                    yield Text(f"{name}/docstring", summary.encode())


def _parsed(file: Text) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of escapes and comparisons that other people's code holds
        return ast.parse(file.content.decode("utf-8"), filename=file.name.rpartition("/")[2])


def _functions(within: ast.AST) -> Iterator[Function]:
    """The functions of a module, its classes and its conditions, ordered by line."""
    for node in ast.iter_child_nodes(within):
        if isinstance(node, Function):
            yield node
        else:
            yield from _functions(node)


def _summary(function: Function) -> str:
    """The first paragraph of a docstring on one line; empty if there is none."""
    docstring = ast.get_docstring(function, clean=False) or ""
    paragraph = inspect.cleandoc(docstring).partition("\n\n")[0]
    return " ".join(paragraph.encode("utf-8", "ignore").decode().split())


def _without_docstring(content: bytes, function: Function) -> str:
    """The code of a function without its docstring; empty if nothing else is in it."""
    docstring, *rest = function.body
    if not rest:
        return ""
    lines = content.split(b"\n")  # as the parser counts them; columns are bytes
    first, last = docstring.lineno - 1, (docstring.end_lineno or 0) - 1
    before, after = lines[first][: docstring.col_offset], lines[last][docstring.end_col_offset :].lstrip(b"; \t")
    joined = [before + after] if (before + after).strip() else []
    margin = lines[function.lineno - 1][: function.col_offset]  # a line of a string may begin to the left of it
    code = (*lines[function.lineno - 1 : first], *joined, *lines[last + 1 : function.end_lineno])
    return b"\n".join(line.removeprefix(margin) for line in code).decode("utf-8").strip("\n") + "\n"
