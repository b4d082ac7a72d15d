"""Orthogonal choices of runs: every combination, regular fractions, and Plackett and Burman's."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, islice, product

import numpy as np

from ablate.plan.designs.terms import Levels

ROMAN = {3: "III", 4: "IV", 5: "V", 6: "VI", 7: "VII", 8: "VIII", 9: "IX"}

BEST = 6
"""No higher resolution is searched for: at VI not even effects of three edits are confounded with those of pairs."""


@dataclass(frozen=True, slots=True)
class Generator:
    """An edit whose level is `sign` times the product of the levels of `of`, by position."""

    edit: int
    of: tuple[int, ...]
    sign: int


def every_combination(edits: int) -> Levels:
    """Return all 2^edits runs; the first edit changes fastest, the first run has no edit, the last has all."""
    rows = [levels[::-1] for levels in product((-1.0, 1.0), repeat=edits)]
    return np.array(rows)


def fraction(edits: int, resolution: int) -> Levels:
    """Return the smallest regular fraction of that resolution, with a run of all edits, or of a higher one at no more
    runs; every combination where none is smaller.
    """
    import pydoe

    smallest = np.asarray(pydoe.fracfact_by_res(edits, resolution))
    for better in range(resolution + 1, BEST + 1):
        other = np.asarray(pydoe.fracfact_by_res(edits, better))
        if len(other) > len(smallest):
            break
        smallest = other
    return _sorted(smallest)


def plackett_burman(edits: int) -> Levels:
    """Return Plackett and Burman's runs (1946), including one of all edits; their number is the next multiple of 4
    above that of the edits (28, which has no simple construction, is skipped).
    """
    import pydoe

    known = edits if edits // 4 != 6 else 28
    return _sorted(np.asarray(pydoe.pbdesign(known))[:, :edits])


def generators(levels: Levels) -> tuple[Generator, ...]:
    """Return the generators of a regular fraction: the edits whose levels follow from those of earlier ones. Empty
    where all edits are free, and where the runs are not a regular fraction.
    """
    free: list[int] = []
    dependent = []
    for edit in range(levels.shape[1]):
        of = _product_of(levels, free, edit)
        if of is not None:
            dependent.append(of)
        elif 2 ** len(free) < len(levels):
            free.append(edit)
        else:
            return ()
    return tuple(dependent) if 2 ** len(free) == len(levels) else ()


def resolution(levels: Levels) -> int | None:
    """Return the resolution of a regular fraction: the length of its shortest word, a product of levels that is
    constant. None where every combination is run, or where the runs are not a regular fraction.
    """
    edits = levels.shape[1]
    if not generators(levels):
        return None
    return next(
        length
        for length in range(1, edits + 1)
        for word in combinations(range(edits), length)
        if abs(levels[:, list(word)].prod(axis=1).sum()) == len(levels)
    )


def siblings(levels: Levels, most: int) -> tuple[Levels, ...]:
    """Return the distinct sets of runs with the signs of some edits flipped, which are as orthogonal, from at most
    `most` flips: first those with the runs of no edit and of all edits, then those with that of all, then with that of
    none.
    """
    edits = levels.shape[1]
    free = tuple(e.edit for e in generators(levels)) or tuple(range(edits))
    turns = (chosen for size in range(len(free) + 1) for chosen in combinations(free, size))
    distinct: dict[bytes, Levels] = {}
    for chosen in islice(turns, most):
        other = levels.copy()
        other[:, list(chosen)] *= -1
        other = _sorted(other)
        distinct.setdefault(other.tobytes(), other)
    return tuple(sorted(distinct.values(), key=_lack_of_ends))


def _lack_of_ends(levels: Levels) -> int:
    """Return 0 if both ends are among the runs, 1 if only that of all edits is, 2 if only that of none is, else 3."""
    return 2 * int(not (levels == 1).all(axis=1).any()) + int(not (levels == -1).all(axis=1).any())


def _product_of(levels: Levels, free: list[int], edit: int) -> Generator | None:
    for size in range(1, len(free) + 1):
        for of in combinations(free, size):
            sign = (levels[:, list(of)].prod(axis=1) * levels[:, edit]).mean()
            if abs(sign) == 1:
                return Generator(edit, of, int(sign))
    return None


def _sorted(levels: Levels) -> Levels:
    """Sort runs in the order of `every_combination`."""
    return levels[np.lexsort(levels.T)]
