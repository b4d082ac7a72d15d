'''How a corpus declares itself: the names that every file of a corpus starts from.

Such a file declares a class of settings, and implements it by what reads the texts: a class, or a function that gives
a `Source` (see `data/sources.py`), called with the settings and the folder of the space.

    """The poems of a folder, a document in each line."""
    from pathlib import Path
    from ablate.data.corpora.declare import Settings, Text, corpus, implements

    @corpus("poems", source="this work")
    class Poems(Settings):
        """`{poems: verses.txt}`."""

        poems: str

    @implements(Poems)
    class Lines:
        notes = ()

        def __init__(self, settings: Poems, folder: Path):
            self.path = folder / settings.poems
            self.title, self.place = f"poems {settings.poems}", str(self.path)

        def stamp(self):
            return str(self.path.stat().st_mtime_ns)

        def texts(self):
            for number, line in enumerate(self.path.read_text(encoding="utf-8").splitlines()):
                yield Text(f"{number:09d}", line.encode("utf-8"))

The first field of the settings has the name of the corpus, so that `corpus: {poems: verses.txt}` names it; a corpus
without settings is named by its name alone. A field `at_most: Bytes` limits how many bytes of text are read: a space
passes the smaller of it and of what its steps need. `NamedFiles` and `NamedRows` read local files by patterns that do
not leave the folder of the space.

Of a corpus that is no text, the settings have a `layout`, which says what an example is, and the content of each `Text`
is the bytes of one, `record_of(layout, values, target)`; see `data/record_stream.py`.

The stamp is requested at every plan, and texts are read only if it is new. So a library that takes long to import,
such as `datasets`, is imported where a text is read. A corpus is identified by its contents: raise `version` when a
change of the code makes it read other texts though the stamp is the same.
'''

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
