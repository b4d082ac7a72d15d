"""The columns of a factorial: one for each edit, and for a factor with k levels k - 1 contrasts.

Every column is scaled so that the effect of a term of j columns is 2^j·beta, as for edits with their -1 and +1. With t
the place of an ordered level in its range, from -1 at the lowest to +1 at the highest, linear or logarithmic:

    trend      t                         2·beta: the change from the lowest to the highest level
    curvature  2·t²                      2·beta: by how much the ends of the range lie above its middle
    higher     anything else             only in the analysis of variance
    a level    2 where it is, 0 if not   2·beta: that level against the first, where levels have no order

each orthogonal, over the levels, to the mean and to those before it (of a nominal factor only to the mean). The trend
is then that of the straight line by least squares, and the curvature that of the parabola.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ablate.plan.designs.terms import Levels, Term, estimable
from ablate.plan.plan import Factors, Scale, VariedFactor
from ablate.space.fair import Plain
from ablate.space.vary import as_numbers, level_texts

TREND, CURVATURE = "trend", "curvature"
MOST_COLUMNS = 12
"""With more columns than this, aliases of three of them are not listed."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContrastColumn:
    """One column: its name, the number of its factor, and the code of each level.

    `shown`: it is an effect that is judged; `crossed`: so are its interactions with other such columns.
    """

    name: str
    factor: int
    codes: tuple[float, ...]
    shown: bool = True
    crossed: bool = True


def scale_of(values: Sequence[Plain]) -> Scale:
    """Return the scale on which values are more evenly spaced; linear if both are alike.

    >>> scale_of([4, 8, 16]), scale_of([4, 8, 12]), scale_of([0, 1, 10]), scale_of(["none", "rope"])
    ('log', 'linear', 'linear', 'nominal')
    """
    numbers = as_numbers(values)
    if numbers is None:
        return "nominal"
    if min(numbers) <= 0 or len(numbers) < 3:
        return "linear"
    return "log" if _unevenness(np.log(numbers)) < _unevenness(np.array(numbers)) else "linear"


def _unevenness(places: Floats) -> float:
    gaps = np.diff(np.sort(places))
    return float(gaps.max() / gaps.min())


def places_of(factor: VariedFactor) -> Floats:
    """Return the places of an ordered factor's levels within their range, from -1 to +1."""
    numbers = np.array(as_numbers(factor.values), dtype=np.float64)
    if factor.scale == "log":
        numbers = np.log(numbers)
    places: Floats = 2 * (numbers - numbers.min()) / (numbers.max() - numbers.min()) - 1
    return places


def columns_of(factors: Factors) -> tuple[ContrastColumn, ...]:
    """Return the columns of a factorial: its edits, then the contrasts of each factor."""
    edits = [ContrastColumn(name=edit, factor=place, codes=(-1.0, 1.0)) for place, edit in enumerate(factors.edits)]
    varied = [
        column
        for place, factor in enumerate(factors.varied, start=len(edits))
        for column in (_nominal(factor, place) if factor.scale == "nominal" else _ordered(factor, place))
    ]
    return (*edits, *varied)


def _ordered(factor: VariedFactor, place: int) -> Iterator[ContrastColumn]:
    t = places_of(factor)
    spans = [np.ones_like(t), t, t**2][: len(t)]
    yield _column(f"{factor.address}: {TREND}", place, t - t.mean())
    if len(t) < 3:
        return
    before = np.stack(spans[:2], axis=1)
    yield _column(
        f"{factor.address}: {CURVATURE}", place, 2 * (t**2 - before @ np.linalg.lstsq(before, t**2)[0]), crossed=False
    )
    rest = np.linalg.svd(np.stack(spans, axis=1))[0][:, 3:].T
    for order, codes in enumerate(rest, start=3):
        yield _column(f"{factor.address}: order {order}", place, codes, shown=False, crossed=False)


def _nominal(factor: VariedFactor, place: int) -> Iterator[ContrastColumn]:
    texts = level_texts(factor.values)
    for level, text in enumerate(texts[1:], start=1):
        yield _column(f"{factor.address}={text}", place, 2 * ((np.arange(len(texts)) == level) - 1 / len(texts)))


def _column(name: str, place: int, codes: Floats, *, shown: bool = True, crossed: bool = True) -> ContrastColumn:
    return ContrastColumn(name=name, factor=place, codes=tuple(codes.tolist()), shown=shown, crossed=crossed)


def coded(factors: Factors, runs: Sequence[Sequence[int]]) -> Levels:
    """Return the columns over these runs, each given by its levels as in `Factors.runs`."""
    edits, columns = len(factors.edits), columns_of(factors)
    table = [
        [
            float(levels[column.factor]) if column.factor < edits else column.codes[levels[column.factor]]
            for column in columns
        ]
        for levels in runs
    ]
    return np.array(table, dtype=np.float64).reshape(len(table), len(columns))


def terms_of(columns: Sequence[ContrastColumn], *, interactions: bool) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
    """Return the terms of a factorial, of one factor and of two, and those of them that are effects to be judged.

    In the order in which they are estimated where not all can be: those that are judged come first.
    """
    mains = [(i,) for i in range(len(columns))]
    pairs = [p for p in combinations(range(len(columns)), 2) if columns[p[0]].factor != columns[p[1]].factor]
    shown: list[Term] = [term for term in mains if columns[term[0]].shown]
    crossed: list[Term] = [term for term in pairs if all(columns[i].crossed for i in term)] if interactions else []
    rest = [term for term in mains if term not in shown]
    others = [term for term in pairs if term not in crossed] if interactions else []
    return (*shown, *crossed, *rest, *others), (*shown, *crossed)


def fitted_terms(factors: Factors, levels: Levels) -> tuple[Term, ...]:
    """Return the terms that are fitted to the runs with these columns: the effects, then the rest of each factor and of
    each pair of factors that an effect is of, as far as these runs tell it apart.
    """
    columns = columns_of(factors)
    places = {column.name: place for place, column in enumerate(columns)}
    effects = [tuple(places[name] for name in effect) for effect in factors.effects]
    if not factors.varied:
        return tuple(effects)
    crossed = {tuple(columns[i].factor for i in effect) for effect in effects if len(effect) == 2}
    every, _ = terms_of(columns, interactions=bool(crossed))
    wanted = [t for t in every if len(t) == 1 or tuple(columns[i].factor for i in t) in crossed]
    told = estimable(levels, [*effects, *(term for term in wanted if not _shown(term, columns))])
    return (*effects, *(term for term in told if term not in effects))


def _shown(term: Term, columns: Sequence[ContrastColumn]) -> bool:
    return columns[term[0]].shown if len(term) == 1 else all(columns[i].crossed for i in term)


def is_whole(factors: Factors) -> bool:
    """Return whether the runs are every combination of edits and levels."""
    every: int = 2 ** len(factors.edits) * math.prod(len(factor.values) for factor in factors.varied)
    return len({levels for _, levels in factors.runs}) == every
