"""Extension: how a file adds a component, probe, optimiser or the like, and how such files are found.

kinds.py        the kinds, and the folder of each: its files are the list of what ships
declaration.py  what a file declares, and what can be wrong with a declaration
configured.py   extensions whose settings are a document of their own
head.py         a file's declarations, read without torch, every mistake at its place
put_off.py      the lazy import of such a file, whose part below torch runs when it is first needed
installed.py    files of other distributions, by their entry points
loader.py       all of them together: those that ship, those of distributions, a user's own

This room does not know what the fields of a kind mean: each kind has its own protocol, in the room that uses it.
"""
