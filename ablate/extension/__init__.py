"""Extension: how a file adds a thing of some kind (a component, a probe, an optimiser …), and how it is found.

kinds.py        the kinds, and the folder of each: its files are the list of what ships
declaration.py  what a file declares of a thing, and what can be wrong with a declaration
configured.py   things whose settings are a document of their own
head.py         reading a file's declarations without torch, every mistake at its place
put_off.py      the import of such a file, whose part below torch runs when it is first asked for
installed.py    files of other distributions, by their entry points
loader.py       all of them together: those that ship, those of distributions, a user's own

Never: what the fields of a kind mean. Each kind keeps its own protocol, in the room that its things work in.
"""
