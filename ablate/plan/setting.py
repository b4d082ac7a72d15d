"""What of a model and its training is not as the space has it for every block."""

from __future__ import annotations

from dataclasses import dataclass

from ablate.space.fair import Plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Sizes and steps that fairness asks for (None: the space's), what tuning chose, and the initialisation's salt.

    `tuned` are values of fields of the recipe and of the block, by the name that the space's `fair.tune` has for them:
    `lr`, `recipe.clip`, `attention.scale`. While it is `open`, how many steps are fair is not known yet: nothing is
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
        """Whether all is as the space has it, but for what tuning chose."""
        return (self.layers, self.width, self.steps, self.salt, self.open) == (None, None, None, 0, False)


PLAIN = Setting()
