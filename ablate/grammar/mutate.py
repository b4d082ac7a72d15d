"""New derivations from known ones: mutation derives a subtree anew, crossover exchanges subtrees of like rules.

Both are arithmetic on the numbers of derivations; each choice is uniform and made by the random generator passed in.
`draw` and `solved` return only derivations that are admitted, and count how many each reason excluded.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ablate.block.expression import Block
from ablate.errors import InputError
from ablate.grammar.choices import Subtree, subtrees
from ablate.grammar.derivation import Template
from ablate.grammar.grammar import DRAWS

MET = 10
"""How many of the derivations that were refused before one was admitted are remembered."""


class DerivationSource(Protocol):
    """Derivations, and which of them are admitted: a grammar, or a grammar as a space restricts it."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def derivations(self) -> Template:
        """The template of all derivations."""

    @property
    def count(self) -> int:
        """The number of derivations."""

    def derive(self, k: int) -> Block:
        """Return the block of the k-th derivation."""

    def refusals(self, block: Block) -> tuple[str, ...]:
        """Return why a block is not admitted; empty if it is."""

    def way_out(self, reason: str) -> str:
        """Return what the user can do about one of the `refusals` that leaves practically nothing."""


@dataclass(frozen=True)
class SampledDerivation:
    """A derivation that is admitted. `tried` counts the derivations looked at, `refused` how many each reason excluded.

    One that is refused for several reasons counts for each of them. `met` are the first `MET` that were refused, each
    once.
    """

    index: int
    block: Block
    tried: int
    refused: Mapping[str, int]
    met: tuple[int, ...] = ()


def draw(grammar: DerivationSource, rng: random.Random) -> SampledDerivation:
    """Draw uniformly from the derivations that are admitted; InputError if there are practically none."""
    return solved(grammar, lambda: rng.randrange(grammar.count))


def solved(grammar: DerivationSource, propose: Callable[[], int]) -> SampledDerivation:
    """Return the first of the proposed derivations that is admitted.

    Raises InputError after 10,000 refusals in a row, with each way out and the most frequent reason that it helps with.
    """
    refused: Counter[str] = Counter()
    met: dict[int, None] = {}
    for tried in range(1, DRAWS + 1):
        index = propose()
        block = grammar.derive(index)
        reasons = grammar.refusals(block)
        if not reasons:
            return SampledDerivation(index, block, tried, dict(refused), tuple(met))
        refused.update(reasons)
        if len(met) < MET:
            met[index] = None
    ways: dict[str, str] = {}
    for reason, times in refused.most_common():
        ways.setdefault(grammar.way_out(reason), f"{times:,} of them because {reason}")
    notes = "".join(f"\n  = {why}: {way}" for way, why in ways.items())
    raise InputError(f"grammar {grammar.name}: {DRAWS:,} blocks in a row were refused{notes}")


def mutate(template: Template, k: int, rng: random.Random) -> int:
    """Derive one subtree of the k-th derivation anew: the subtree, and one of its other derivations, chosen uniformly.

    If no subtree has another derivation, k is returned as it is.
    """
    places = list(subtrees(template, k))
    if not places:
        return k
    place = rng.choice(places)
    drawn = rng.randrange(place.template.count - 1)
    return k + (drawn + (drawn >= place.index) - place.index) * place.stride


def crossover(template: Template, k: int, other: int, rng: random.Random) -> int | None:
    """Replace one subtree of the k-th derivation by what a like rule derived in `other`.

    Like rules have the same name and arguments, and stand at the same kind of place and depth. The pair of subtrees is
    chosen uniformly among those whose result is neither of the two; None if there is none.
    """
    children = [k + (theirs.index - mine.index) * mine.stride for mine, theirs in like(template, k, other)]
    children = [child for child in children if child != other]
    return rng.choice(children) if children else None


def like(template: Template, k: int, other: int) -> list[tuple[Subtree, Subtree]]:
    """Return the pairs of subtrees of two derivations that are of like rules and differ."""
    theirs: dict[int, list[Subtree]] = {}
    for subtree in subtrees(template, other):
        theirs.setdefault(id(subtree.template), []).append(subtree)
    return [
        (mine, their)
        for mine in subtrees(template, k)
        for their in theirs.get(id(mine.template), ())
        if their.index != mine.index
    ]
