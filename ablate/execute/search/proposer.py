"""The protocol of proposers, and their shared code: random generators, and uniform draws.

A proposal is a function of the seed, of its number k and of the results it may see. No state is kept between proposals,
so a resumed search proposes what an uninterrupted one would have.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ablate.execute.search.result import Result
from ablate.grammar.choices import choices
from ablate.grammar.mutate import DerivationSource, draw
from ablate.plan.treatment import Treated


@dataclass(frozen=True)
class Proposal:
    """Derivation `index`, which is admitted, and the block that it makes, as the ground of the search gave it.

    Of its `choices`, `random` were drawn without regard to the results. `refused` counts the earlier draws by what
    refused them (a constraint, or any other reason), and `met` are the first of these derivations, which later
    proposals find in their history; `repaired` means that the sampler's draws were all refused, and the last one was
    mutated until it was admitted. `passed_over` counts proposals made along with it that were worse by the zero-cost
    order; their choices and refusals are counted too.
    """

    index: int
    block: Treated
    choices: int
    random: int
    refused: Mapping[str, int]
    repaired: bool = False
    passed_over: int = 0
    met: tuple[int, ...] = ()


class Proposer(Protocol):
    """Makes proposals. The same seed, k and history give the same proposal, on every machine and every time."""

    def propose(self, k: int, history: Sequence[Result]) -> Proposal:
        """Return proposal k, from the results it may see. InputError if constraints leave practically nothing.

        Between the results are the derivations that were refused on the way to earlier proposals, with the outcome
        `refused` and no values.
        """


def uniform(ground: DerivationSource, rng: random.Random) -> Proposal:
    """Draw uniformly from the admitted derivations; InputError if there are practically none."""
    drawn = draw(ground, rng)
    made = len(choices(ground.derivations, drawn.index))
    return Proposal(drawn.index, drawn.block, made, made, drawn.refused, met=drawn.met)


def generator(seed: int, k: int) -> random.Random:
    """Return the random generator of proposal k."""
    return random.Random(seed_of(seed, k))


def seed_of(seed: int, k: int) -> int:
    """Return the 32-bit seed of proposal k: the start of the SHA-256 of both numbers."""
    return int.from_bytes(hashlib.sha256(f"proposal {seed} {k}".encode()).digest()[:4])
