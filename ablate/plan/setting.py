"""How a model and its training differ from the sizes and recipe of the space."""

from __future__ import annotations

from dataclasses import dataclass

from ablate.space.fair import Plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Sizes and steps that fairness requires (None: the space's), tuned values, and the initialisation's salt.

    `tuned` are values of fields of the recipe and of the block, by their names in the space's `fair.tune`: `lr`,
    `recipe.clip`, `attention.scale`. While it is `open`, the fair number of steps is not known yet, and nothing is
    trained under it.
    """

    layers: int | None = None
    width: int | None = None
    steps: int | None = None
    tuned: tuple[tuple[str, Plain], ...] = ()
    salt: int = 0
    open: bool = False

    @property
    def plain(self) -> bool:
        """Return whether all but the tuned values is as in the space."""
        return (self.layers, self.width, self.steps, self.salt, self.open) == (None, None, None, 0, False)


PLAIN = Setting()
