"""The check that a model of images or of features fits its data, and that no other has what only such a model has."""

from __future__ import annotations

from ablate.block.classifier import BLOCK, faults
from ablate.source.problems import Problems
from ablate.space.origin import Origins
from ablate.space.space import Space


def check_classifier(space: Space, origins: Origins, problems: Problems) -> None:
    """Report what does not fit the kind of a space's model, where it is written; what its blocks have, a plan tells."""
    for block in list(space.blocks.values())[:1]:
        for fault in faults(space.architecture(block, vocab_size=1), space.grammar.catalogue):
            if fault.field != BLOCK:
                paths = (("model", fault.field), ("model", "kind"))
                origins.add(problems, fault.message, *paths, notes=(fault.way_out,))
