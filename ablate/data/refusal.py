"""Errors in a corpus, each with the keys of the value of the space that causes it; the space's reader adds the line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ablate.errors import RefusedError
from ablate.source.problems import Problems

Keys = tuple[str | int, ...]
CORPUS: Keys = ("data", "corpus")


@dataclass(frozen=True, slots=True)
class CorpusFault:
    """One error: `at` are the keys down to the value that causes it, `beside` to others that it depends on."""

    message: str
    at: Keys = CORPUS
    label: str = ""
    notes: tuple[str, ...] = ()
    beside: tuple[Keys, ...] = ()


class CorpusError(RefusedError):
    """A corpus that is missing, empty or too small."""

    def __init__(self, faults: Iterable[CorpusFault]):
        self.faults = tuple(faults)
        problems = Problems()
        for fault in self.faults:
            problems.add(fault.message, label=fault.label, notes=fault.notes)
        self.text = problems.text()
        super().__init__(self.text, problems.mistakes())
        self.args = (self.faults,)  # from which unpickling rebuilds it in another process

    def __str__(self) -> str:
        return self.text
