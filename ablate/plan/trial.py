"""A trial: everything that decides the numbers of one training run, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ablate.block.architecture import Architecture
from ablate.space.documents import Data, Measure, Recipe

HeldOut: TypeAlias = Literal["tuning", "verdict"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One training run. Executing it needs no other input.

    `id` is the hash of what decides its numbers, and `conditions` that of what it shares with trials of other blocks
    and seeds trained under the same conditions (see `plan/identity.py`).
    `seed` decides batches, evaluation windows and initialisation, `salt` the initialisation alone. `threads` is pinned
    on CPU.
    `corpus` is the fingerprint of the token streams; `folder` is where relative corpus paths start (not hashed).
    `split` is what it is evaluated on: `tuning` where its numbers are used for a choice, else `verdict`.
    """

    id: str
    variant: str
    architecture: Architecture
    data: Data
    corpus: str
    folder: str
    recipe: Recipe
    measure: Measure
    seed: int
    salt: int
    threads: int
    split: HeldOut = "verdict"
    conditions: str = ""

    def __repr__(self) -> str:
        salt = f", salt {self.salt}" if self.salt else ""
        return f"<Trial {self.id}: seed {self.seed}{salt}, {self.recipe.steps} steps, {self.architecture.block!r}>"
