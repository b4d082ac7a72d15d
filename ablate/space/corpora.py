"""Declarations of corpora, the reading of `data.corpus`, and settings that several corpora share."""

from __future__ import annotations

from collections.abc import Mapping as Map
from dataclasses import dataclass
from math import prod
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from ablate.extension.configured import Configured
from ablate.extension.kinds import CORPUS, Kind
from ablate.source.annotations import described, fields
from ablate.source.document import Hints, shown, validate
from ablate.source.located import Located, Mapping, Scalar, Span
from ablate.source.problems import Problems, listed, nearest, quote
from ablate.space.choice import CorpusChoice
from ablate.space.documents import Document, as_tuple
from ablate.space.paths import checked_pattern

UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
COMMAND = "ablate list corpora"


def _bytes(value: object) -> object:
    """Convert `4 GiB` to a number of bytes; return anything else as it is."""
    if not isinstance(value, str):
        return value
    number, unit = value.strip()[:-3].strip(), value.strip()[-3:]
    try:
        return int(float(number) * UNITS[unit])
    except (KeyError, ValueError, OverflowError):
        return value


Bytes = Annotated[int, BeforeValidator(_bytes), Field(ge=1, description="a number of bytes, or a size such as 4 GiB")]
Patterns = Annotated[
    tuple[Annotated[str, AfterValidator(checked_pattern)], ...], BeforeValidator(as_tuple), Field(min_length=1)
]
"""Glob patterns, absolute or relative to the space's folder, which they must not leave."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What an example of a corpus is that is no text: values of a `shape` and a `dtype`, and what they are labelled by.

    `shape` is (channels, height, width) of images, or (times, features) of frames, of which an example has at most that
    many. `targets` is 0 for one class of each example, or n for a sequence of at most n tokens; `classes` is how many
    classes, or tokens, there are.
    """

    shape: tuple[int, ...]
    dtype: Literal["uint8", "float32"]
    targets: int
    classes: int

    @property
    def bytes(self) -> int:
        """How many bytes the values of an example take."""
        return prod(self.shape) * {"uint8": 1, "float32": 4}[self.dtype]

    @property
    def kind(self) -> Literal["images", "frames"]:
        """What the examples are."""
        return "images" if len(self.shape) == 3 else "frames"

    def __str__(self) -> str:
        """Return it in words: `images of 3 x 32 x 32 (uint8)`."""
        return f"{self.kind} of {' x '.join(map(str, self.shape))} ({self.dtype})"


class Settings(Document):
    """The settings of a corpus. The first field has the name of the corpus; a corpus without fields is just its name.

    Of a corpus with a field `at_most`, at most that many bytes of text are read, and no more than the steps need (see
    `streamed.py`); if it is null, all of it is read.
    """

    @property
    def patterns(self) -> tuple[str, ...]:
        """The glob patterns of its local files, if it has any."""
        return ()

    @property
    def pairs(self) -> bool:
        """Whether its texts are pairs: a source and then its target, both in one folder (see `data/pair_stream.py`)."""
        return False

    @property
    def layout(self) -> Layout | None:
        """What its examples are if they are no text: each is then a record (see `data/record_stream.py`)."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CorpusSpec(Configured):
    """A corpus; `data.corpus` names one, by its name alone or by a mapping with a key of that name."""

    kind: ClassVar[Kind] = CORPUS

    def layout(self, settings: Map[str, Any]) -> Layout | None:
        """Return what the examples of the corpus with these settings are; None if they are text."""
        read: Settings = self.read(settings)
        return read.layout


def read_corpus_choice(
    located: Located, key: Span, known: Map[str, CorpusSpec], where: str, problems: Problems, hints: Hints
) -> CorpusChoice | None:
    """Read the corpus that `located`, the value at the address `where` and of `key`, names; None after a mistake.

    Each mistake is noted at its place: no corpus or several, an unknown one, wrong settings.
    """
    accepts, way = f"{where} accepts", hints.way(where)
    if isinstance(located, Scalar) and isinstance(located.value, str):
        spec = known.get(located.value)
        if spec is None:
            message = f"unknown corpus {quote(located.text)}"
            problems.add_unknown(message, located.span, located.text, known, accepts, command=COMMAND, notes=way)
        elif spec.settings.model_fields:
            problems.add(f"{where}: expected {described(spec.settings)}, got {shown(located)}", located.span, notes=way)
        else:
            return CorpusChoice(spec.name)
        return None
    if not isinstance(located, Mapping):
        message = f"{where}: expected the name of a corpus, or a mapping with it as a key, got {shown(located)}"
        problems.add(message, located.span, notes=(*listed(shown(located), tuple(known), accepts, COMMAND), *way))
        return None
    named = [name for name in known if name in located]
    if len(named) > 1:
        problems.add(f"{where} must name one corpus, not {', '.join(named)}", located.key(named[-1]).span, notes=way)
        return None
    spec = known[named[0]] if named else _meant(located, known)
    if spec is None:
        message = f"{where}: no key names a corpus, got {shown(located)}"
        problems.add(message, located.span, notes=(*listed("", tuple(known), accepts, COMMAND), *way))
        return None
    if not spec.settings.model_fields:
        problems.add(
            f"corpus {spec.name} has no settings", located.span, label=f"write just its name: corpus: {spec.name}"
        )
        return None
    settings = validate(spec.settings, Mapping(located.entries, key), problems, where, hints)
    return None if settings is None else CorpusChoice(spec.name, settings.model_dump(mode="json"))


def _meant(located: Mapping, known: Map[str, CorpusSpec]) -> CorpusSpec | None:
    """Return the corpus that shares most of these keys, or keys like them; None if there is no single best one."""
    scores = {name: _shared(located, tuple(fields(spec.settings))) for name, spec in known.items()}
    most = max(scores.values(), default=0)
    best = [name for name, score in scores.items() if score == most > 0]
    return known[best[0]] if len(best) == 1 else None


def _shared(located: Mapping, accepted: tuple[str, ...]) -> float:
    return sum(1.0 if key in accepted else 0.5 if nearest(key, accepted) else 0.0 for key in located)
