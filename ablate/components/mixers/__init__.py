"""Mixers: the principal parts of a block: what mixes tokens and what mixes channels.

The folder is the list: a file that declares one is found.
"""
