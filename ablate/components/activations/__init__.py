"""Activations: the nonlinearities of an MLP, one per file. Slot `activation`; never with parameters.

The folder is the list: a file that declares one is found.
"""
