"""Compiler: from an expression to a module.

Here are blocks and whole models as `nn.Module`s, what surrounds the blocks, initialisation, and the size report. Never
here: a mechanism of a block (that is a component), the name of one, or training.

    compile.py         `compile_block` and `compile_model`: from expressions to models, whose layers may share
                       parameters; the size of a model, counted on the meta device
    build.py           from nodes to modules: a block, its gains, and the maker of each field
    decoder.py         embedding, positions and head; blocks between them that predict the next token
    encoder.py         blocks that see a whole sequence and its padding, alone or before a decoder, which reads it
    classifier.py      one answer for an input: the layers and the head, of images in patches (ViT), of features (MLP)
    initialise.py      every parameter from a random stream seeded by its address; seeds for code that names no
                       generator; profiles
    values.py          values of a pass for the parts that read them; blocks that predict tokens further ahead, in
                       training
"""

from ablate.compiler.build import Scale
from ablate.compiler.compile import compile_block, compile_model, size_report

__all__ = ["Scale", "compile_block", "compile_model", "size_report"]
