"""Samplers of a search, one per file.

    declare.py  how a file declares a sampler

The folder is the list: a file that declares one is found, and a plugin or a distribution adds its own.
"""
