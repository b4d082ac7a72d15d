"""Matrices: what multiplies the values: softmax attention, or what is made of it. Slot `matrix`."""
