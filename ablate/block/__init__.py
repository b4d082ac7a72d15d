"""Block: the frozen expression of a transformer block, and what can be said of it without building it.

    expression.py    Node, Sequence, Gain, Size: the data itself
    arithmetic.py    `1/sqrt(2*depth)`: read, printed and evaluated, never by `eval`
    sizes.py         the sizes of a model, and the names arithmetic may use
    architecture.py  a whole model as data
    catalogue.py     what is known of the components; handed in
    user_code.py           errors of a user's own component, reported with its file
    cost.py          parameters and FLOPs, as numbers that add
    config_values.py          from a node's values to those of a component's Config
    scalars.py       reading numbers, flags, words, widths, gains
    read.py          Reader: located YAML to expressions, every mistake noted
    printer.py       expressions to YAML that reads back the same
    normal_form.py        the normal form: what trains to the same bits is the same value
    fingerprint.py   canonical text and hashes
    address.py       the names of parts
    select.py        finding and changing parts by address
    align.py         two blocks as one tree with sites where they differ
    sites.py         where those sites are
    diff.py          the difference as named edits, any subset of which can be applied
    notation.py      arithmetic, gains and sums as the papers write them
    equation.py      a block as equations
    diagram.py       a block as boxes and lines in a grid
    drawing.py       those as text and as SVG

This room never imports torch, reads no files, chooses no default and knows no component by name.

Print and parse are inverse: `parse(print(x)) == x` for every block, and for every text in normal form
`print(normalise(parse(text))) == text`. A rule enters the normal form only if both sides, compiled as written, train
to the same bits on CPU; what is the same at initialisation only does not fold.
"""
