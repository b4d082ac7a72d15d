"""What the numbers say: statistics, verdicts, tables, and progress while they come in.

This room takes plain values (a plan, what a judge asked for, the final metrics of each trial) and gives back frozen
values or things `rich` can print. It never trains, never opens a store, and never drops a trial: a diverged one is
counted beside every number it is missing from.

    finals.py      how a trial ended and its last metrics, as the store hands them over
    statistics.py  paired intervals, equivalence, Holm, Wilson, seeds needed: numbers in, numbers out
    pairing.py     which numbers may be compared: trials matched by seed, and why others are not
    summary.py     the answer as frozen values: metrics, arms, effects
    verdicts.py    `judge`: one effect for each comparison and metric
    wording.py     numbers and verdicts in words
    tables.py      the plan, and the screen at the end of a run
    json_form.py   the same as JSON
    time_left.py   how long the rest takes, from what was measured
    progress.py    what is shown while trials run
    ended.py       how a run ended when it did not simply finish
    checked.py     what was checked: spaces, grammars, the edits between two blocks
    shown.py       a block: its tree (tree.py), equations, diagram and costs
    listed.py      blocks, presets and components, under the papers they are from
    rows.py        the rows of a query
    searched/      what a search has found, on the screen and as a page

The statistics are chosen here once. Pairs are seeds (every variant sees the same batches under one seed); intervals
are Student's; claims of better or worse are corrected by Holm within the edits, and within the comparisons with the
baseline, for each metric; equivalence is two one-sided tests. `scipy.stats` is not imported: it costs a second, and
`scipy.special` has the distributions that are needed.
"""
