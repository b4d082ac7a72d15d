"""The types of pydantic documents, followed along with located values, and descriptions of what a type accepts."""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, Field
from pydantic.fields import FieldInfo

from ablate.source.located import Items, Located, Mapping, Scalar
from ablate.source.problems import shorten


@dataclass(frozen=True, slots=True)
class Place:
    """The place of an error: the type wanted there (None: unknown), the value there, its key, and its dotted name."""

    wanted: Any
    value: Located
    key: Scalar | None
    name: str
    strict: bool | None = None

    def child(self, step: int | str) -> Place | None:
        """Return the place one step down; None if the document has nothing there or its type no such field."""
        if isinstance(self.value, Items) and isinstance(step, int) and step < len(self.value):
            name = f"item {step + 1} of {self.name}" if self.name else f"item {step + 1}"
            return Place(_item_type(self.wanted, step), self.value.items[step], None, name, self.strict)
        if not isinstance(self.value, Mapping) or step not in self.value:
            return None
        inner: Any = None
        wanted, strict = bare(self.wanted), self.strict
        if is_model(wanted):
            strict = wanted.model_config.get("strict")
            if (field := fields(wanted).get(str(step))) is None:
                return None
            inner = annotated(field)
        elif get_origin(wanted) is dict:
            inner = get_args(wanted)[1]
        word = shorten(str(step))
        name = f"{self.name}.{word}" if self.name else word
        return Place(inner, self.value[step], self.value.key(step), name, strict)


def bare(wanted: Any) -> Any:
    """Return a type without its metadata, and without None if only one other type is left."""
    while get_origin(wanted) is Annotated:
        wanted = get_args(wanted)[0]
    if is_union(wanted):
        others = [arm for arm in get_args(wanted) if arm is not type(None)]
        return bare(others[0]) if len(others) == 1 else wanted
    return wanted


def metadata(wanted: Any) -> tuple[Any, ...]:
    return get_args(wanted)[1:] if get_origin(wanted) is Annotated else ()


def arms(wanted: Any) -> tuple[Any, ...]:
    """Return the members of a union, None last; of any other type, the type itself."""
    while get_origin(wanted) is Annotated:
        wanted = get_args(wanted)[0]
    return tuple(sorted(get_args(wanted), key=lambda arm: arm is type(None))) if is_union(wanted) else (wanted,)


def annotated(field: FieldInfo) -> Any:
    """Return a field's type as it was written, with what pydantic keeps apart: constraints, validators, description."""
    extra = [*field.metadata, *([Field(description=field.description)] if field.description else [])]
    return Annotated[field.annotation, *extra] if extra else field.annotation


def is_union(wanted: Any) -> bool:
    return get_origin(wanted) in (Union, types.UnionType)


def is_model(wanted: Any) -> bool:
    return isinstance(wanted, type) and issubclass(wanted, BaseModel)


def fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields of a document by the key they are written with."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def choices(wanted: Any) -> tuple[Any, ...]:
    return tuple(word for arm in arms(wanted) if get_origin(bare(arm)) is Literal for word in get_args(bare(arm)))


def described(wanted: Any) -> str:
    """Describe what a type accepts; a `Field(description=…)` in it takes precedence.

    >>> described(int | None), described(Literal["linear", "cosine"]), described(tuple[float, float])
    ('a whole number or null', 'one of linear, cosine', 'a list of 2 numbers')
    """
    if description := _description(wanted):
        return description
    options = [_described_arm(arm) for arm in arms(wanted)]
    return options[0] if len(options) == 1 else f"{', '.join(options[:-1])} or {options[-1]}"


_WORDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false", type(None): "null"}
_PLURALS = {int: "whole numbers", float: "numbers", str: "texts"}


def _description(wanted: Any) -> str:
    described = (extra.description for extra in metadata(wanted) if isinstance(extra, FieldInfo))
    return next(filter(None, described), "")


def _pattern(wanted: Any) -> str:
    extras = [part for extra in metadata(wanted) for part in (extra, *getattr(extra, "metadata", ()))]
    return next(filter(None, (getattr(extra, "pattern", None) for extra in extras)), "")


def _described_arm(arm: Any) -> str:
    if description := _description(arm):
        return description
    if pattern := _pattern(arm):
        return f"text that matches {pattern}"
    arm = bare(arm)
    origin, inner = get_origin(arm), get_args(arm)
    if is_model(arm):
        keys = tuple(fields(arm))
        return f"a mapping with {'key' if len(keys) == 1 else 'keys'} {', '.join(keys)}"
    if origin is Literal:
        words = [str(word) for word in inner]
        return words[0] if len(words) == 1 else f"one of {', '.join(words)}"
    if origin in (tuple, list):
        kinds = {bare(kind) for kind in inner if kind is not Ellipsis}
        several = _PLURALS.get(kinds.pop(), "values") if len(kinds) == 1 else "values"
        return f"a list of {several}" if origin is list or Ellipsis in inner else f"a list of {len(inner)} {several}"
    if origin is dict or arm is dict:
        return "a mapping"
    return _WORDS.get(arm, "another value")


def _item_type(wanted: Any, index: int) -> Any:
    wanted = bare(wanted)
    inner = get_args(wanted)
    if get_origin(wanted) is list or (get_origin(wanted) is tuple and Ellipsis in inner):
        return inner[0]
    return inner[index] if get_origin(wanted) is tuple and index < len(inner) else None
