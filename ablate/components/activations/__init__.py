"""Activations: nonlinearities of an MLP, elementwise, without parameters. Slot `activation`. The folder is the list."""
