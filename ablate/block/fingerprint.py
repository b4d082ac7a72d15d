"""The canonical text of a value, which is equal exactly for equal values, and its hash."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from fractions import Fraction
from typing import Any

from ablate.block.added import told, untold, without_added
from ablate.block.arithmetic import Expression
from ablate.block.catalogue import Catalogue
from ablate.block.expression import Block, Gain, Node, Sequence, Size, ValueAddress
from ablate.block.normal_form import normalise

DIGITS = 12


def fingerprint(block: Block, catalogue: Catalogue) -> str:
    """Return the first 12 hex digits of the SHA-256 of the block's normal form."""
    return digest(without_added(normalise(block, catalogue), catalogue))


def digest(value: Any, digits: int = DIGITS) -> str:
    """Return the first hex digits of the SHA-256 of `canonical(value)`, keys sorted."""
    text = json.dumps(canonical(value), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


def canonical(value: Any) -> Any:
    """Return plain JSON data for an expression, frozen dataclass or document; equal numbers give equal text."""
    match value:
        case None | bool() | str():
            return value
        case int() | float():
            return int(value) if float(value).is_integer() and abs(value) < 2**53 else float(value)
        case Expression(text=text):
            return {"arithmetic": text}
        case Gain():
            return {"gain": value.value.text, "trainable": value.trainable, "per": value.per}
        case Size():
            written = str(value.multiple) if isinstance(value.multiple, Fraction) else canonical(value.multiple)
            return {"multiple": written, "units": value.units}
        case ValueAddress(text=text):
            return {"source": text}
        case Node():
            return {"component": value.name, **{name: canonical(child) for name, child in value.fields}}
        case Sequence() | tuple() | list():
            return [canonical(child) for child in value]
        case dict():
            return {str(key): canonical(child) for key, child in value.items()}
    if dataclasses.is_dataclass(value):
        return {name: canonical(getattr(value, name)) for name in told(value)}
    if hasattr(value, "model_dump"):
        return canonical(value.model_dump(mode="python", exclude=untold(value)))
    raise TypeError(f"{type(value).__name__} has no canonical form")
