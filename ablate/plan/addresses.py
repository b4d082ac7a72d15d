"""What addresses keep apart: a component of one's own that stands in another's place under an address of its own.

Two models of one seed share the numbers of each address that both have. A mixer that replaces attention without
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
    """For each such component, where it stands in what is compared, and what would pair it."""
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
            f"{name} is at an address of its own in {', '.join(names)}, where {baseline.name} has {role}: what is in "
            f"it, and the norms and residuals named after it, share no starting numbers with those of {role}, and "
            f'probes name other addresses; to pair them, say role="{role}" in its @component, in {catalogue[name].path}'
        )


def _principals(block: Block, catalogue: Catalogue) -> dict[str, ComponentSpec]:
    """Each part of a block that gives others their addresses, the first of its role."""
    specs = [catalogue[node.name] for _, node in parts_of(block, catalogue)]
    return {spec.role: spec for spec in reversed(specs) if not spec.modifier}
