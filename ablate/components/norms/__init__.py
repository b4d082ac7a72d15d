"""Norms: normalisations over the last axis, for tokens and for heads. Slots `part` and `norm`.

The folder is the list: a file that declares one is found. D is the width of the token, or of a head for a norm on
queries and keys.
"""
