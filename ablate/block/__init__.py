"""Block: the frozen expression of a transformer block, and what can be computed from it without building it.

    expression.py    Node, Sequence, Gain, Size: the data itself
    arithmetic.py    `1/sqrt(2*depth)`: read, printed and evaluated, without `eval`
    sizes.py         the sizes of a model, and the names that arithmetic may use
    which_layers.py  which layers of a model: `first`, every fourth, a comparison
    architecture.py  a whole model as data
    catalogue.py     the declarations of the components; passed in
    layers.py        patterns over layers: the block as it is in one of them
    network.py       the network of nonlinear layers and residuals that a model is, as data
    own_network.py   the network of a model's blocks, for activations that are solved for it
    sharing.py       which layers share parameters, and whether they can
    pattern_check.py patterns of which an alternative is never used at a depth
    added.py         fields that came later, and the values at which they have no effect
    user_code.py           reports errors of a user's own component with its file
    cross.py         what reads the encoder, and the block of the encoder's own layers
    classifier.py    what a model of images or of features needs, and how many tokens it makes of an input
    cost.py          parameters and FLOPs, as numbers that add up
    config_values.py          from the values of a node to those of a component's Config
    scalars.py       reading numbers, flags, words, widths, gains
    read.py          Reader: located YAML to expressions, every mistake noted
    printer.py       expressions to YAML that reads back the same
    normal_form.py        the normal form: blocks that train to the same bits have one
    effective.py     the effective form: equal at the sizes of a model
    fingerprint.py   canonical text and hashes
    address.py       the names of parts
    select.py        finds and changes parts by address
    align.py         two blocks as one tree with sites where they differ
    value_addresses.py  the addresses of values that stand earlier in the model
    sites.py         the names of the places of those sites
    diff.py          the difference of two blocks as named edits, any subset of which can be applied
    notation.py      arithmetic, gains and sums as the papers write them
    equation.py      a block as equations
    diagram.py       a block as boxes and lines on a grid
    drawing.py       renders diagrams as text and as SVG

This room never imports torch, reads no files, sets no defaults and knows no component by name.

Printing and parsing are inverse: `parse(print(x)) == x` for every block, and `print(normalise(parse(text))) == text`
for every text in normal form. A rule enters the normal form only if both sides, compiled as written, train to the same
bits on CPU; blocks that are equal only at initialisation are kept apart.
"""
