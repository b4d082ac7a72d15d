"""Which trials share a GPU: a ledger of the memory reserved for each.

Nothing here touches a GPU. Bytes of one GPU are reserved for a trial before it begins, and its process is limited to
them (see `Task.memory`), so a trial that turns out to need more fails itself and not its neighbour.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ablate.errors import InputError

CONTEXT = 2**29
"""Bytes that a process takes on every GPU that it has ever used, beyond its tensors."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU of this machine, by its number, with `memory` bytes to give away."""

    number: int
    memory: int


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of a trial: the GPU, and the trial's share of its memory, above 0 and at most 1."""

    gpu: int
    share: float


@dataclass(slots=True)
class _Books:
    """One GPU and the bytes reserved on it, by trial."""

    gpu: Gpu
    promised: dict[str, int] = field(default_factory=dict)

    @property
    def left(self) -> int:
        return self.gpu.memory - sum(self.promised.values())


class Ledger:
    """Reservations of up to `most` trials on each of `gpus`, never more than fit into its memory.

    Each trial gets what it needs, and at least 1/`most` of the GPU, since that much would otherwise be unused. A trial
    goes to the GPU with the fewest trials, since they share its time as well; among those, to the one with the least
    memory left over (best fit). A trial that needs more than the largest GPU has gets that GPU to itself, since its
    need is only predicted.
    """

    def __init__(self, gpus: Iterable[Gpu], *, most: int):
        self._books = {gpu.number: _Books(gpu) for gpu in gpus}
        self._most = most
        if most < 1:
            raise InputError(f"{most} trials on a GPU\n  = give at least one")
        if not self._books or any(books.gpu.memory < most for books in self._books.values()):
            raise ValueError("a ledger needs GPUs with memory")
        self._largest = max(books.gpu.memory for books in self._books.values())

    @property
    def slots(self) -> int:
        """The number of trials that fit at once."""
        return self._most * len(self._books)

    def reserve(self, trial_id: str, needed: int | None) -> Slot | None:
        """Reserve a place for a trial that needs `needed` bytes (None: a GPU to itself); None if it has to wait."""
        if any(trial_id in books.promised for books in self._books.values()):
            raise ValueError(f"trial {trial_id} has a place already")
        wanted = self._largest if needed is None else min(needed, self._largest)
        fitting = [(books, amount) for books in self._books.values() if (amount := self._amount(books, wanted))]
        if not fitting:
            return None
        books, amount = min(fitting, key=lambda fit: (len(fit[0].promised), fit[0].left - fit[1], fit[0].gpu.number))
        books.promised[trial_id] = amount
        return Slot(books.gpu.number, amount / books.gpu.memory)

    def release(self, trial_id: str) -> None:
        """Release the memory reserved for a trial; KeyError if there is none."""
        for books in self._books.values():
            if trial_id in books.promised:
                del books.promised[trial_id]
                return
        raise KeyError(trial_id)

    def _amount(self, books: _Books, wanted: int) -> int:
        """Return the bytes that a trial would get on this GPU; 0 if it does not fit now."""
        amount = max(wanted, books.gpu.memory // self._most)
        return amount if amount <= books.left else 0
