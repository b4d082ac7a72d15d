"""Positions that act on queries and keys, not on embeddings. Slot `position`. The folder is the list."""
