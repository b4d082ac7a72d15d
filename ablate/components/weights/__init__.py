"""Weights: linear maps from d_in to d_out. Slot `weight`. The folder is the list: each file is one."""
