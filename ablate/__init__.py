"""`ablate`: which edit of a transformer block mattered, by how much, is it noise, and what does it cost?

A block is an expression; everything else is an interpretation of that expression: build it, count it, compare it, run
it. The rooms stand in one order, and values move through them one way:

    source → block → grammar → space → plan → components, kernels → compiler → data, probes → train → store → execute
    → report → cli

    >>> import ablate
    >>> ablate.load_grammar("transformer").block("pre_ln")   # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ablate.api import (
        Space,
        catalogue,
        check,
        compile_block,
        load_block,
        load_grammar,
        load_space,
        plan_space,
        query,
        resumable,
        run,
    )
    from ablate.block.sizes import Sizes
    from ablate.compiler import compile_model

__all__ = [
    "Sizes",
    "Space",
    "catalogue",
    "check",
    "compile_block",
    "compile_model",
    "load_block",
    "load_grammar",
    "load_space",
    "plan_space",
    "query",
    "resumable",
    "run",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import on first use, so that `import ablate` and `ablate --help` are quick."""
    if name == "compile_model":
        import ablate.compiler

        return ablate.compiler.compile_model
    if name in __all__:
        import ablate.api

        return getattr(ablate.api, name)
    raise AttributeError(f"module 'ablate' has no attribute {name!r}")
