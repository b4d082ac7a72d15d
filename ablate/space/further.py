"""The check that each block of `model.ahead` has its weight in `recipe.loss.ahead`."""

from __future__ import annotations

from ablate.output.words import plural
from ablate.source.problems import Problems
from ablate.space.documents import Model, Recipe
from ablate.space.origin import Origins


def check_ahead(model: Model, recipe: Recipe, origins: Origins, problems: Problems) -> None:
    """Report a number of blocks that predict tokens further ahead which is not that of the weights of these tokens."""
    blocks, weights = model.ahead, recipe.loss.ahead
    if blocks == 0:
        return
    notes: tuple[str, ...]
    if blocks == len(weights):
        if all(weights):
            return
        message = f"model.ahead is {blocks}, but recipe.loss.ahead has a weight of 0: no loss would train that block"
        notes = ("give each block a weight above 0, or leave out the last of both",)
    else:
        example = ", ".join(str(0.5**further) for further in range(1, min(blocks, 3) + 1)) + ", …" * (blocks > 3)
        has = plural(len(weights), "weight") if weights else "none"
        message = f"model.ahead is {blocks}, but recipe.loss.ahead has {has}"
        notes = (
            "each block predicts a token that the loss weighs: set recipe.loss.ahead to "
            f"{plural(blocks, 'weight')}, such as [{example}]",
            f"or set model.ahead to {len(weights)}" if weights else "or leave model.ahead out",
        )
    origins.add(problems, message, ("model", "ahead"), ("recipe", "loss", "ahead"), notes=notes)
