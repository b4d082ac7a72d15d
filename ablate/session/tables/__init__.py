"""Verdicts on tables of runs that were trained elsewhere.

judging.py    a table, judged as a space is
experiment.py the experiment that a table is read as
kept.py       judged tables in a results folder, with an account of their judgements
question.py   what is asked of it: which columns name runs and are judged, and how
shapes.py     names of runs taken apart; runs beside, and metrics below one another
cells.py      cells as names, seeds and numbers
states.py     which runs diverged or have not finished
steps.py      the steps of runs, and which of them is judged
runs.py       rows as runs, with their final numbers
strata.py     strata such as games, each on its own scale
"""
