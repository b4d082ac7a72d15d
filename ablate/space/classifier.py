"""The check that a model of images or of features fits its data, that no other has what only such a model has, and
that nothing is set of which such a model computes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ablate.block.architecture import Architecture
from ablate.block.arithmetic import Expression, parse
from ablate.block.catalogue import Catalogue
from ablate.block.classifier import BLOCK, CLASSIFIERS, MLP, faults
from ablate.block.expression import Sequence, walk
from ablate.block.user_code import SHIPPED
from ablate.source.located import Scalar
from ablate.source.problems import Problems
from ablate.space.origin import Keys, Origins
from ablate.space.space import Space

COUNTS_HEADS: Final = frozenset({"heads", "head_width"})
"""The sizes that depend on model.heads."""
MEAN: Final = "mean"
STD: Final = ("model", "embedding", "std")


def check_classifier(space: Space, origins: Origins, problems: Problems) -> None:
    """Report what does not fit the kind of a space's model, where it is written; what its blocks have, a plan tells."""
    whole = [space.architecture(block, vocab_size=1) for block in space.blocks.values()]
    for architecture in whole[:1]:
        for fault in faults(architecture, space.grammar.catalogue):
            if fault.field != BLOCK:
                paths = (("model", fault.field), ("model", "kind"))
                origins.add(problems, fault.message, *paths, notes=(fault.way_out,))
    if space.model.kind in CLASSIFIERS:
        for path, message, way_out in _without_effect(space, whole):
            origins.add(problems, message, path, ("model", "kind"), notes=(way_out,))


def _without_effect(space: Space, whole: list[Architecture]) -> Iterator[tuple[Keys, str, str]]:
    """Yield what is set and computes nothing: a treatment by it would compare a model with itself."""
    model, catalogue = space.model, space.grammar.catalogue
    if model.kind == MLP and model.heads != 1 and not any(_counts_heads(each, catalogue) for each in whole):
        message = f"model.heads is {model.heads}, but a model of kind {MLP} has one token, and no attention"
        yield ("model", "heads"), message, "set it to 1"
    plain = _plain_std(space)
    if plain is None or model.embedding.std == plain or not (model.kind == MLP or model.pooling == MEAN):
        return
    what = MLP if model.kind == MLP else f"{model.kind} with pooling: {model.pooling}"
    message = (
        f"model.embedding.std is {model.embedding.std.text}, but a model of kind {what} has nothing that starts at it"
    )
    yield STD, message, f"set it to {plain.text}; what reads the input starts as model.init says"


def _plain_std(space: Space) -> Expression | None:
    """Return the standard deviation of an embedding that the grammar gives a space; None if it gives none."""
    if space.grammar.space is None:
        return None
    written = Origins(space.grammar.space, space.grammar.path).written(*STD)
    return (
        parse(written.value) if isinstance(written, Scalar) and isinstance(written.value, int | float | str) else None
    )


def _counts_heads(architecture: Architecture, catalogue: Catalogue) -> bool:
    """Return whether anything but attention may depend on model.heads: arithmetic, an init, a component of a user."""
    nodes = list(walk(Sequence((*architecture.block, *architecture.around()))))
    by_head = any(("per_head", True) in node.fields for node in nodes)
    foreign = any(not catalogue[node.name].path.is_relative_to(SHIPPED) for node in nodes)
    return by_head or foreign or not COUNTS_HEADS.isdisjoint(architecture.names())
