"""Norms: normalisations over the last axis, for tokens and for heads. Slots `part` and `norm`.

The folder is the list: a file that declares one is found.
"""
