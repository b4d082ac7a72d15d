"""Activations: the nonlinearities of an MLP, one a file. Slot `activation`; never with parameters."""
