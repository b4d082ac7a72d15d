"""Regularisers: what disturbs a signal in training and is not there in evaluation.

The folder is the list: a file that declares one is found.
"""
