"""Biases: terms added to the scores that depend on distance. Slot `bias`. The folder is the list: each file is one."""
