"""Space: the question asked, read and checked as a whole.

    documents.py    what a space may say, as frozen documents
    design.py       the designs: compare, path, leave_one_out, search
    metrics.py      the names that may be measured and judged
    layers.py       grammar, file, profile and --set, one upon another
    origin.py       where a value was written: grammar, file, profile or option
    paths.py        paths that a space names, and whether they stay in its folder
    load.py         load_space: from a path to a Space, every mistake at its place
    load_block.py   one block, by its name or as YAML, with overrides
    sections.py     one method for each section
    fair.py         what is equal between the blocks compared
    fairness.py     mistakes in saying so
    tuning.py       the fields that are tuned, by address, and the values tried there
    looks.py        the looks of seeds that are added
    ways.py         ways out of what a document refuses
    search.py       what the keys of a search must be together
    choice.py       what is chosen among the things of a kind
    optimizers.py   optimisers and schedules as a space knows them
    corpora.py      corpora as a space knows them
    samplers.py     samplers as a space knows them
    streamed.py     how much is read of a corpus that is read as far as asked
    blocks.py       the blocks a space speaks of
    constraints.py  constraints that a space lets through
    override.py     `block:`, changes made to every block of the design, and to what a search derives
    space.py        Space: all of it, resolved
    template.py     writes the space that `ablate init` begins with
    template.yaml   that space, with comments
    known.py        the spaces that a name finds

This room starts nothing and imports no torch. It defaults nothing: what a space leaves out comes from the `space:` of
its grammar, and an override that changes no block is a mistake.
"""
