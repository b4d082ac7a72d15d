"""Weights: linear maps from d_in to d_out. Slot `weight`."""
