"""Extensions whose settings are a document of their own: optimisers, schedules, samplers, corpora."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from ablate.extension.declaration import Declaration, DeclarationError, DeclarationFault, common_faults, place_of
from ablate.extension.kinds import Kind

S = TypeVar("S", bound=BaseModel)

ADDED: Final = "added"
"""Marks the fields of a dataclass or a pydantic model that its identity leaves out at their default."""


def is_added(info: Any) -> bool:
    """Return whether a field of a pydantic model came later: `Field(json_schema_extra={"added": …})`."""
    return ADDED in (info.json_schema_extra or {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured(Declaration):
    """A declaration with `settings`: the class in its file by which its settings in a space are read."""

    settings: type[BaseModel]

    def read(self, values: Any) -> Any:
        """Read the settings from plain `values`, as a Choice keeps them."""
        return self.settings.model_validate(values)


def declare_settings(
    spec: type[Configured],
    name: str,
    *,
    source: str,
    version: int,
    needs: tuple[str, ...] = (),
    defaults: bool = False,
    faults: Callable[[type[BaseModel]], Iterable[DeclarationFault]] = lambda settings: (),
    **more: Any,
) -> Callable[[type[S]], type[S]]:
    """Return the decorator of a settings class, which declares it as a `spec`; `more` are the other fields of `spec`.

    The class must have the fields in `needs`, and none with a default unless `defaults` are allowed; `faults` yields
    what else is wrong with it. Raises DeclarationError with all faults.
    """

    def declare(cls: type[S]) -> type[S]:
        kind = spec.kind
        wrong = [*common_faults(kind, name, source, version), *_settings_faults(kind, cls, needs, defaults)]
        wrong += faults(cls) if not wrong else ()
        if wrong:
            raise DeclarationError(cls.__qualname__, tuple(wrong))
        declared = spec(name=name, source=source, version=version, settings=cls, **place_of(cls), **more)
        cls.spec = declared  # type: ignore[attr-defined]
        return cls

    return declare


def _settings_faults(kind: Kind, cls: type, needs: tuple[str, ...], defaults: bool) -> Iterator[DeclarationFault]:
    """Yield what is wrong with a settings class: its fields must be exactly what YAML can set, but for added ones."""
    way = "derive the class from the Settings of its declare.py, which is frozen, strict and forbids other keys"
    if not (isinstance(cls, type) and issubclass(cls, BaseModel)):
        yield DeclarationFault(f"{kind.a_noun} must be declared on the class of its settings", "class", (way,))
        return
    if cls.model_config.get("extra") != "forbid" or not cls.model_config.get("frozen"):
        yield DeclarationFault(f"the settings of {kind.a_noun} must be frozen and forbid other keys", "class", (way,))
    for name, field in cls.model_fields.items():
        if not field.is_required() and not defaults and not is_added(field):
            way = "leave it out: what a space omits comes from `space:` of its grammar, where it can be read"
            yield DeclarationFault(f"field {name!r} has a default", name, (way,))
    for name in needs:
        if name not in cls.model_fields:
            yield DeclarationFault(f"{kind.a_noun} must have a field {name!r}", "class", (f"declare {name} in it",))
