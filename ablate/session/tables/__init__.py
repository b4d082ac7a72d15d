"""Verdicts on tables of runs that were trained elsewhere.

judging.py    a table, judged as a space is
experiment.py the experiment that a table is read as
kept.py       judged tables in a results folder, with an account of their judgements
question.py   what is asked of it: which columns name runs and are judged, and how
trackers.py   runs of MLflow and Optuna as tables
shapes.py     names of runs taken apart; runs beside, and metrics below one another
cells.py      cells as names, seeds and numbers
states.py     which runs diverged or have not finished
steps.py      the steps of runs, and which of them is judged
runs.py       rows as runs, with their final numbers
checks.py     whether the table has what is asked of it
strata.py     strata such as games, each on its own scale
noise.py      the noise that single runs are judged by
groups.py     which variants are not told apart, and which may be the best
"""
