"""Space: a question about blocks, read and checked as a whole.

    documents.py    the sections of a space, as frozen documents
    design.py       the designs: compare, path, leave_one_out, ladder, search
    metrics.py      the metrics that can be measured and judged
    layers.py       grammar, file, profile and --set, laid over one another
    origin.py       where each value was written: grammar, file, profile or option
    paths.py        checks that the paths a space names stay in its folder
    load.py         load_space: from a path to a Space, each mistake reported at its place
    load_block.py   one block, by its name or as YAML, with overrides
    sections.py     one method for each section
    fair.py         what is held equal between the blocks compared
    fairness.py     checks of that section
    tuning.py       the fields to tune, by address, and the values to try there
    claims.py       checks of claims: that a verdict can confirm them, and another speak against them
    looks.py        checks of the looks of `seeds: auto`
    ways.py         hints for values that a document refuses
    search.py       checks across the keys of a search
    choice.py       a choice among the things of one kind, with its settings
    optimizers.py   declarations of optimisers and schedules
    corpora.py      declarations of corpora; reads `data.corpus`
    fits.py         the checks that the sections of a space fit one another, as it is and with changes
    objective_fit.py whether what is learned fits the model, what is added to its loss, and what is judged
    objectives.py   declarations of objectives
    samplers.py     declarations of samplers
    saved_tokenizer.py  what a space needs to know of a tokenizer in a file
    rate_schedule.py  the learning rate as a share of its peak: warm-up, hold, and then a schedule
    batch_ramp.py   the size of each batch of a run, where it grows
    streamed.py     how many bytes of a streamed corpus are read
    blocks.py       the blocks that a space names
    variants.py     named treatments: a block, and what is changed around it
    vary.py         factors with several levels: an address and a list of values
    vary_checks.py  checks of these values against the space
    ladder.py       the sizes of a ladder: what each changes in model and recipe
    size_checks.py  checks of these sizes against the space
    further.py      the check that each block of `model.ahead` has a weight in the loss
    encoder.py      the check that a model has what its kind needs, and nothing of other kinds
    classifier.py   the check that a model of images or of features fits its data, and sets nothing in vain
    layouts.py      the check that a model reads what its corpus gives: text, images or frames
    augmentation.py the check that what a recipe changes in images has images, and can be learnt from
    number_range.py the numbers of a range that a search varies
    searched_values.py  checks of what a search varies
    search_kind.py  the check that the rules of a search derive blocks for the kind of the model
    changed.py      a space with values changed at some of its addresses
    dotted.py       dotted keys: their words, each at its place
    constraints.py  constraints that a space lets through with a warning
    override.py     `block:`, overrides of every block of the design and of those a search derives
    space.py        Space: the resolved whole
    template.py     writes the space that `ablate init` starts from
    template.yaml   that space, with comments
    known.py        the spaces that can be found by name

This room runs nothing and does not import torch. It sets no defaults: what a space leaves out comes from the `space:`
section of its grammar, and an override that changes no block is a mistake.
"""
