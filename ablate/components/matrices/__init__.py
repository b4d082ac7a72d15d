"""Matrices: what multiplies the values: softmax attention, or what is made of it. Slot `matrix`.

The folder is the list: a file that declares one is found.
"""
