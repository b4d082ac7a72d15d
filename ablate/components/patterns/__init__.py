"""Patterns over layers, for every slot: its alternatives, one of them in each layer. The folder is the list."""
