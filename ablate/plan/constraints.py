"""What is said of constraints that a space lets through with a warning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ablate.plan.plan import Variant
from ablate.space.space import Space


def constraint_notes(variants: Sequence[Variant], space: Space) -> Iterator[str]:
    """Each constraint that is broken, with its reason and who breaks it; then those that nobody here breaks."""
    broken: dict[tuple[str, str], list[str]] = {}
    for variant in variants:
        for constraint in variant.breaks:
            broken.setdefault(constraint, []).append(variant.name)
    for (name, because), blocks in broken.items():
        who = ", ".join(dict.fromkeys(blocks))
        yield f"warning: {name} is broken by {who}, and let through by this space: {because}"
    for name in sorted(space.warned - {name for name, _ in broken}):
        yield f"constraints: {{{name}: warn}} lets nothing through: no block here breaks {name}"
