"""Patterns: one of several alternatives stands in a slot, layer by layer, in any slot. The folder is the list."""
