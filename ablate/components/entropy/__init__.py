"""Entropy: methods that keep the attention logits small, acting on queries and keys or on the logits. Slot `entropy`.

The folder is the list: a file that declares one is found.
"""
