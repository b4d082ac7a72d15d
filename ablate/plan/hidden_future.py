"""Whether a block hides later tokens, as it must to be trained on predicting them.

A component declares that it `leaks` if it shows a query later tokens in a causal model. Of a list of masks a query sees
what all of them show.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ablate.block.catalogue import Catalogue, FieldType, Part, Several, in_slot
from ablate.block.expression import Block, Node, Sequence, Series, Value
from ablate.errors import InputError

MASK: Final = "mask"
"""The slot of which a list shows what all of it shows."""


def check_hides_the_future(block: Block, catalogue: Catalogue) -> None:
    """Raise InputError for a block that shows a query later tokens: it has nothing to learn from predicting them."""
    if (name := next(leaking(block, catalogue), None)) is not None:
        raise InputError(
            f"{name} shows later tokens, but training predicts each next token: the model would see what it predicts\n"
            "  = replace it, as by mask: causal; such blocks can be shown and counted: ablate show BLOCK --space FILE"
        )


def leaking(block: Block, catalogue: Catalogue) -> Iterator[str]:
    """Yield the components that show later tokens; of a list of masks, all of which must show a key, only if all do."""
    return (name for part in block for name in _leaking(part, None, catalogue))


def _leaking(value: Value, kind: FieldType | None, catalogue: Catalogue) -> list[str]:
    """Return those in a value of a field of that kind."""
    match value:
        case Node(name=name, fields=fields):
            spec = catalogue[name]
            kinds = spec.fields if kind is None else {field: in_slot(each, kind) for field, each in spec.fields.items()}
            inside = [each for field, child in fields for each in _leaking(child, kinds[field], catalogue)]
            return [name, *inside] if getattr(spec.config, "leaks", False) else inside
        case Series():
            assert isinstance(kind, Several)
            return [each for child in value for each in _leaking(child, kind.of, catalogue)]
        case Sequence() | tuple():
            found = [_leaking(child, None, catalogue) for child in value]
            together = isinstance(kind, Part) and kind.slot == MASK
            return [] if together and not all(found) else [each for names in found for each in names]
    return []
