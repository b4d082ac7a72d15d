"""Records: the examples of a corpus that is no text, as bytes, one after another in a stream.

    values, as its layout says | 0 if that is an odd number of bytes | frames that are there | targets

Values are in C order, little-endian. Behind them stand 16-bit numbers: of frames, how many of an example there are, the
others being 0; then its class, or its n tokens, each of what is missing 65,535. So records of one layout have one
length, and a stream is the records of a split as 16-bit numbers, two bytes in each: example i begins at i times it.

Statistics of a split are those of each channel, or of each feature over the frames that are there. They are rounded to
six digits, so that the order in which a machine adds does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from ablate.data.sources import SPLITS, CorpusError, CorpusFault, Split, Text
from ablate.data.subwords import SpecialTokens
from ablate.errors import InputError
from ablate.space.data import Layout
from ablate.space.documents import Document

VERSION: Final = 1
"""The version of what is made of a stream of records; it enters the fingerprint of such a corpus."""
MISSING: Final = 65_535  # the number in the place of a missing target
AT_ONCE: Final = 1024  # examples in memory at a time while all of a split are passed through
DTYPES: Final[Mapping[str, np.dtype[Any]]] = {"uint8": np.dtype("<u1"), "float32": np.dtype("<f4")}

Words = npt.NDArray[np.uint16]


def record_of(layout: Layout, values: npt.ArrayLike, targets: Sequence[int] | int) -> bytes:
    """Return an example as the bytes of a record; frames may be fewer than the layout has.

    Raises InputError for another shape, other values or other targets than the layout allows.
    """
    given = np.asarray(values)
    kept = [targets] if isinstance(targets, int) else list(targets)
    filled = _checked(layout, given, kept)
    whole = np.zeros(layout.shape, dtype=DTYPES[layout.dtype])
    whole[tuple(slice(0, n) for n in given.shape)] = given
    content = whole.tobytes()
    numbers = [filled] * (layout.kind == "frames") + kept
    numbers += [MISSING] * (max(layout.targets, 1) - len(kept))
    return content + b"\0" * (len(content) % 2) + np.array(numbers, dtype="<u2").tobytes()


def _checked(layout: Layout, values: npt.NDArray[Any], targets: Sequence[int]) -> int:
    """The number of frames, or of rows of an image."""
    shape, most = layout.shape, max(layout.targets, 1)
    if layout.kind == "frames" and values.ndim == 2 and 0 < len(values) <= shape[0]:
        shape = (len(values), *shape[1:])
    if values.shape != shape or not np.can_cast(values.dtype, layout.dtype, "same_kind"):
        raise InputError(
            f"an example has {values.dtype} of {values.shape}, but its corpus has {layout}\n"
            "  = give values of that shape and type; frames may be fewer"
        )
    if not 1 <= len(targets) <= most or not all(0 <= target < layout.classes for target in targets):
        raise InputError(
            f"an example has the targets {list(targets)}, but its corpus has at most {most}, below {layout.classes:,}\n"
            "  = number classes from 0, or raise `targets` or `classes` of the layout"
        )
    return len(values)


@dataclass(frozen=True, eq=False)
class Records:
    """The examples of a stream, by their position."""

    stream: Words
    layout: Layout

    def __len__(self) -> int:
        return len(self.stream) // words_of(self.layout)

    def values(self, chosen: npt.ArrayLike) -> npt.NDArray[Any]:
        """Values [examples, *shape]."""
        rows = np.ascontiguousarray(self._rows(chosen)).astype("<u2", copy=False)
        size = _bytes_of_values(self.layout)
        flat = rows.view(np.uint8)[:, :size]
        return np.ascontiguousarray(flat).view(DTYPES[self.layout.dtype]).reshape(len(rows), *self.layout.shape)

    def lengths(self, chosen: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """The number of frames of each example."""
        return self._rows(chosen)[:, (_bytes_of_values(self.layout) + 1) // 2].astype(np.int64)

    def targets(self, chosen: npt.ArrayLike, missing: int) -> npt.NDArray[np.int64]:
        """The class of each example, or its tokens [examples, n] with `missing` behind the last."""
        targets = self._rows(chosen)[:, -max(self.layout.targets, 1) :].astype(np.int64)
        targets[targets == MISSING] = missing
        return targets if self.layout.targets else targets[:, 0]

    def parts(self) -> Iterator[npt.NDArray[np.int64]]:
        """Positions of all examples, some at a time."""
        for first in range(0, len(self), AT_ONCE):
            yield np.arange(first, min(first + AT_ONCE, len(self)))

    def _rows(self, chosen: npt.ArrayLike) -> Words:
        words = words_of(self.layout)
        return np.asarray(self.stream[: len(self) * words].reshape(-1, words)[np.asarray(chosen)])


class RecordsReport(Document):
    """The statistics of the training split that a corpus's examples are standardised by."""

    layout: str
    classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @property
    def note(self) -> str:
        means, stds = (_in_words(numbers) for numbers in (self.mean, self.std))
        return f"standardised by the training split: mean {means}; standard deviation {stds}"


def report_on(layout: Layout, train: Words) -> RecordsReport:
    """Count the training split of a corpus; a standard deviation of 0 is told as 1."""
    mean, variance = _moments(Records(train, layout))
    std = np.sqrt(variance)
    return RecordsReport(
        layout=str(layout),
        classes=layout.classes,
        mean=tuple(float(f"{number:.6g}") for number in mean),
        std=tuple(float(f"{number:.6g}") if number > 0 else 1.0 for number in std),
    )


def _moments(records: Records) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Mean and variance of each channel or feature, in two passes."""
    images = records.layout.kind == "images"
    kept = records.layout.shape[0] if images else records.layout.shape[1]

    def rows() -> Iterator[npt.NDArray[np.float64]]:
        for chosen in records.parts():
            values = records.values(chosen).astype(np.float64)
            if images:
                yield np.moveaxis(values, 1, -1).reshape(-1, kept)
            else:
                there = np.arange(records.layout.shape[0]) < records.lengths(chosen)[:, None]
                yield values[there]

    total, count = np.zeros(kept), 0
    for part in rows():
        total, count = total + part.sum(axis=0), count + len(part)
    mean = total / max(count, 1)
    squares = sum((((part - mean) ** 2).sum(axis=0) for part in rows()), np.zeros(kept))
    return mean, squares / max(count, 1)


@dataclass(frozen=True)
class RecordCodec:
    """The stand-in for a tokenizer where examples are no text: a stream is the records themselves."""

    layout: Layout

    @property
    def vocab_size(self) -> int:
        """The number of classes, or of tokens of the targets."""
        return self.layout.classes

    @property
    def used(self) -> int:
        return self.layout.classes

    @property
    def separator(self) -> int:
        """The token that ends a sequence of targets, where they are sequences."""
        return 0

    @property
    def special(self) -> SpecialTokens:
        return SpecialTokens(self.separator)

    def encode(self, texts: Iterable[Text]) -> Words:
        """Records one after another, two bytes in each number."""
        return np.frombuffer(b"".join(text.content for text in texts), dtype="<u2").astype(np.uint16)

    def decode(self, tokens: npt.ArrayLike) -> str:
        """The number of records: they are no text."""
        return f"{np.asarray(tokens).size // words_of(self.layout):,} {self.layout}"

    def token_bytes(self) -> None:
        """None: there is no text to count the bytes of."""

    def to_json(self) -> None:
        """None: nothing was trained."""


def _in_words(numbers: Sequence[float]) -> str:
    if len(numbers) > 4:
        return f"{min(numbers):.4g} to {max(numbers):.4g} of {len(numbers)} features"
    return ", ".join(f"{number:.4g}" for number in numbers)


def words_of(layout: Layout) -> int:
    """The length of a record in a stream."""
    return (_bytes_of_values(layout) + 1) // 2 + (layout.kind == "frames") + max(layout.targets, 1)


def _bytes_of_values(layout: Layout) -> int:
    return prod(layout.shape) * DTYPES[layout.dtype].itemsize


def require_records(layout: Layout, texts: Mapping[Split, tuple[Text, ...]]) -> None:
    """Raise CorpusError if a document of a corpus is no record of its layout."""
    needed = 2 * words_of(layout)
    for split in SPLITS:
        for text in texts[split]:
            if len(text.content) != needed:
                message = f"{text.name} has {len(text.content):,} bytes, but a record of {layout} has {needed:,}"
                raise CorpusError([CorpusFault(message, notes=("make records by record_of of this layout",))])


# Examples that are drawn by their numbers and not read: the same on every machine, and as many as are asked for.


@dataclass(frozen=True)
class DrawnExamples:
    """The examples of numbers below `examples`, each drawn by `draw`: its values, and its class or its tokens.

    `place` is the name of the corpus, and `noun` that of its examples.
    """

    place: str
    noun: str
    examples: int
    layout: Layout
    draw: Callable[[int], tuple[npt.NDArray[Any], Sequence[int] | int]]
    notes: ClassVar[tuple[str, ...]] = ()

    @property
    def title(self) -> str:
        return f"{self.examples:,} drawn {self.noun}"

    def stamp(self) -> str | None:
        return f"{self.examples}"

    def texts(self) -> Iterator[Text]:
        for number in range(self.examples):
            yield Text(f"{number:09d}", record_of(self.layout, *self.draw(number)))
