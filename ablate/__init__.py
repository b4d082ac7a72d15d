"""`ablate`: which edit of a transformer block mattered, by how much, is it noise, and what does it cost?

A block is an expression; everything else is an interpretation of that expression: build it, count it, compare it, run
it. The rooms have one order, and values move through them in one direction:

    source → extension → block → grammar → space → plan → statistics, verdict → components, kernels → compiler
    → data, probes → train → store → execute → report → session → cli

The docstring of each room names its files.

    >>> import ablate
    >>> ablate.load_grammar("transformer").block("pre_ln")   # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ablate.api import (
        Space,
        catalogue,
        check,
        compile_block,
        forecast,
        judge,
        load_block,
        load_grammar,
        load_space,
        plan_space,
        query,
        resumable,
        run,
    )
    from ablate.block.expression import Block
    from ablate.block.sizes import Sizes
    from ablate.compiler import compile_model
    from ablate.errors import AblateError, FailedError, InputError, RefusedError
    from ablate.grammar.grammar import Grammar
    from ablate.session import Run
    from ablate.session.bundling import load_bundle, write_bundle
    from ablate.session.verifying import verify

__all__ = [
    "AblateError",
    "Block",
    "FailedError",
    "Grammar",
    "InputError",
    "RefusedError",
    "Run",
    "Sizes",
    "Space",
    "catalogue",
    "check",
    "compile_block",
    "compile_model",
    "forecast",
    "judge",
    "load_block",
    "load_bundle",
    "load_grammar",
    "load_space",
    "plan_space",
    "query",
    "resumable",
    "run",
    "verify",
    "write_bundle",
]
__version__ = "0.1.0"


_ELSEWHERE = {
    "compile_model": "ablate.compiler",
    **dict.fromkeys(("load_bundle", "write_bundle"), "ablate.session.bundling"),
    "verify": "ablate.session.verifying",
    **dict.fromkeys(("AblateError", "FailedError", "InputError", "RefusedError"), "ablate.errors"),
}
"""The names that are not in `ablate.api`, with their modules."""


def __getattr__(name: str) -> Any:
    """Import on first use, so that `import ablate` and `ablate --help` are quick."""
    if name not in __all__:
        raise AttributeError(f"module 'ablate' has no attribute {name!r}")
    return getattr(importlib.import_module(_ELSEWHERE.get(name, "ablate.api")), name)


def __dir__() -> list[str]:
    """List the public names only: rooms are imported by their own names."""
    return [*__all__, "__version__"]
