"""Masks: which keys a query sees, in place of the model's own causal mask or full attention. Slot `mask`.

The folder is the list: a file that declares one is found.
"""
