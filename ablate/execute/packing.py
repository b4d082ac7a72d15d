"""Which trials share a GPU: a ledger of the memory that each has been promised.

Nothing here touches a GPU. A trial is promised bytes of one GPU before it begins, and its process is held to them (see
`Task.memory`), so a trial that turns out to want more fails itself and not its neighbour.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ablate.errors import InputError

CONTEXT = 2**29
"""Bytes that a process takes of every GPU that it has ever used, beyond its tensors."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU of this machine, by its number, with `memory` bytes to give away."""

    number: int
    memory: int


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of a trial: the GPU, and the share of its memory that is the trial's, above 0 and at most 1."""

    gpu: int
    share: float


@dataclass(slots=True)
class _Books:
    """One GPU and what of it is promised, by trial."""

    gpu: Gpu
    promised: dict[str, int] = field(default_factory=dict)

    @property
    def left(self) -> int:
        return self.gpu.memory - sum(self.promised.values())


class Ledger:
    """Up to `most` trials on each of `gpus`, never more than fit by their memory.

    Each gets what it needs, and at least its part of `most`: so much of a GPU costs nobody anything. A trial goes where
    the fewest are, since they share the GPU's time as well; among those, where the least memory is left over (best
    fit). One that needs more than the largest GPU has gets that GPU for itself: what it needs is only predicted.
    """

    def __init__(self, gpus: Iterable[Gpu], *, most: int):
        self._books = {gpu.number: _Books(gpu) for gpu in gpus}
        self._most = most
        if most < 1:
            raise InputError(f"{most} trials on a GPU\n  = at least one")
        if not self._books or any(books.gpu.memory < most for books in self._books.values()):
            raise ValueError("a ledger needs GPUs with memory")
        self._largest = max(books.gpu.memory for books in self._books.values())

    @property
    def slots(self) -> int:
        """How many trials there can be at once."""
        return self._most * len(self._books)

    def reserve(self, trial_id: str, needed: int | None) -> Slot | None:
        """A place for a trial that needs so many bytes (None: a GPU for itself); None where it has to wait."""
        if any(trial_id in books.promised for books in self._books.values()):
            raise ValueError(f"trial {trial_id} has a place already")
        wanted = self._largest if needed is None else min(needed, self._largest)
        fitting = [(books, amount) for books in self._books.values() if (amount := self._amount(books, wanted))]
        if not fitting:
            return None
        books, amount = min(fitting, key=lambda one: (len(one[0].promised), one[0].left - one[1], one[0].gpu.number))
        books.promised[trial_id] = amount
        return Slot(books.gpu.number, amount / books.gpu.memory)

    def release(self, trial_id: str) -> None:
        """Give back what a trial was promised; KeyError if that was nothing."""
        for books in self._books.values():
            if trial_id in books.promised:
                del books.promised[trial_id]
                return
        raise KeyError(trial_id)

    def _amount(self, books: _Books, wanted: int) -> int:
        """The bytes that a trial would get on this GPU; 0 where it does not fit now."""
        amount = max(wanted, books.gpu.memory // self._most)
        return amount if amount <= books.left else 0
