"""Grammar: which blocks may be built, and which have names.

    rules.py       rules as written: name, parameters, bound on recursion, alternatives
    expand.py      rules to templates: `$rule`, `$rule(argument)`, `let`, `one_of`
    between.py     numbers in order: `{between: [0.1, 1], points: 10, scale: log}`
    derivation.py  templates: everything a rule can become, numbered
    value_range.py    what stands in derivations, whichever is taken
    choices.py      a derivation as named choices: asked one by one, or taken apart
    mutate.py        mutation, crossover of like rules, draws that keep to the constraints and count refusals
    condition.py   what must stand at an address
    constraint.py  what a block may not be, and why
    include.py     files with the blocks of one paper each
    named_blocks.py       named blocks with what is said about them; presets of a space
    named_files.py a grammar or a space by its name: one's own, else one that ships
    grammar.py     load_grammar, Grammar: count, derive, enumerate, sample, refusals, named blocks, defaults
    census.py      how many blocks constraints leave: exact, or sampled with an interval

This room never chooses a default in silence: what YAML may leave out stands in the grammar's own `defaults:`.

A derivation is a number: counting is a product, listing counts up, a uniform draw is a uniform integer. That is why a
count is exact beyond 10^12, and why `$norm` (drawn anew at each place) and `let` (drawn once) count differently.
"""
