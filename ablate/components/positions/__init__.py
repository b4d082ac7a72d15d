"""Positions that act on queries and keys. Slot `position`; those added to embeddings belong to the model.

The folder is the list: a file that declares one is found.
"""
