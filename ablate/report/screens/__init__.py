"""The screens of the commands.

block.py      a block: its tree, equations, diagram and costs
catalogue.py  blocks, presets and components, under the papers they are from
check.py      what was checked: spaces, grammars, the edits between two blocks
doctor.py     damage in a results folder; the checks of a bundle or a folder; this machine
forecast.py   a model before a single step: a block by layers, a space by variants
plan.py       the variants of a plan, what is to run, and what it can detect
query.py      the rows of a query
result.py     the end of a run: the answer, the numbers, what they mean
status.py     what runs, what waits, what has ended; a run that did not simply finish
"""
