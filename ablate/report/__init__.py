"""What the numbers say: statistics, verdicts, tables, and progress while they come in.

This room takes plain values (a plan, what a judge asked for, the final metrics of each trial) and gives back frozen
values or things `rich` can print. It never trains, never opens a store, and never drops a trial: a diverged one is
counted beside every number it is missing from.

    finals.py      how a trial ended and its last metrics, as the store hands them over
    pairing.py     which numbers may be compared: trials matched by seed, and why others are not
    asked.py       what comparisons ask of the data, so that what is asked twice is counted once
    tested.py      what the data say of one question: of two variants, or of a sum (factorials.py: of a factorial)
    corrected.py   what may be claimed of all questions together: Holm, Benjamini and Hochberg
    looked.py      all questions at a number of seeds, and looks at more and more of them
    judgement.py   which judgement of a question it is, at what level, and what stands of earlier ones
    summary.py     the answer as frozen values: metrics, arms, effects, analysis of variance
    unequal.py     what was not equal between variants, whatever was declared
    verdicts.py    `judge`: one effect for each comparison and metric (margins.py, needed.py, fronts.py)
    wording.py     numbers and verdicts in words
    tables.py      the plan, and the screen at the end of a run (answers.py, effect_tables.py, aliases.py, floors.py,
                   declared.py, footnotes.py, to_come.py, all of parts.py)
    json_form.py   the same as JSON
    markdown.py    the same as Markdown
    time_left.py   how long the rest takes, from what was measured
    progress.py    what is shown while trials run
    ended.py       how a run ended when it did not simply finish
    checked.py     what was checked: spaces, grammars, the edits between two blocks
    shown.py       a block: its tree (tree.py), equations, diagram and costs
    listed.py      blocks, presets and components, under the papers they are from
    rows.py        the rows of a query
    page/          the page of a space: the answer and everything behind it, for a browser and as Markdown
    searched/      what a search has found, on the screen and as a page
    html/          what pages for a browser share

The room `statistics` has the numbers; which of them decides is chosen here once. Pairs are seeds (every variant sees
the same batches under one seed). All distinct comparisons on a metric, or on the page, are one family: edits,
interactions, steps from the baseline. Claims of better or worse are corrected by Holm over it, and so are those of
equivalence, which is two one-sided tests. Where seeds are added until all is decided, each look has a level of its own;
so has each judgement of a question that is asked again at other seeds.
A/A comparisons are shown and never judged.
"""
