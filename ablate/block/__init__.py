"""Block: the frozen expression of a transformer block, and what can be computed from it without building it.

    expression.py    Node, Sequence, Gain, Size: the data itself; printed as YAML that reads back the same
    arithmetic.py    `1/sqrt(2*depth)`: read, printed and evaluated, without `eval`; which layers: `first`, `layer<4`
    catalogue.py     the declarations of the components, passed in: fields, those that came later, a user's own errors
    sizes.py         the sizes of a model; the values of a node's fields at them, for its Config; parameters and FLOPs
    architecture.py  a whole model as data; layers that share, patterns never used, encoders, images and features
    layers.py        patterns over layers: the block as it is in one of them
    network.py       the network of nonlinear layers and residuals that a model is, for activations solved for it
    address.py       the names of parts; finds and changes parts by them; the addresses of values that stand earlier
    reader.py        Reader: located YAML to expressions, every mistake noted; numbers, flags, words, widths, gains
    normal_form.py   blocks that train to the same bits have one; the effective form at the sizes of a model; hashes
    align.py         two blocks as one tree with sites where they differ
    diff.py          the difference of two blocks as named edits, any subset of which can be applied; where each acts
    equation.py      a block as equations; arithmetic, gains and sums as the papers write them
    diagram.py       a block as boxes and lines on a grid, rendered as text and as SVG

This room never imports torch, reads no files, sets no defaults and knows no component by name.

Printing and parsing are inverse: `parse(print(x)) == x` for every block, and `print(normalise(parse(text))) == text`
for every text in normal form. A rule enters the normal form only if both sides, compiled as written, train to the same
bits on CPU; blocks that are equal only at initialisation are kept apart.
"""
