"""A choice among the things of one kind, with its settings: `optimizer: {sgd: {lr: 0.1, …}}`, `sampler: tpe`.

The settings of a corpus stand side by side, and its name is the key of one: `corpus: {hub: NAME, split: train, …}`.
"""

from __future__ import annotations

from collections.abc import Mapping as Map
from dataclasses import dataclass, field
from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from ablate.block.added import untold
from ablate.extension.configured import Configured
from ablate.extension.kinds import Kind
from ablate.source.document import Hints, validate
from ablate.source.located import Located, Mapping, Scalar
from ablate.source.problems import Problems, quote


@dataclass(frozen=True, slots=True)
class Choice:
    """A thing of some kind by its name, with its settings as plain JSON values.

    In a document it is `{name: settings}`, or just the name if it has no settings. The values are plain so that a trial
    can be sent to any machine; `Configured.read` turns them into the document that the thing declares.
    """

    name: str
    settings: Map[str, Any] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        settings = ", ".join(f"{name}: {value}" for name, value in self.settings.items())
        return f"{self.name} ({settings})" if settings else self.name

    def plain(self) -> str | dict[str, Any]:
        """Return the form that a document has."""
        return {self.name: dict(self.settings)} if self.settings else self.name

    @classmethod
    def of(cls, value: object) -> Choice:
        """Read the form that a document has; PydanticCustomError for anything else."""
        if isinstance(value, Choice):
            return value
        if isinstance(value, str):
            return cls(value)
        if isinstance(value, Map) and len(value) == 1:
            ((name, settings),) = value.items()
            if isinstance(settings, Map):
                return cls(str(name), dict(settings))
        raise PydanticCustomError("choice", "expected one name with its settings")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls.of, serialization=core_schema.plain_serializer_function_ser_schema(cls.plain)
        )


class CorpusChoice(Choice):
    """A corpus and its settings, the first of which has the name of the corpus: `{hub: NAME, split: train, …}`."""

    __slots__ = ()

    def plain(self) -> str | dict[str, Any]:
        """Return the form that a document has: the settings side by side, or just the name if there are none."""
        return dict(self.settings) if self.settings else self.name

    @classmethod
    def of(cls, value: object) -> CorpusChoice:
        """Read the form that a document has, the key that names it first; PydanticCustomError for anything else."""
        if isinstance(value, CorpusChoice):
            return value
        if isinstance(value, str):
            return cls(value)
        if isinstance(value, Map) and value:
            return cls(str(next(iter(value))), dict(value))
        raise PydanticCustomError("corpus", "expected the name of a corpus, or a mapping that begins with it")


def read_choice(
    located: Located, kind: Kind, known: Map[str, Configured], where: str, problems: Problems, hints: Hints
) -> Choice | None:
    """Read which of the `known` things `located`, the value at the address `where`, chooses; None after a mistake.

    Each mistake is noted at its place: no name or several, an unknown name, wrong settings.
    """
    body: Located
    if isinstance(located, Scalar) and isinstance(located.value, str):
        name, body, key = located.value, Mapping((), located.span), located
    elif isinstance(located, Mapping) and len(located.entries) == 1:
        ((key, value),) = located.entries
        name, body = str(key.value), value
    else:
        names = ", ".join(key.text for key, _ in located.entries) if isinstance(located, Mapping) else ""
        message = f"{where} must name one {kind.noun}" + (f", not {names}" if names else "")
        listing = (f"one of: {', '.join(known)}",) if len(known) <= 12 else (f"`ablate list {kind.plural}` lists them",)
        problems.add(message, located.span, notes=listing)
        return None
    if name not in known:
        message, command = f"unknown {kind.noun} {quote(key.text)}", f"ablate list {kind.plural}"
        notes: tuple[str, ...] = ()
        if has := [name for name, each in known.items() if key.text in each.settings.model_fields]:
            notes = (f"{key.text} is a setting: {where.rpartition('.')[2]}: {{{has[0]}: {{{key.text}: …}}}}",)
        problems.add_unknown(message, key.span, key.text, known, f"{where} accepts", command=command, notes=notes)
        return None
    if not isinstance(body, Mapping):
        fields = ", ".join(known[name].settings.model_fields) or "it has none"
        problems.add(f"{where}.{name} must be a mapping of its settings", body.span, notes=(f"its settings: {fields}",))
        return None
    settings = validate(known[name].settings, Mapping(body.entries, key.span), problems, f"{where}.{name}", hints)
    return None if settings is None else Choice(name, settings.model_dump(mode="json", exclude=untold(settings)))
