"""Regularisers: they disturb a signal in training only.

The folder is the list: a file that declares one is found.
"""
