"""What people read: screens, pages, Markdown and JSON of plans, verdicts and runs.

This room takes frozen values and gives back things `rich` can print, or text. It never trains, never opens a store and
judges nothing: `ablate.verdict` does.

    wording.py            numbers and verdicts in words
    document.py           a report as a value: sections, sentences, tables, figures, folds
    terminal_renderer.py  a report on a terminal
    markdown_renderer.py  a report as Markdown
    json_renderer.py      a report as JSON
    answers.py            the answer in sentences, for the terminal
    effect_columns.py     the columns of every table of comparisons
    effect_tables.py      tables of effects: of edits, of a factorial, its analysis of variance
    verdict_tables.py     verdicts as tables, and as Markdown by themselves
    noise_floor.py        what a plan can detect above the noise
    fairness.py           what was not equal, whatever was declared
    footnotes.py          what the numbers of the screen mean
    to_come.py            what follows the trials that a plan lists now
    json_form.py          the plan and the verdicts as JSON, for programs
    table_page.py         the page of a table of runs that were trained elsewhere
    comparisons.py        what a comparison is called; under several terms it is named once
    time_left.py          how long the rest takes, from what was measured
    progress.py           what is shown while trials run
    plot.py               a plot as a value, whatever shows it
    tree.py               a block as YAML, its defaults dim
    screens/              what verbs show, the plan and the end of a run among them
    page/                 the page of a space: the answer and everything behind it, for a browser and as Markdown
    searched/             what a search has found, on the screen and as a page
    html/                 what pages for a browser share
    figures/              the same plots as files for a paper, with their numbers, a table and captions
"""
