"""Inits: how a weight is filled. Slot `init`; no modules, no parameters, no random numbers but the generator's.

The folder is the list: a file that declares one is found.
"""
