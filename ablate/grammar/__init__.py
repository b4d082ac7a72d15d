"""Grammar: which blocks may be built, and which have names.

    grammar.py       load_grammar, Grammar: count, derive, enumerate, sample, refusals, named blocks, defaults
    rules.py         the rules: as written; `$rule`, `let`, `one_of`, `{between: [0.1, 1], …}`; expanded to templates
    derivation.py    templates: the numbered list of everything a rule can derive; the sizes that any of it may name
    choices.py       a derivation as a sequence of named choices, made one by one or recovered from its number
    mutate.py        mutation, crossover of like rules, and draws that satisfy the constraints and count refusals
    constraint.py    which blocks are refused, and why: conditions on the value at an address
    named_blocks.py  named blocks with their descriptions, and presets of a space; included files, each of one paper
    named_files.py   finds a grammar or space by name: the user's own, else a shipped one
    census.py        how many blocks the constraints admit: exact, or estimated with an interval

This room sets no implicit defaults: what YAML may leave out stands in the grammar's own `defaults:`.

A derivation is a number: counting is multiplication, listing counts up, and a uniform draw is a uniform integer. So a
count is exact beyond 10^12, and `$norm` (drawn anew at each place) and `let` (drawn once) count differently.
"""
