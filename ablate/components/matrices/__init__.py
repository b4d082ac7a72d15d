"""Matrices: what multiplies the values: softmax attention, or a function of it. Slot `matrix`.

The folder is the list: a file that declares one is found.
"""
