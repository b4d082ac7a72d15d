"""What people read: screens, pages, Markdown and JSON of plans, verdicts and runs.

This room takes frozen values and gives back things `rich` can print, or text. It never trains, never opens a store and
judges nothing: `ablate.verdict` does.

    wording.py            numbers and verdicts in words
    tables.py             the plan, and the screen at the end of a run
    answers.py            the answer in sentences
    effect_tables.py      tables of effects: of edits, of a factorial, its analysis of variance
    aliases.py            what else is in the estimates of a factorial's effects
    noise_floor.py        what a plan can detect above the noise
    fairness.py           what was not equal, whatever was declared
    footnotes.py          what the numbers of the screen mean
    to_come.py            what follows the trials that a plan lists now
    parts.py              what screens are made of: titles, tables, lists, colours of verdicts
    json_form.py          the same as JSON
    verdict_tables.py     verdicts as tables, and as Markdown by themselves
    document.py           a report as a value: sections, tables, figures, folds
    markdown_renderer.py  a report as Markdown
    table_page.py         the page of a table of runs that were trained elsewhere
    once.py               one comparison under several terms, said once
    time_left.py          how long the rest takes, from what was measured
    progress.py           what is shown while trials run
    plot.py               a plot as a value, whatever shows it
    tree.py               a block as YAML, its defaults dim
    screens/              what small verbs show
    page/                 the page of a space: the answer and everything behind it, for a browser and as Markdown
    searched/             what a search has found, on the screen and as a page
    html/                 what pages for a browser share
    figures/              the same plots as files for a paper, with their numbers, a table and captions
"""
