"""Compiler: from an expression to a module.

Here are blocks and whole models as `nn.Module`s, what surrounds the blocks, initialisation, and the size report. Never
here: a mechanism of a block (that is a component), the name of one, or training.

    compile.py         `compile_block` and `compile_model`: from expressions to models
    build.py           from nodes to modules, field by field
    block.py           a block as a module, with every part registered under its address
    ahead.py           blocks that predict tokens further ahead, in training
    decoder.py         blocks between an embedding and a head that predicts the next token
    encoder.py         blocks that see a whole sequence, segments and padding, and what is beside the head
    encoder_decoder.py an encoder of the same block before the decoder, which reads it
    padding.py         what fills up sequences, known to attention during a pass
    affine.py          a linear map with a bias
    classifier.py      layers between what embeds an input and a head that gives one answer for it
    vit.py             a classifier of images, cut into patches
    mlp.py             a classifier of features, whose layers have no attention
    embedding.py       embedding, positions and head
    initialise.py      every parameter from a random stream seeded by its address
    sharing.py         layers whose parameters are those of others
    random_streams.py  seeds for code that names no generator
    data_dependent_init.py         initialisation from data, for components that declare it
    values.py          values kept for the parts that read them
    scale.py           a gain as a module
    size.py            the size of a model, counted on the meta device
"""

from ablate.compiler.compile import compile_block, compile_model
from ablate.compiler.scale import Scale
from ablate.compiler.size import size_report

__all__ = ["Scale", "compile_block", "compile_model", "size_report"]
