"""Unpaired addresses: a user's component that replaces another under a different address.

Two models of one seed share the initial values of each address that both have. A mixer that replaces attention without
`role="attention"` is at another address, and so are the norm and the residual named after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ablate.block.address import parts_of
from ablate.block.catalogue import Catalogue, ComponentSpec
from ablate.block.expression import Block
from ablate.plan.plan import Variant

SHIPPED = Path(__file__).parent.parent


def pairing_notes(variants: Sequence[Variant], baseline: Variant, catalogue: Catalogue) -> Iterator[str]:
    """Describe, for each such component, the variants that have it, and how to pair it."""
    known = _principals(baseline.block, catalogue)
    told: dict[tuple[str, str], list[str]] = {}
    for variant in variants:
        here = _principals(variant.block, catalogue)
        gone = [role for role in known if role not in here]
        for role, spec in here.items():
            if gone and role not in known and role == spec.name and not spec.path.is_relative_to(SHIPPED):
                told.setdefault((spec.name, gone[0]), []).append(variant.name)
    for (name, role), names in told.items():
        yield (
            f"{name} has an address of its own in {', '.join(names)}, where {baseline.name} has {role}: its parts, and "
            f"the norms and residuals named after it, share no initial values with those of {role}, and probes report "
            f'different addresses; to pair them, set role="{role}" in its @component, in {catalogue[name].path}'
        )


def _principals(block: Block, catalogue: Catalogue) -> dict[str, ComponentSpec]:
    """Return the parts of a block that give others their addresses, the first of each role."""
    specs = [catalogue[node.name] for _, node in parts_of(block, catalogue)]
    return {spec.role: spec for spec in reversed(specs) if not spec.modifier}
