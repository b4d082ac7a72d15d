"""Cross-attention in a block: what reads the encoder, and the block of the encoder's own layers, which is without it.

Both stacks of an encoder-decoder repeat one block. A layer of the decoder is the block whole. A layer of the encoder is
the block without the sub-layers that read `encoder`: parts at its top, each with the norms that serve it, as the names
of parts tell them (`address.py`): those directly before an attention that stands there itself, and those behind the
part before the next one (the norm of a Post-LN).
"""

from __future__ import annotations

from collections.abc import Iterator

from ablate.block.address import parts_of
from ablate.block.architecture import Architecture
from ablate.block.catalogue import Catalogue
from ablate.block.expression import Block, Node, Path, Sequence, ValueAddress, walk
from ablate.block.layers import at_layer
from ablate.block.sizes import Sizes
from ablate.block.value_addresses import ENCODER
from ablate.errors import InputError

OF_SOURCE = frozenset({"key", "value"})
"""The fields of what reads the encoder that are computed from it."""


def reads_encoder(block: Block) -> bool:
    """Return whether anything in a block, or in an alternative of a pattern, reads the encoder."""
    return any(_reads(node) for node in walk(block))


def check_reads_encoder(architecture: Architecture) -> None:
    """Raise InputError for a block whose decoder would not read the encoder, or for no length of the source."""
    architecture.of_encoder()
    if not reads_encoder(architecture.block):
        raise InputError(
            f"model.kind is encoder_decoder, but no part of the block reads {ENCODER}\n"
            "  = add a sub-layer such as residual: [layer_norm, attention: {source: encoder}], or set kind: decoder"
        )


def of_source(block: Block, catalogue: Catalogue) -> Iterator[Path]:
    """Yield the paths of what has the length of the source: the keys and values of what reads the encoder."""
    for path, node in parts_of(block, catalogue):
        if _reads(node):
            yield from ((*path, name) for name, _ in node.fields if name in OF_SOURCE)


def encoder_block(block: Block, sizes: Sizes, catalogue: Catalogue) -> Block:
    """Return the block of an encoder's layer, that of `sizes`, without patterns.

    Raises InputError if a part that is left out computes something else too, or if nothing is left.
    """
    block = at_layer(block, catalogue, sizes.scope(sizes.layer or 1))
    if not reads_encoder(block):
        return block
    principals = [_principals(node, catalogue) for node in block]
    left_out: list[bool] = []
    for place, node in enumerate(block):
        if not principals[place]:
            left_out.append(_serves(place, principals, block, left_out, catalogue))
            continue
        left_out.append(any(_reads(inside) for inside in principals[place]))
        if others := [each.name for each in principals[place] if left_out[-1] and not _reads(each)]:
            raise InputError(
                f"the encoder's layers are the block without what reads {ENCODER}, but the {node.name} around it "
                f"contains {others[0]} too\n  = give what reads {ENCODER} a part of its own, such as a residual"
            )
    kept = tuple(node for node, without in zip(block, left_out, strict=True) if not without)
    if not any(_principals(node, catalogue) for node in kept):
        raise InputError(
            f"the encoder's layers are the block without what reads {ENCODER}, and nothing is left of it\n"
            "  = add a sub-layer that reads its input, such as residual: [layer_norm, attention]"
        )
    return Sequence(kept)


def _reads(node: Node) -> bool:
    return any(value == ValueAddress(ENCODER) for _, value in node.fields)


def _principals(node: Node, catalogue: Catalogue) -> list[Node]:
    """Return what is no modifier of a part and of what is inside it: attention, MLPs."""
    return [part for _, part in parts_of(Sequence((node,)), catalogue) if not catalogue[part.name].modifier]


def _serves(place: int, principals: list[list[Node]], block: Block, left_out: list[bool], catalogue: Catalogue) -> bool:
    """Return whether a modifier at the top serves a part that is left out."""
    following = next((other for other in range(place + 1, len(block)) if principals[other]), None)
    before = next((other for other in range(place - 1, -1, -1) if principals[other]), None)
    alone = following is not None and not catalogue[block.parts[following].name].modifier
    if following is not None and (alone or before is None):
        return any(_reads(inside) for inside in principals[following])
    return before is not None and left_out[before]
