"""Combinators: they join sequences of parts by skips, gains and branches. Parts of a branch are not registered here.

The folder is the list: a file that declares one is found.
"""
