"""How a model and its training differ from the sizes and recipe of the space."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ablate.space.fair import Plain
from ablate.space.variants import Changes


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Sizes and steps that fairness requires (None: the space's), tuned values, and the initialisation's salt.

    `tuned` are values of fields of the recipe and of the block, by their names in the space's `fair.tune`: `lr`,
    `recipe.clip`, `attention.scale`. `changes` are those of a treatment, by their addresses in the space. While it is
    `open`, the fair number of steps is not known yet, and nothing is trained under it.
    """

    layers: int | None = None
    width: int | None = None
    steps: int | None = None
    tuned: tuple[tuple[str, Plain], ...] = ()
    salt: int = 0
    open: bool = False
    changes: Changes = ()

    @property
    def plain(self) -> bool:
        """Return whether all but the tuned values is as in the space."""
        return replace(self, tuned=()) == PLAIN


PLAIN = Setting()
