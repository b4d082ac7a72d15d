"""Compiler: from an expression to a module.

Here live: blocks and whole models as `nn.Module`s, what stands around the blocks, initialisation, and the size report.
Never: a mechanism of a block (that is a component), the name of one, or training.
"""

from ablate.compiler.compile import compile_block, compile_model
from ablate.compiler.scale import Scale
from ablate.compiler.size import size_report

__all__ = ["Scale", "compile_block", "compile_model", "size_report"]
