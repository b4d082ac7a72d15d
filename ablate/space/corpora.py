"""Corpora as a space knows them: their declarations, what `data.corpus` says of one, and settings that several have."""

from __future__ import annotations

from collections.abc import Mapping as Map
from dataclasses import dataclass
from typing import Annotated, ClassVar

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
    """`4 GiB` as a number of bytes; anything else as it is."""
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
"""Glob patterns relative to the space's folder, which they do not leave, or absolute."""


class Settings(Document):
    """What a space says of a corpus. The first field has the corpus's own name; one without fields is a word alone.

    Of a corpus with a field `at_most`, that many bytes of text are read at most, and no more than the steps ask for
    (see `streamed.py`); where it is null all of it is.
    """

    @property
    def patterns(self) -> tuple[str, ...]:
        """The glob patterns of its local files; none where it has none."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CorpusSpec(Configured):
    """A corpus; `data.corpus` names one, by its name alone or by a mapping with a key of that name."""

    kind: ClassVar[Kind] = CORPUS


def read_corpus_choice(
    located: Located, key: Span, known: Map[str, CorpusSpec], where: str, problems: Problems, hints: Hints
) -> CorpusChoice | None:
    """What `located`, the value at the address `where` and behind `key`, says of a corpus; None where it is a mistake.

    Every mistake is noted at its place: no corpus or several, an unknown one, and what is wrong with its settings.
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
        problems.add(f"{where} names one corpus, not {', '.join(named)}", located.key(named[-1]).span, notes=way)
        return None
    spec = known[named[0]] if named else _meant(located, known)
    if spec is None:
        message = f"{where}: no key names a corpus, got {shown(located)}"
        problems.add(message, located.span, notes=(*listed("", tuple(known), accepts, COMMAND), *way))
        return None
    if not spec.settings.model_fields:
        problems.add(
            f"corpus {spec.name} has no settings", located.span, label=f"write the word alone: corpus: {spec.name}"
        )
        return None
    settings = validate(spec.settings, Mapping(located.entries, key), problems, where, hints)
    return None if settings is None else CorpusChoice(spec.name, settings.model_dump(mode="json"))


def _meant(located: Mapping, known: Map[str, CorpusSpec]) -> CorpusSpec | None:
    """The corpus with most of these keys, or keys like them; None where several have as many, or none has any."""
    scores = {name: _shared(located, tuple(fields(spec.settings))) for name, spec in known.items()}
    most = max(scores.values(), default=0)
    best = [name for name, score in scores.items() if score == most > 0]
    return known[best[0]] if len(best) == 1 else None


def _shared(located: Mapping, accepted: tuple[str, ...]) -> float:
    return sum(1.0 if key in accepted else 0.5 if nearest(key, accepted) else 0.0 for key in located)
