"""Extension: how a file adds a component, probe, optimiser or the like, and how such files are found.

declaration.py  the kinds, what a file declares of them, with or without settings, and what can be wrong with it
head.py         a file's declarations, read without torch, every mistake at its place; the rest runs when first needed
loader.py       all of them together: those that ship, those of distributions by their entry points, a user's own

This room does not know what the fields of a kind mean: each kind has its own protocol, in the room that uses it.
"""
