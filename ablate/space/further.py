"""The check that each block of `model.ahead` has its weight in `recipe.loss.ahead`."""

from __future__ import annotations

from ablate.output.words import plural
from ablate.source.problems import Problems
from ablate.space.documents import Model, Recipe
from ablate.space.origin import Origins


def check_ahead(model: Model, recipe: Recipe, origins: Origins, problems: Problems) -> None:
    """Report a number of blocks that predict tokens further ahead which is not that of the weights of these tokens."""
    blocks, weights = model.ahead, len(recipe.loss.ahead)
    if blocks in (0, weights):
        return
    example = ", ".join(str(0.5**further) for further in range(1, min(blocks, 3) + 1)) + ", …" * (blocks > 3)
    message = f"model.ahead is {blocks}, but recipe.loss.ahead has {plural(weights, 'weight') if weights else 'none'}"
    notes = (
        f"each block predicts a token that the loss weighs: set recipe.loss.ahead to {plural(blocks, 'weight')}, such "
        f"as [{example}]",
        f"or set model.ahead to {weights}" if weights else "or leave model.ahead out",
    )
    origins.add(problems, message, ("model", "ahead"), ("recipe", "loss", "ahead"), notes=notes)
