"""Mixers: the principal parts of a block, which mix tokens or channels.

The folder is the list: a file that declares one is found.
"""
