"""Patterns over layers of which an alternative is used in no layer of a model: what is written would have no effect."""

from __future__ import annotations

from collections.abc import Iterator

from ablate.block.address import address_at, name_parts
from ablate.block.catalogue import Catalogue, InSlot, Several
from ablate.block.expression import Block, Node, Path
from ablate.block.layers import alternatives, has_patterns, paths_chosen
from ablate.block.printer import print_value
from ablate.block.sizes import Sizes
from ablate.errors import InputError


def check_patterns(block: Block, sizes: Sizes, catalogue: Catalogue) -> None:
    """Raise InputError for each pattern of which some alternative is in no layer, at the depth of these sizes.

    A pattern inside another counts in the layers of the model, and is checked over those in which it stands.
    """
    if not has_patterns(block, catalogue):
        return
    used: dict[Path, tuple[Node, dict[int, Path]]] = {}
    for layer in range(1, sizes.n_layers + 1):
        for path, node, way in paths_chosen(block, catalogue, sizes.scope(layer)):
            used.setdefault(path, (node, {}))[1][layer] = way
    unused = [
        text for path, (node, ways) in used.items() for text in _unused(path, node, ways, block, sizes, catalogue)
    ]
    if unused:
        raise InputError(
            "\n".join(unused)
            + "\n  = choose other layers, write the alternative that is used alone, or change the number of layers"
        )


def _unused(
    path: Path, node: Node, ways: dict[int, Path], block: Block, sizes: Sizes, catalogue: Catalogue
) -> Iterator[str]:
    """Yield a line for each alternative of a pattern that none of its layers uses."""
    spec = catalogue[node.name]
    names = dict(reversed(name_parts(block, catalogue)))
    own = [name for name, kind in spec.fields.items() if not isinstance(kind, InSlot | Several)]
    settings = "".join(f" ({name}: {print_value(node[name])})" for name in own)
    stands = "" if len(ways) == sizes.n_layers else f" in which it stands ({', '.join(map(str, ways))})"
    for way, _ in alternatives(node, spec):
        if way not in ways.values():
            field, *index = way
            alternative = f"item {int(index[0]) + 1}" if index else f"`{field}`"
            where = address_at(path, names) or "the block"
            none = f"of the model's {sizes.n_layers} layers none{stands} has"
            yield f"{where}: {none} {alternative} of {node.name}{settings}"
