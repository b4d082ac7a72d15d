"""New derivations from known ones: mutation derives a subtree anew, crossover exchanges subtrees of like rules.

Both are arithmetic on the numbers of derivations; each choice is uniform and made by the random generator passed in.
Where values are varied beside the grammar, half of the mutations change one of them: a number by a normally distributed
number of places, of which a standard deviation is a tenth of all.
`draw` and `solved` return only derivations that are admitted, and count how many each reason excluded.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from ablate.errors import InputError
from ablate.grammar.choices import Subtree, subtrees
from ablate.grammar.derivation import Alternatives, Template, Varied
from ablate.grammar.grammar import DRAWS

Made: TypeAlias = Any
"""The product of a derivation: a block, or a block with varied values around it. Samplers pass it on as it is."""
VALUED = 0.5  # the share of mutations that change a value which is varied beside the grammar
NEARBY = 0.1  # the standard deviation of the mutation of a number, as a share of all the places that it may have
MET = 10  # the number of derivations, refused before one was admitted, that are remembered


class DerivationSource(Protocol):
    """Derivations, and which of them are admitted: a grammar, or a grammar as a space restricts and extends it."""

    @property
    def name(self) -> str: ...

    @property
    def derivations(self) -> Template:
        """The template of all derivations."""

    @property
    def count(self) -> int:
        """The number of derivations."""

    def derive(self, k: int) -> Made:
        """Return the product of the k-th derivation, from 0, admitted or not."""

    def refusals(self, block: Made) -> tuple[str, ...]:
        """Return why it is not admitted; empty if it is."""

    def way_out(self, reason: str) -> str:
        """Return the way out of one of the `refusals` that leaves practically nothing."""


@dataclass(frozen=True)
class SampledDerivation:
    """A derivation that is admitted. `tried` counts the derivations looked at, `refused` how many each reason excluded.

    One refused for several reasons counts for each; `met` are the first `MET` different ones that were refused.
    """

    index: int
    block: Made
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

    If no subtree has another derivation, k is returned as it is. A number that is varied moves to one nearby.
    """
    places = list(subtrees(template, k))
    if not places:
        return k
    values = [place for place in places if isinstance(place.template, Varied)]
    if values:
        rules = [place for place in places if not isinstance(place.template, Varied)]
        places = values if not rules or rng.random() < VALUED else rules
    place = rng.choice(places)
    rule = place.template
    if isinstance(rule, Varied) and isinstance(rule.body, Alternatives) and rule.body.scale is not None:
        other = _nearby(place, rng)
    else:
        other = rng.randrange(rule.count - 1)
        other += other >= place.index
    return k + (other - place.index) * place.stride


def _nearby(place: Subtree, rng: random.Random) -> int:
    """Draw the place of a number near that of another, and within the ends."""
    last = place.template.count - 1
    by = abs(rng.gauss(0, NEARBY * last))
    away = max(1, min(last, round(by)))
    up = rng.random() < 0.5
    # At an end it moves the other way, so that the ends are not proposed more often than what lies between.
    if place.index + away > last or (not up and place.index - away >= 0):
        return max(0, place.index - away)
    return place.index + away


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
