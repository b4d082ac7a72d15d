"""Positions: positions that act on queries and keys. Slot `position`; those added to embeddings belong to the model."""
