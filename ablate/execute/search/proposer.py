"""The protocol of what proposes, and what proposers share: their generators, and uniform draws.

A proposal is a function of the seed, of its number k and of the results it may see. Nothing is kept between two
proposals, so a search that is taken up again proposes what an undisturbed one would have.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ablate.block.expression import Block
from ablate.execute.search.result import Result
from ablate.grammar.choices import choices
from ablate.grammar.mutate import DerivationSource, draw


@dataclass(frozen=True)
class Proposal:
    """Derivation `index`, which is admitted.

    Of its `choices`, `random` were drawn without regard to the results. `refused` says how many proposals each
    constraint, and whatever else does not admit a block, removed on the way here; `repaired` that the sampler made none
    that is admitted, and its last one was mutated until it was. `passed_over` counts others that were made with it and
    were worse beforehand; what was chosen and refused for them is counted too.
    """

    index: int
    block: Block
    choices: int
    random: int
    refused: Mapping[str, int]
    repaired: bool = False
    passed_over: int = 0


class Proposer(Protocol):
    """Makes proposals. The same seed, k and history give the same one, on whichever machine and however often."""

    def propose(self, k: int, history: Sequence[Result]) -> Proposal:
        """Proposal k, from the results it may see. InputError where constraints leave practically nothing."""


def uniform(ground: DerivationSource, rng: random.Random) -> Proposal:
    """A uniform draw from the derivations that are admitted; InputError where there are practically none."""
    drawn = draw(ground, rng)
    made = len(choices(ground.derivations, drawn.index))
    return Proposal(drawn.index, drawn.block, made, made, drawn.refused)


def generator(seed: int, k: int) -> random.Random:
    """The generator of proposal k."""
    return random.Random(seed_of(seed, k))


def seed_of(seed: int, k: int) -> int:
    """The 32-bit seed of proposal k: the start of the SHA-256 of both numbers."""
    return int.from_bytes(hashlib.sha256(f"proposal {seed} {k}".encode()).digest()[:4])
