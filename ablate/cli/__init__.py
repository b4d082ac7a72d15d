"""The command line: verbs of a few lines each. What a verb does is in `api.py`; what it shows, in `report/`.

app.py             the verbs in the order of `--help`, and how errors are handled
verb.py            what all verbs share: a full line in `--help`, mistakes as JSON
options.py         arguments and options that several verbs share
executor_flags.py  the options of where and how trials run, for every verb that trains
naming.py          spaces and grammars by name: which file is meant, what a shell completes
completion.py      completion in bash, zsh and fish
console.py         where things are printed
starting.py        init: a space to start from
queries.py          check, plan, machine, sql, show, diff, list: nothing is trained or changed
forecasting.py     forecast: a block or a space before a single step
training.py        run, resume, retry
reporting.py       report
judging.py         judge: runs that were trained elsewhere
evidence.py        bundle, load, verify: results that travel
maintenance.py     status, doctor, mlflow, ui: the results folder
manual.py          docs: the pages in ablate/docs/
"""

from ablate.cli.app import app, main

__all__ = ["app", "main"]
