"""A block as YAML: reading it back gives the same block.

Without defaults every field is written. With the catalogue and the defaults of a grammar, fields at their defaults are
left out and the shorthand of a component is used: `residual: [layer_norm, attention]`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction

from ablate.block.arithmetic import Expression, number_text
from ablate.block.catalogue import Catalogue
from ablate.block.expression import Block, Gain, Node, Sequence, Series, Size, Value, ValueAddress
from ablate.block.which_layers import EVERY, WhichLayers

Defaults = Mapping[str, Mapping[str, Value]]
"""For each component, the default values of fields that may be left out."""

PLAIN = re.compile(r"[A-Za-z0-9_.+*/()^-]+(?:%|x)?")
RESERVED = {"none", "null", "true", "false", "~"}


def print_block(block: Block, catalogue: Catalogue | None = None, defaults: Defaults | None = None) -> str:
    """Print a block as one line of YAML in flow style."""
    return "[" + ", ".join(_entry(part, catalogue, defaults or {}) for part in block) + "]"


def print_parts(block: Block) -> str:
    """Print one line of YAML per part, with all fields, so that it reads back the same under any grammar."""
    return "\n".join(f"- {_entry(part, None, {})}" for part in block) or "[]"


def outline(value: Value) -> str:
    """Print the names of the parts as they are nested, without their fields.

    >>> outline(Sequence((Node("residual", (("gain", Gain(Expression("1"))), ("branch", Sequence((Node("mlp"),))))),)))
    '[residual: [mlp]]'
    """
    match value:
        case Node(name=name, fields=fields):
            inside = [text for _, field in fields if not isinstance(field, Node) and (text := outline(field))]
            return f"{name}: {', '.join(inside)}" if inside else name
        case Sequence(parts=parts):
            return f"[{', '.join(map(outline, parts))}]"
        case Series() | tuple() if any(isinstance(child, Sequence) for child in value):
            return f"[{', '.join(map(outline, value))}]"
    return ""


def print_value(value: Value, catalogue: Catalogue | None = None, defaults: Defaults | None = None) -> str:
    """Print any value of a field as YAML in flow style."""
    defaults = defaults or {}
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return _number(value)
        case str():
            return _scalar(value)
        case Expression(text=text):
            return _scalar(text)
        case Gain():
            return _gain(value)
        case Size(units=int() as count):
            return str(count)
        case Size(multiple=Fraction() as fraction):
            return f"{fraction}x"
        case Size(multiple=float() | int() as multiple):
            return f"{number_text(multiple)}x"
        case ValueAddress(text=text):
            return _scalar(text)
        case Node():
            text = _entry(value, catalogue, defaults)
            return text if _is_word(text) else "{" + text + "}"
        case WhichLayers(every=int() as number):
            return f"{{{EVERY}: {number}}}"
        case WhichLayers(text=text):
            return _scalar(text)
        case Sequence():
            return print_block(value, catalogue, defaults)
        case Series():
            return "[" + ", ".join(print_value(child, catalogue, defaults) for child in value) + "]"
        case tuple() if all(isinstance(child, Node) for child in value):
            if not value:
                return "none"
            texts = [print_value(child, catalogue, defaults) for child in value]
            return texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
        case tuple():
            return "[" + ", ".join(print_value(child, catalogue, defaults) for child in value) + "]"
    raise TypeError(f"{type(value).__name__} is not a value of a block")


def _entry(node: Node, catalogue: Catalogue | None, defaults: Defaults) -> str:
    known = defaults.get(node.name, {})
    absent = object()
    shown = [(name, value) for name, value in node.fields if known.get(name, absent) != value]
    if not shown:
        return node.name
    shorthand = catalogue[node.name].shorthand if catalogue is not None else None
    if [name for name, _ in shown] == [shorthand]:
        text = print_value(shown[0][1], catalogue, defaults)
        if not text.startswith("{") or not _looks_like_fields(shown[0][1], node, catalogue):
            return f"{node.name}: {text}"
    fields = ", ".join(f"{name}: {print_value(value, catalogue, defaults)}" for name, value in shown)
    return f"{node.name}: {{{fields}}}"


def _looks_like_fields(value: Value, node: Node, catalogue: Catalogue | None) -> bool:
    """Return whether a mapping as a shorthand's value could be mistaken for the fields of the component."""
    names = {name for name, _ in node.fields}
    return isinstance(value, Gain) or (isinstance(value, Node) and value.name in names)


def _gain(gain: Gain) -> str:
    if not gain.trainable and gain.per == "scalar":
        return _scalar(gain.value.text)
    extra = f", per: {gain.per}" if gain.per != "scalar" else ""
    return f"{{init: {_scalar(gain.value.text)}, trainable: {'true' if gain.trainable else 'false'}{extra}}}"


def _number(value: int | float) -> str:
    return number_text(value)


def _scalar(text: str) -> str:
    safe = PLAIN.fullmatch(text) and text.lower() not in RESERVED and not text.startswith(("*", "-", "+", "."))
    negative = re.fullmatch(r"-[0-9.]+(e[+-]?[0-9]+)?", text)
    return text if safe or negative else f'"{text}"'


def _is_word(text: str) -> bool:
    return re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text) is not None
