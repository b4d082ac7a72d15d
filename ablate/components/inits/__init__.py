"""Inits: how a weight is filled, by no random numbers but the generator's. Slot `init`. The folder is the list."""
