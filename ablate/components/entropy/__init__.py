"""Entropy: methods that keep the attention logits small. Slot `entropy`. The folder is the list: each file is one."""
