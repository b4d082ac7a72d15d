"""Combinators: what joins sequences of parts, by skips, gains and branches. No part of a branch is registered here.

The folder is the list: a file that declares one is found.
"""
