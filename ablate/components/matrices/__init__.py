"""Matrices that multiply the values: softmax attention or a function of it. Slot `matrix`. The folder is the list."""
