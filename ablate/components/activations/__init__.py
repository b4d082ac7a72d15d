"""Activations: the nonlinearities of an MLP, one per file. Slot `activation`.

They act elementwise, on any shape, and have no parameters. What they share is in `elementwise.py` and `solved.py`, one
folder up. The folder is the list: a file that declares one is found.
"""
