"""Biases: what is added to the scores by distance. Slot `bias`.

The folder is the list: a file that declares one is found.
"""
