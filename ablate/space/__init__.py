"""Space: the question asked, read and checked as a whole.

    documents.py  what a space may say, as frozen documents
    design.py     the designs: compare, path, leave_one_out, search
    metrics.py    the names that may be measured and judged
    layers.py     grammar, file, profile and --set, one upon another
    load.py       load_space: from a path to a Space, every mistake at its place
    sections.py   one method for each section
    fair.py       what is equal between the blocks compared; fairness.py: mistakes in saying so
    tuning.py     the fields that are tuned, by address, and the values tried there
    looks.py      the looks of seeds that are added
    ways.py       ways out of what a document refuses
    search.py     what the keys of a search must be together
    choice.py     what is chosen among the things of a kind; optimizers.py, corpora.py: what a space knows of theirs
    streamed.py   how much is read of a corpus that is read as far as asked
    blocks.py     the blocks a space speaks of
    override.py   `block:`, changes made to every block of the design, and to what a search derives
    space.py      Space: all of it, resolved
    template.py   the commented space that `ablate init` writes, template.yaml; known.py: spaces by name

This room starts nothing and imports no torch. It defaults nothing: what a space leaves out comes from the `space:` of
its grammar, and an override that changes no block is a mistake.
"""
