"""The command line: verbs of a few lines each. What a verb does is in `api.py`; what it shows, in `report/`.

app.py        the verbs in the order of `--help`, and how errors are handled; init, docs, completion
options.py    arguments and options that several verbs share, with help in full; spaces and grammars by name
console.py    where things are printed
queries.py    check, plan, machine, sql, show, diff, list: nothing is trained or changed
training.py   run, resume, retry
reporting.py  report, and forecast: a block or a space before a single step
judging.py    judge: runs that were trained elsewhere
results.py    status, doctor, mlflow, ui: the results folder; bundle, load, verify: results that travel
"""

from ablate.cli.app import app, main

__all__ = ["app", "main"]
