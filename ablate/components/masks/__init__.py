"""Masks: which keys a query sees, in place of the model's own mask. Slot `mask`. The folder is the list."""
