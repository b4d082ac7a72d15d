"""Tensors of a forward pass that a module keeps for a loss of its own: handed out once, and in no copy of it."""

from __future__ import annotations

from typing import Any


class Kept:
    """Holds tensors of the last forward pass until they are taken.

    A copy or a pickle is empty, since a tensor with a graph can be neither copied nor pickled.
    """

    def __init__(self) -> None:
        self._held: dict[str, Any] = {}

    def keep(self, **tensors: Any) -> None:
        """Replace those of an earlier pass."""
        self._held = tensors

    def take(self) -> dict[str, Any]:
        """Return the tensors, and hold them no longer; empty if nothing was kept since."""
        taken, self._held = self._held, {}
        return taken

    def __reduce__(self) -> tuple[type[Kept], tuple[()]]:
        return Kept, ()
