"""What people read: screens, pages, Markdown and JSON of plans, verdicts and runs.

This room takes frozen values and gives back things `rich` can print, or text. It never trains, never opens a store and
judges nothing: `ablate.verdict` does.

    wording.py       numbers and verdicts in words
    document.py      a report as a value: sections, sentences, tables, figures, folds
    terminal_renderer.py, html/renderer.py, markdown_renderer.py, json_renderer.py
                     show a document, whatever it is of
    answers.py       the answer in sentences, for the terminal
    effect_columns.py  the columns of every table of comparisons
    effect_tables.py the tables of edits, of interactions and of the analysis of variance
    noise_floor.py, fairness.py, footnotes.py, to_come.py
                     what stands beside them, in lines
    json_form.py     the plan and the verdicts as JSON
    verdict_tables.py  verdicts as tables, and as Markdown by themselves
    comparisons.py   what a comparison is called; under several terms it is said once
    time_left.py     how long the rest takes, from what was measured
    progress.py      what is shown while trials run
    plot.py          a plot as a value, whatever shows it
    tree.py          a block as YAML, its defaults dim
    screens/         what verbs show, the plan and the end of a run among them
    page/            the page of a space: the answer and everything behind it, for a browser and as Markdown
    searched/        what a search has found, on the screen and as a page
    html/            what pages for a browser share
    figures/         the same plots as files for a paper, with their numbers, a table and captions
"""
