"""Space: a question about blocks, read and checked as a whole.

    load.py         load_space, from a path to a Space; load_block; spaces known by name; a new one from the template
    template.yaml   that space, with comments
    overlay.py      grammar, preset, file, profile and --set, laid over one another, and where each value was written
    documents.py    what sections are written with: values, choices, paths; the reader of a section; hints
    data.py         the section `data`: corpora, tokenizers, and tokenizers in files
    model.py        the model around the blocks, and fields that only some kinds of models have
    recipe.py       how a model is trained, and declarations of optimisers, schedules and objectives
    schedule.py     the learning rate and the batch at each step: warm-up, hold, decay, and a batch that grows
    metrics.py      the metrics that can be measured and judged
    judge.py        what is measured and judged, and claims that a verdict can confirm and another speak against
    fair.py         what is held equal between the blocks compared; seeds, their looks, and A/A arms
    tuning.py       the fields to tune, by address, and the values to try there
    variants.py     values set at addresses: overrides of the blocks' parts, and named treatments
    vary.py         factors with several levels or a range of numbers, and the sizes of a ladder
    design.py       the designs: compare, path, leave_one_out, ladder, search and others; what a search needs
    fits.py         whether sections fit one another, as they are and with changes; how much of a corpus is read
    space.py        Space, the resolved whole; its blocks; constraints that it lets through with a warning
    changes.py      a space with values changed at addresses, and checks of what variants, factors and sizes change

This room runs nothing and does not import torch. It sets no defaults: what a space leaves out comes from the `space:`
section of its grammar, and an override that changes no block is a mistake.
"""
