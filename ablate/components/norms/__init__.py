"""Norms: normalisations over the last axis, for tokens and for heads. Slots `part` and `norm`.

D is the width of the token, or of a head for a norm on queries and keys. The folder is the list: each file is one.
"""
