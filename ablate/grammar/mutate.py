"""New derivations from known ones: mutation re-derives a subtree, crossover exchanges subtrees of like rules.

All of it is arithmetic on the numbers of derivations, uniform over what it chooses from, and decided by the generator
it is handed. `draw` and `solved` keep to what is admitted, and count what each reason removed.
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


class DerivationSource(Protocol):
    """Derivations, and which of them are admitted: a grammar, or what a space makes of one."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def derivations(self) -> Template:
        """What is derived, as choices."""

    @property
    def count(self) -> int:
        """How many derivations there are."""

    def derive(self, k: int) -> Block:
        """The block of the k-th derivation."""

    def refusals(self, block: Block) -> tuple[str, ...]:
        """Why a block is not admitted; nothing where it is."""

    def way_out(self, reason: str) -> str:
        """What the user may do where one of the `refusals` leaves practically nothing."""


@dataclass(frozen=True)
class SampledDerivation:
    """A derivation that is admitted. `tried` were looked at; `refused` says how many each reason removed.

    One that is refused for several reasons counts for each of them.
    """

    index: int
    block: Block
    tried: int
    refused: Mapping[str, int]


def draw(grammar: DerivationSource, rng: random.Random) -> SampledDerivation:
    """A uniform draw from the derivations that are admitted; InputError where there are practically none."""
    return solved(grammar, lambda: rng.randrange(grammar.count))


def solved(grammar: DerivationSource, propose: Callable[[], int]) -> SampledDerivation:
    """The first of the proposed derivations that is admitted.

    Raises InputError after 10,000 refusals in a row, with each way out and the reason most often met that it is for.
    """
    refused: Counter[str] = Counter()
    for tried in range(1, DRAWS + 1):
        index = propose()
        block = grammar.derive(index)
        reasons = grammar.refusals(block)
        if not reasons:
            return SampledDerivation(index, block, tried, dict(refused))
        refused.update(reasons)
    ways: dict[str, str] = {}
    for reason, times in refused.most_common():
        ways.setdefault(grammar.way_out(reason), f"{times:,} of them because {reason}")
    notes = "".join(f"\n  = {why}: {way}" for way, why in ways.items())
    raise InputError(f"grammar {grammar.name}: {DRAWS:,} blocks in a row were refused{notes}")


def mutate(template: Template, k: int, rng: random.Random) -> int:
    """The k-th derivation with one subtree, chosen uniformly, derived anew: uniformly among its other derivations.

    A template with one derivation has no other; it is returned as it is.
    """
    places = list(subtrees(template, k))
    if not places:
        return k
    place = rng.choice(places)
    drawn = rng.randrange(place.template.count - 1)
    return k + (drawn + (drawn >= place.index) - place.index) * place.stride


def crossover(template: Template, k: int, other: int, rng: random.Random) -> int | None:
    """The k-th derivation with one of its subtrees as a like rule derived it in `other`.

    Like rules have the same name and arguments, and stand at the same kind of place and depth. The pair is chosen
    uniformly among those that give neither of the two; None where there is none.
    """
    children = [k + (theirs.index - mine.index) * mine.stride for mine, theirs in like(template, k, other)]
    children = [child for child in children if child != other]
    return rng.choice(children) if children else None


def like(template: Template, k: int, other: int) -> list[tuple[Subtree, Subtree]]:
    """Pairs of subtrees of two derivations that are of like rules and differ."""
    theirs: dict[int, list[Subtree]] = {}
    for subtree in subtrees(template, other):
        theirs.setdefault(id(subtree.template), []).append(subtree)
    return [
        (mine, one)
        for mine in subtrees(template, k)
        for one in theirs.get(id(mine.template), ())
        if one.index != mine.index
    ]
