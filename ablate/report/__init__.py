"""What people read: screens, pages, Markdown and JSON of plans, verdicts and runs.

This package takes frozen values and returns things that `rich` can print, or text. It never trains, never opens a store
and judges nothing: `ablate.verdict` does.

    wording.py            numbers and verdicts in words
    document.py           a report as a value: sections, sentences, tables, figures, folds
    terminal_renderer.py  a report on a terminal
    markdown_renderer.py  a report as Markdown
    json_renderer.py      a report as JSON
    answers.py            the answer in sentences, for the terminal
    forecasts.py          what the models of a plan will do before a step, in words
    claims.py             the claims of a space beside its verdicts, and their dates
    effect_columns.py     the columns of every table of comparisons
    effect_tables.py      tables of effects: of edits, of a factorial, its analysis of variance
    verdict_tables.py     verdicts as tables, and as Markdown by themselves
    size_comparisons.py   a ladder in words and in tables: what a treatment saves, size by size
    noise_floor.py        the differences that a plan can detect above the noise
    fairness.py           what was unequal, declared or not
    footnotes.py          what the numbers of the screen mean
    json_form.py          the plan and the verdicts as JSON, for programs
    table_page.py         the page of a table of runs that were trained elsewhere
    comparisons.py        names of comparisons; one made under several terms is named once
    progress.py           what is shown while trials run
    plot.py               a plot as a value, independent of how it is shown
    screens/              what commands show, including the plan and the end of a run
    page/                 the page of a space: the answer and everything behind it, for a browser and as Markdown
    searched/             the results of a search, on the screen and as a page
    html/                 the parts that pages for a browser share
    figures/              the same plots as files for a paper, with numbers, a table and captions
"""
