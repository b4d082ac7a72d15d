"""Patterns over layers: what stands in a slot for its alternatives, one of them in each layer. They fit every slot.

The folder is the list: a file that declares one is found.
"""
