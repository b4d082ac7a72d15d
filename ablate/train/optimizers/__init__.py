"""Optimisers, a file each: the equations and settings of one, and below the import of torch what carries it out.

declare.py       how a file declares an optimiser, and the parameters that it is given
by_parameter.py  optimisers written as the update of a single parameter

The folder is the list: a file that declares one is found, and a plugin or a distribution adds its own.
"""
