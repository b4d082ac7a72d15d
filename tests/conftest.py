"""Stands here so that every test can import `builders` (expressions without a grammar) and `worlds` (tiny spaces)."""
