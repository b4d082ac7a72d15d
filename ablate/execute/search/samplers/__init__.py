"""Samplers of a search, a file each; `declare.py` says how such a file is written."""
