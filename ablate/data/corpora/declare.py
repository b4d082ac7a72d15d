"""How a corpus declares itself: the names that every file of a corpus starts from.

Such a file declares a class of settings, and implements it by a class or function that gives a `TextSource`
(`data/sources.py`), called with the settings and the folder of the space; `ablate docs corpus` shows one, and says what
stamps, versions, limits and layouts mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel

from ablate.data.sources import CORPUS, CorpusError, CorpusFault, NamedFiles, NamedRows, Skipped, Text, TextSource
from ablate.extension.declaration import DeclarationFault, declare_settings, implements
from ablate.space.data import Bytes, CorpusSpec, Layout, Patterns
from ablate.space.data import CorpusSettings as Settings

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = [
    "CORPUS",
    "Bytes",
    "CorpusError",
    "CorpusFault",
    "Layout",
    "NamedFiles",
    "NamedRows",
    "Patterns",
    "Settings",
    "Skipped",
    "Text",
    "TextSource",
    "corpus",
    "implements",
    "record_of",
]

S = TypeVar("S", bound=Settings)


def record_of(layout: Layout, values: npt.ArrayLike, targets: Sequence[int] | int) -> bytes:
    """Return an example as the bytes of a record; frames may be fewer than the layout has.

    Raises InputError for another shape, other values or other targets than the layout allows.
    """
    from ablate.data import record_stream  # with NumPy, which a declaration does without

    return record_stream.record_of(layout, values, targets)


def corpus(name: str, *, source: str = "", version: int = 1) -> Callable[[type[S]], type[S]]:
    """Declare a corpus by its settings; the first line of its file is what `ablate list corpora` shows.

    Raises DeclarationError for a class that cannot be its settings, with everything that is wrong with it.
    """
    faults = partial(_faults, name)
    return declare_settings(CorpusSpec, name, source=source, version=version, defaults=True, faults=faults)


def _faults(name: str, settings: type[BaseModel]) -> Iterator[DeclarationFault]:
    if not issubclass(settings, Settings):
        way = "derive it from Settings of ablate.data.corpora.declare"
        yield DeclarationFault("the settings of a corpus derive from Settings", "class", (way,))
    first = next(iter(settings.model_fields), name)
    if first != name:
        way = f"declare {name} first: corpus: {{{name}: …}} is how a space names it"
        yield DeclarationFault(f"the first setting of corpus {name!r} must have its name, not {first!r}", first, (way,))
    elif settings.model_fields and not settings.model_fields[name].is_required():
        yield DeclarationFault(
            f"setting {name!r} names the corpus, so it cannot have a default", name, ("remove its default",)
        )
