"""Orthogonal choices of runs: every combination, regular fractions, and Plackett and Burman's."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, islice, product

import numpy as np

from ablate.plan.designs.terms import Levels

ROMAN = {3: "III", 4: "IV", 5: "V", 6: "VI", 7: "VII", 8: "VIII", 9: "IX"}

BEST = 6
"""No better resolution is looked for: at VI even three edits at a time are not in the effects of pairs."""


@dataclass(frozen=True, slots=True)
class Generator:
    """An edit whose level is `sign` times the product of the levels of `of`, by position."""

    edit: int
    of: tuple[int, ...]
    sign: int


def every_combination(edits: int) -> Levels:
    """All 2^edits runs; the first edit changes fastest, the first run has none, the last has all."""
    rows = [levels[::-1] for levels in product((-1.0, 1.0), repeat=edits)]
    return np.array(rows)


def fraction(edits: int, resolution: int) -> Levels:
    """The smallest regular fraction of that resolution, with a run of all edits; a better one where that takes no more
    runs. Every combination where none is smaller.
    """
    import pydoe

    found = np.asarray(pydoe.fracfact_by_res(edits, resolution))
    for better in range(resolution + 1, BEST + 1):
        other = np.asarray(pydoe.fracfact_by_res(edits, better))
        if len(other) > len(found):
            break
        found = other
    return _sorted(found)


def plackett_burman(edits: int) -> Levels:
    """Plackett and Burman's runs (1946), a multiple of 4 above the edits (28, which is not of a simple kind, passed
    over), with one of all edits.
    """
    import pydoe

    known = edits if edits // 4 != 6 else 28
    return _sorted(np.asarray(pydoe.pbdesign(known))[:, :edits])


def generators(levels: Levels) -> tuple[Generator, ...]:
    """Of a regular fraction the edits whose levels follow from those of edits before them. None where all are free, and
    none where the runs are no regular fraction.
    """
    free: list[int] = []
    found = []
    for edit in range(levels.shape[1]):
        of = _product_of(levels, free, edit)
        if of is not None:
            found.append(of)
        elif 2 ** len(free) < len(levels):
            free.append(edit)
        else:
            return ()
    return tuple(found) if 2 ** len(free) == len(levels) else ()


def resolution(levels: Levels) -> int | None:
    """The length of the shortest word of a regular fraction: how many levels at least multiply to a constant. None
    where every combination is run, or where the runs are no regular fraction.
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
    """The runs with the levels of some edits turned round, which makes them no less orthogonal: different choices,
    found in at most so many turns, those with the runs of no edit and of all first, then with all, then with none.
    """
    edits = levels.shape[1]
    free = tuple(e.edit for e in generators(levels)) or tuple(range(edits))
    turns = (chosen for size in range(len(free) + 1) for chosen in combinations(free, size))
    found: dict[bytes, Levels] = {}
    for chosen in islice(turns, most):
        other = levels.copy()
        other[:, list(chosen)] *= -1
        other = _sorted(other)
        found.setdefault(other.tobytes(), other)
    return tuple(sorted(found.values(), key=_lack_of_ends))


def _lack_of_ends(levels: Levels) -> int:
    """0 with both ends among the runs, 1 with all edits, 2 with none, else 3."""
    return 2 * int(not (levels == 1).all(axis=1).any()) + int(not (levels == -1).all(axis=1).any())


def _product_of(levels: Levels, free: list[int], edit: int) -> Generator | None:
    for size in range(1, len(free) + 1):
        for of in combinations(free, size):
            sign = (levels[:, list(of)].prod(axis=1) * levels[:, edit]).mean()
            if abs(sign) == 1:
                return Generator(edit, of, int(sign))
    return None


def _sorted(levels: Levels) -> Levels:
    """Runs in the order of `every_combination`."""
    return levels[np.lexsort(levels.T)]
