"""Optimisers, one per file: the equations and settings, and below the import of torch the implementation.

declare.py       how a file declares an optimiser, and the parameters that it is given
by_parameter.py  optimisers written as the update of a single parameter

The folder is the list: a file that declares one is found, and a plugin or a distribution adds its own.
"""
