"""Fixtures of the data room, kept in a module of a name of its own so that tests can import what is beside them."""

from data_library import cache, library

__all__ = ["cache", "library"]
