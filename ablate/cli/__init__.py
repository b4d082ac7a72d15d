"""The command line: verbs of a few lines each. What a verb does stands in `api.py`; what it shows, in `report/`.

app.py       the verbs in the order of `--help`, and what becomes of an error
options.py   what several verbs take
console.py   where things are printed
asking.py    check, plan, sql, show, diff, list: nothing is trained or changed
training.py  run, resume
keeping.py   status, doctor, ui: the folder of results
"""

from ablate.cli.app import app, main

__all__ = ["app", "main"]
