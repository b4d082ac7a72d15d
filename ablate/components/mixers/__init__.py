"""Mixers: the principal parts of a block: what mixes tokens and what mixes channels."""
