"""Matrices, which multiply the values: softmax attention, or made of it. Slot `matrix`. The folder is the list."""
