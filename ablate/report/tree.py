"""A block as YAML with every field of every part, in which the grammar's defaults are dimmed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ablate.block.expression import Block, Node, Sequence, Series, Value
from ablate.block.printer import Defaults, print_value
from ablate.output.terminal import Text

DIM = "dim"


def tree(block: Block, defaults: Defaults) -> Text:
    """Return the block as lines of YAML: reading them back gives the same block."""
    lines = list(_sequence(block, 0, defaults)) or [Text("[]")]
    joined = Text("\n").join(lines)
    joined.no_wrap, joined.overflow = True, "ignore"  # a wrapped line would not read back
    return joined


def _sequence(parts: Sequence, indent: int, defaults: Defaults) -> Iterator[Text]:
    for node in parts:
        head = Text(" " * indent + "- ")
        if not node.fields:
            yield head.append(node.name)
            continue
        yield head.append(f"{node.name}:")
        for name, value in node.fields:
            yield from _field(name, value, indent + 4, defaults.get(node.name, {}), defaults)


def _field(name: str, value: Value, indent: int, known: Mapping[str, Value], defaults: Defaults) -> Iterator[Text]:
    start = Text(" " * indent)
    given = name in known and known[name] == value
    if isinstance(value, Sequence) and len(value):
        yield start.append(f"{name}:")
        yield from _sequence(value, indent, defaults)
    elif isinstance(value, Series | tuple) and any(isinstance(child, Sequence) for child in value):
        yield start.append(f"{name}:")
        for branch in value:
            assert isinstance(branch, Sequence)
            if not len(branch):
                yield Text(" " * indent + "- []")
                continue
            yield Text(" " * indent + "-")
            yield from _sequence(branch, indent + 2, defaults)
    else:
        yield start + _flow_field(name, value, given, defaults)


def _flow_field(name: str, value: Value, given: bool, defaults: Defaults) -> Text:
    """Return `name: value` on one line, dimmed if it equals the default."""
    text = Text(f"{name}: ") + _flow(value, defaults)
    if given:
        return Text(text.plain, style=DIM)
    return text


def _flow(value: Value, defaults: Defaults) -> Text:
    match value:
        case Node(fields=fields) if fields:
            known = defaults.get(value.name, {})
            inside = (_flow_field(n, v, n in known and known[n] == v, defaults) for n, v in fields)
            return Text.assemble("{", f"{value.name}: {{", Text(", ").join(inside), "}}")
        case Node(name=name):
            return Text(name)
        case Series():
            return Text.assemble("[", Text(", ").join(_flow(child, defaults) for child in value), "]")
        case (only,) if isinstance(only, Node):
            return _flow(only, defaults)
        case tuple() if value and all(isinstance(child, Node) for child in value):
            return Text.assemble("[", Text(", ").join(_flow(child, defaults) for child in value), "]")
    return Text(print_value(value))
