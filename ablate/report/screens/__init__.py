"""The screens of the commands, a file for each.

block.py        a block: its tree, equations, diagram and costs
catalogue.py    blocks, presets and components, under the papers they are from
check.py        what was checked: spaces, grammars, the edits between two blocks
doctor.py       damage in a results folder
forecast.py     a model before a single step: a block by layers, a space by variants
interrupted.py  how a run ended when it did not simply finish
machine.py      this machine and what it can run
plan.py         the variants of a plan, what is to run, and what it can detect
query.py        the rows of a query
result.py       the end of a run: the answer, the numbers, what they mean
status.py       what runs, what waits, what has ended
verified.py     what was checked of a bundle or a folder, and what came of it
"""
