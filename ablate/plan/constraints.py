"""Notes on constraints that a space tolerates with a warning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ablate.plan.plan import Variant
from ablate.space.space import Space


def constraint_notes(variants: Sequence[Variant], space: Space) -> Iterator[str]:
    """Describe each broken constraint, its reason and the blocks that break it; then those that no block breaks."""
    broken: dict[tuple[str, str], list[str]] = {}
    for variant in variants:
        for constraint in variant.breaks:
            broken.setdefault(constraint, []).append(variant.name)
    for (name, because), blocks in broken.items():
        who = ", ".join(dict.fromkeys(blocks))
        yield f"warning: {name} is broken by {who}, which this space tolerates: {because}"
    for name in sorted(space.warned - {name for name, _ in broken}):
        yield f"constraints: {{{name}: warn}} has no effect: no block here breaks {name}"
