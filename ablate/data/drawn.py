"""Examples that are drawn by their numbers and not read: the same on every machine, and as many as are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy.typing as npt

from ablate.data.record_stream import record_of
from ablate.data.text import Text
from ablate.space.corpora import Layout


@dataclass(frozen=True)
class DrawnExamples:
    """The examples of numbers below `examples`, each drawn by `draw`: its values, and its class or its tokens.

    `place` is the name of the corpus, and `noun` what its examples are called.
    """

    place: str
    noun: str
    examples: int
    layout: Layout
    draw: Callable[[int], tuple[npt.NDArray[Any], Sequence[int] | int]]
    notes: ClassVar[tuple[str, ...]] = ()

    @property
    def title(self) -> str:
        """How many there are."""
        return f"{self.examples:,} drawn {self.noun}"

    def stamp(self) -> str | None:
        """Return a stamp that never changes for that many."""
        return f"{self.examples}"

    def texts(self) -> Iterator[Text]:
        """Yield the record of each, named by its number."""
        for number in range(self.examples):
            yield Text(f"{number:09d}", record_of(self.layout, *self.draw(number)))
