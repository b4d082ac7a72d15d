"""Fixtures of the data room. They live in a module of a name of its own, from which tests import what is beside them."""

from data_library import cache, library

__all__ = ["cache", "library"]
