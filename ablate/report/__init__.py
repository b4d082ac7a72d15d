"""Screens, pages, Markdown and JSON of plans, verdicts and runs.

This package takes frozen values and returns things that `rich` can print, or text. It never trains, never opens a store
and judges nothing: `ablate.verdict` does.

    wording.py            numbers and verdicts in words
    document.py           a report as a value: sections, sentences, tables, figures, folds
    plot.py               a plot as a value, and as SVG
    terminal_renderer.py  a report on a terminal
    markdown_renderer.py  a report as Markdown
    html_renderer.py      a report as a page for a browser
    json_form.py          reports, plans and verdicts as JSON
    answers.py            the answer in sentences, for the terminal
    forecasts.py          the models of a plan before a step, in words
    claims.py             the claims of a space beside its verdicts, and their dates
    comparisons.py        names of comparisons, savings over the sizes of a ladder, unequal quantities
    effect_tables.py      tables of comparisons, and their columns
    footnotes.py          the meaning of the numbers of the screen
    progress.py           the display while trials run
    screens/              the screens of commands, including the plan and the end of a run
    page/                 the page of a space: the answer and everything behind it, for a browser and as Markdown
    searched/             the results of a search, on the screen and as a page
    figures/              the same plots as files for a paper, with numbers, a table and captions
"""
