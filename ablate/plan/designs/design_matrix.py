"""Design matrix: the runs of a factorial as rows and its effects as columns, and the choice of few but telling runs.

A run has level +1 of each edit that is present and -1 of each that is not. The column of a term, a set of edits, is
the product of theirs, and the outcome is sum_t beta_t · column_t. The effect of one edit, the mean difference that it
makes, is 2·beta; that of two, how much the effect of one changes when the other is present, is 4·beta.

A factor with k levels has k - 1 contrasts, scaled so that the effect of a term of j columns is 2^j·beta, as for edits
with their -1 and +1. With t the place of an ordered level in its range, from -1 at the lowest to +1 at the highest,
linear or logarithmic:

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
from itertools import combinations, islice, product
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ablate.plan.plan import Factors, Scale, VariedFactor
from ablate.space.fair import Plain
from ablate.space.vary import as_numbers, level_texts

# Terms: effects of edits as columns, what runs can estimate, and which aliases enter an estimate.

Term: TypeAlias = tuple[int, ...]  # positions of edits, ascending; without any: the mean
Levels: TypeAlias = NDArray[np.float64]  # a row for each run, a column for each edit, -1 or +1

MEAN: Term = ()
TOLERANCE = 1e-9


def mains(edits: int) -> tuple[Term, ...]:
    return tuple((edit,) for edit in range(edits))


def pairs(edits: int) -> tuple[Term, ...]:
    return tuple(combinations(range(edits), 2))


def columns(levels: Levels, terms: Sequence[Term]) -> Levels:
    return np.stack([levels[:, list(term)].prod(axis=1) for term in terms], axis=1)


def estimable(levels: Levels, terms: Sequence[Term]) -> tuple[Term, ...]:
    """Return, in order, the terms that are linearly independent of the mean and of those before them."""
    independent: list[Term] = [MEAN]
    for term in terms:
        if int(np.linalg.matrix_rank(columns(levels, [*independent, term]))) == len(independent) + 1:
            independent.append(term)
    return tuple(independent[1:])


def aliases(levels: Levels, terms: Sequence[Term], others: Sequence[Term]) -> tuple[tuple[Term, Term, float], ...]:
    """Return which `others` enter the least-squares estimate of each of `terms`, with a mean, and by what factor.

    E[b1] = beta1 + (X1ᵀX1)⁻¹ X1ᵀX2 · beta2 (Box & Wilson 1951), here in effects: 2·beta for an edit, 4·beta for two.
    """
    if not others:
        return ()
    estimated = [MEAN, *terms]
    matrix = np.linalg.lstsq(columns(levels, estimated), columns(levels, others), rcond=None)[0]
    order = np.array([len(other) for other in others])
    rows = []
    for term, row in zip(terms, matrix[1:], strict=True):
        times = row * 2.0 ** (len(term) - order)
        rows += [
            (term, others[j], round(float(times[j]), 12)) for j in np.flatnonzero(np.abs(times) > TOLERANCE).tolist()
        ]
    return tuple(rows)


def in_estimates(
    levels: Levels, terms: Sequence[Term], *, most: int = 3, factors: Sequence[int] = ()
) -> tuple[tuple[Term, Term, float], ...]:
    """Return the aliases of `terms` among effects of at most `most` (2 or 3) edits, the fewest first.

    `factors` are the factors of the columns, where one has several: these are not combined with each other.
    """
    edits = levels.shape[1]
    others = (*mains(edits), *pairs(edits), *(combinations(range(edits), 3) if most > 2 else ()))
    estimated = set(terms)
    apart = [term for term in others if not factors or len({factors[i] for i in term}) == len(term)]
    return aliases(levels, terms, [term for term in apart if term not in estimated])


def d_efficiency(levels: Levels, terms: Sequence[Term]) -> float:
    """Compute |XᵀX|^(1/p) / n with the mean among the p terms: 1 for orthogonal columns, 0 for dependent ones."""
    x = columns(levels, [MEAN, *terms])
    sign, logarithm = np.linalg.slogdet(x.T @ x)
    return float(np.exp(logarithm / x.shape[1]) / len(x)) if sign > 0 else 0.0


# Coding: the levels of a factor as contrasts: trend, curvature, each against the first.

TREND, CURVATURE = "trend", "curvature"
MOST_COLUMNS = 12  # with more columns than this, aliases of three of them are not listed

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
    edits = [ContrastColumn(name=edit, factor=place, codes=(-1.0, 1.0)) for place, edit in enumerate(factors.edits)]
    varied = [
        column
        for place, factor in enumerate(factors.varied, start=len(edits))
        for column in (
            _nominal_columns(factor, place) if factor.scale == "nominal" else _ordered_columns(factor, place)
        )
    ]
    return (*edits, *varied)


def _ordered_columns(factor: VariedFactor, place: int) -> Iterator[ContrastColumn]:
    t = places_of(factor)
    spans = [np.ones_like(t), t, t**2][: len(t)]
    yield _contrast_column(f"{factor.address}: {TREND}", place, t - t.mean())
    if len(t) < 3:
        return
    before = np.stack(spans[:2], axis=1)
    yield _contrast_column(
        f"{factor.address}: {CURVATURE}", place, 2 * (t**2 - before @ np.linalg.lstsq(before, t**2)[0]), crossed=False
    )
    rest = np.linalg.svd(np.stack(spans, axis=1))[0][:, 3:].T
    for order, codes in enumerate(rest, start=3):
        yield _contrast_column(f"{factor.address}: order {order}", place, codes, shown=False, crossed=False)


def _nominal_columns(factor: VariedFactor, place: int) -> Iterator[ContrastColumn]:
    texts = level_texts(factor.values)
    for level, text in enumerate(texts[1:], start=1):
        yield _contrast_column(
            f"{factor.address}={text}", place, 2 * ((np.arange(len(texts)) == level) - 1 / len(texts))
        )


def _contrast_column(
    name: str, place: int, codes: Floats, *, shown: bool = True, crossed: bool = True
) -> ContrastColumn:
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
    """Return the terms of one factor and of two, in order of estimation, and those to be judged, which come first."""
    mains = [(i,) for i in range(len(columns))]
    pairs = [p for p in combinations(range(len(columns)), 2) if columns[p[0]].factor != columns[p[1]].factor]
    shown: list[Term] = [term for term in mains if columns[term[0]].shown]
    crossed: list[Term] = [term for term in pairs if all(columns[i].crossed for i in term)] if interactions else []
    rest = [term for term in mains if term not in shown]
    others = [term for term in pairs if term not in crossed] if interactions else []
    return (*shown, *crossed, *rest, *others), (*shown, *crossed)


def fitted_terms(factors: Factors, levels: Levels) -> tuple[Term, ...]:
    """Return the terms fitted to the runs: effects, then the rest of their factors and pairs that can be told apart."""
    columns = columns_of(factors)
    places = {column.name: place for place, column in enumerate(columns)}
    effects = [tuple(places[name] for name in effect) for effect in factors.effects]
    if not factors.varied:
        return tuple(effects)
    crossed = {tuple(columns[i].factor for i in effect) for effect in effects if len(effect) == 2}
    every, _ = terms_of(columns, interactions=bool(crossed))
    wanted = [t for t in every if len(t) == 1 or tuple(columns[i].factor for i in t) in crossed]
    fitted = estimable(levels, [*effects, *(term for term in wanted if not _is_judged(term, columns))])
    return (*effects, *(term for term in fitted if term not in effects))


def _is_judged(term: Term, columns: Sequence[ContrastColumn]) -> bool:
    return columns[term[0]].shown if len(term) == 1 else all(columns[i].crossed for i in term)


def is_whole(factors: Factors) -> bool:
    every: int = 2 ** len(factors.edits) * math.prod(len(factor.values) for factor in factors.varied)
    return len({levels for _, levels in factors.runs}) == every


# Orthogonal runs: every combination, regular fractions, and Plackett and Burman's.

ROMAN = {3: "III", 4: "IV", 5: "V", 6: "VI", 7: "VII", 8: "VIII", 9: "IX"}

HIGHEST_RESOLUTION = 6
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
    for better in range(resolution + 1, HIGHEST_RESOLUTION + 1):
        other = np.asarray(pydoe.fracfact_by_res(edits, better))
        if len(other) > len(smallest):
            break
        smallest = other
    return _sorted_runs(smallest)


def plackett_burman(edits: int) -> Levels:
    """Return Plackett and Burman's runs (1946), including one of all edits; their number is the next multiple of 4
    above that of the edits (28, which has no simple construction, is skipped).
    """
    import pydoe

    known = edits if edits // 4 != 6 else 28
    return _sorted_runs(np.asarray(pydoe.pbdesign(known))[:, :edits])


def generators(levels: Levels) -> tuple[Generator, ...]:
    """Return the generators of a regular fraction: edits whose levels follow from those of earlier ones.

    Empty where all edits are free, and where the runs are not a regular fraction.
    """
    free: list[int] = []
    dependent = []
    for edit in range(levels.shape[1]):
        of = _generator_of(levels, free, edit)
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
        other = _sorted_runs(other)
        distinct.setdefault(other.tobytes(), other)
    return tuple(sorted(distinct.values(), key=_lack_of_ends))


def _lack_of_ends(levels: Levels) -> int:
    """Return 0 if both ends are among the runs, 1 if only that of all edits is, 2 if only that of none is, else 3."""
    return 2 * int(not (levels == 1).all(axis=1).any()) + int(not (levels == -1).all(axis=1).any())


def _generator_of(levels: Levels, free: list[int], edit: int) -> Generator | None:
    for size in range(1, len(free) + 1):
        for of in combinations(free, size):
            sign = (levels[:, list(of)].prod(axis=1) * levels[:, edit]).mean()
            if abs(sign) == 1:
                return Generator(edit, of, int(sign))
    return None


def _sorted_runs(levels: Levels) -> Levels:
    """Sort runs in the order of `every_combination`."""
    return levels[np.lexsort(levels.T)]


# D-optimal runs: among the candidates, those with the smallest joint uncertainty of the effects.

RANDOM_STARTS = 10
MOST_EXCHANGES = 1_000
LEAST_GAIN = 1e-6
RIDGE = 1e-6


def d_optimal(levels: Levels, terms: Sequence[Term], runs: int, fixed: Sequence[int] = ()) -> tuple[int, ...]:
    """Return the positions of `runs` distinct candidates with the largest |XᵀX| found, with the mean among the terms.

    Candidates that are `fixed` are kept where that costs nothing. Runs are exchanged one at a time, the best exchange
    first (Fedorov 1972), starting from a greedy choice and from random ones, the same each time. Ties go to the earlier
    candidate. Raises ValueError where there are fewer candidates than runs, or fewer runs than terms.
    """
    if not len(terms) + 1 <= runs <= len(levels):
        raise ValueError(f"{runs} runs of {len(levels)} for {len(terms) + 1} terms")
    x = columns(levels, [MEAN, *terms])
    kept = [tuple(fixed[:some]) for some in range(len(fixed), -1, -1)]
    candidates = [_best_runs(x, runs, keep) for keep in kept]
    best = max(logarithm for logarithm, _ in candidates)
    return next(chosen for logarithm, chosen in candidates if logarithm >= best - LEAST_GAIN * len(x))


def _best_runs(x: Levels, runs: int, keep: tuple[int, ...]) -> tuple[float, tuple[int, ...]]:
    """Return the largest log |XᵀX| over all starts, and the rows that have it."""
    rng = np.random.default_rng(0)
    starts = [_greedy_runs(x, runs, keep)]
    rest = np.setdiff1d(np.arange(len(x)), keep)
    for _ in range(RANDOM_STARTS):
        starts.append([*keep, *rng.choice(rest, runs - len(keep), replace=False).tolist()])
    candidates = [_exchanged_runs(x, chosen, keep) for chosen in starts]
    best = max(logarithm for logarithm, _ in candidates)
    return best, min(chosen for logarithm, chosen in candidates if logarithm >= best - LEAST_GAIN)


def _greedy_runs(x: Levels, runs: int, keep: tuple[int, ...]) -> list[int]:
    """Choose runs greedily, each the one with the largest prediction variance given those before (Dykstra 1971)."""
    chosen = list(keep)
    inverse = np.linalg.inv(x[chosen].T @ x[chosen] + RIDGE * np.eye(x.shape[1]))
    while len(chosen) < runs:
        variance = np.einsum("ij,jk,ik->i", x, inverse, x)
        variance[chosen] = -np.inf
        chosen.append(int(variance.argmax()))
        inverse = np.linalg.inv(x[chosen].T @ x[chosen] + RIDGE * np.eye(x.shape[1]))
    return chosen


def _exchanged_runs(x: Levels, start: Sequence[int], keep: tuple[int, ...]) -> tuple[float, tuple[int, ...]]:
    """Exchange runs for candidates until no exchange increases |XᵀX|."""
    chosen = list(start)
    movable = np.array([run not in keep for run in chosen])
    for _ in range(MOST_EXCHANGES if movable.any() else 0):
        gains = _exchange_gains(x, chosen)
        gains[~movable] = -np.inf
        gains[:, chosen] = -np.inf
        run, candidate = np.unravel_index(int(gains.argmax()), gains.shape)
        if gains[run, candidate] <= 1 + LEAST_GAIN:
            break
        chosen[run] = int(candidate)
    sign, logarithm = np.linalg.slogdet(x[chosen].T @ x[chosen])
    return (float(logarithm) if sign > 0 else -np.inf), tuple(sorted(chosen))


def _exchange_gains(x: Levels, chosen: Sequence[int]) -> NDArray[np.float64]:
    """Compute by what each exchange multiplies |XᵀX|: (1 + d_j)(1 - d_i) + d_ij², d the variances of predictions."""
    inverse = np.linalg.inv(x[chosen].T @ x[chosen] + RIDGE * np.eye(x.shape[1]))
    within = np.einsum("ij,jk,ik->i", x[chosen], inverse, x[chosen])
    every = np.einsum("ij,jk,ik->i", x, inverse, x)
    gains: NDArray[np.float64] = (1 - within)[:, None] * (1 + every) + (x[chosen] @ inverse @ x.T) ** 2
    return gains
