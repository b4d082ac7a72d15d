"""Factorials: designs that combine edits, and factors with several levels.

Of edits every combination is run, a fraction of them, or the most informative ones available. With factors of several
levels every combination is run that is allowed and a model of its own.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ablate.plan.designs.combinations import (
    MAX_EDITS,
    THREES_NOT_LISTED,
    Chosen,
    Combinations,
    LevelCombinations,
    chosen_of,
    describe_axes,
    describe_ends,
    describe_every,
    describe_generator,
    describe_plackett_burman,
    describe_regular,
    levels_of,
    list_aliases,
    list_left_out,
    list_not_estimated,
    list_not_in_base,
)
from ablate.plan.designs.design_matrix import (
    CURVATURE,
    MOST_COLUMNS,
    ROMAN,
    TREND,
    ContrastColumn,
    Levels,
    Term,
    coded,
    columns_of,
    d_efficiency,
    d_optimal,
    estimable,
    every_combination,
    fraction,
    generators,
    in_estimates,
    mains,
    pairs,
    plackett_burman,
    resolution,
    scale_of,
    siblings,
    terms_of,
)
from ablate.plan.designs.layout import Contrast, DesignLayout, TreatmentDifference, note_single_edit, place_in_design
from ablate.plan.models import Models
from ablate.plan.plan import Alias, Factors, VariedFactor
from ablate.source.problems import Problems
from ablate.space.design import DOptimal, Factorial, Fractional, PlackettBurman
from ablate.space.vary import level_texts

# Edits combined: factorial, fractional, Plackett-Burman, D-optimal.

MAX_RUNS = 256
MAX_THREES = 12  # with more edits than this, effects of three edits that are in estimates are not listed one by one
MAX_POOL = 1_024  # D-optimal runs are chosen among all combinations, up to this number

Crossed = Factorial | Fractional | PlackettBurman | DOptimal


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSelection:
    """Runs, the terms to estimate from them, and a description of how they were chosen."""

    levels: Levels
    terms: tuple[Term, ...]
    how: str
    notes: tuple[str, ...] = ()


def crossed(ends: Crossed, difference: TreatmentDifference, models: Models, problems: Problems) -> DesignLayout | None:
    """Return the layout of a factorial; None where a mistake was reported."""
    among = Combinations(ends, difference, models)
    if len(among.edits) < 2:
        note_single_edit(models.space, ends, among.edits, problems)
        return None
    if len(among.edits) > MAX_EDITS:
        message = f"{len(among.edits)} edits from {ends.from_} to {ends.to}, but at most {MAX_EDITS} can be combined"
        notes = ("split fewer edits, or use blocks that differ less",)
        problems.add(message, place_in_design(models.space), notes=notes)
        return None
    match ends:
        case Factorial():
            choice = _factorial(ends, among, problems)
        case Fractional():
            choice = _fractional(ends, among, problems)
        case PlackettBurman():
            base = plackett_burman(len(among.edits))
            choice = _orthogonal(base, mains(len(among.edits)), describe_plackett_burman(base), among, problems)
        case DOptimal():
            choice = _d_optimal(ends, among, problems)
    return None if choice is None else _layout(choice, among)


def _factorial(ends: Factorial, among: Combinations, problems: Problems) -> RunSelection | None:
    edits = len(among.edits)
    if 2**edits > MAX_RUNS:
        message = f"{edits} edits have {2**edits:,} combinations, but at most {MAX_RUNS} can be run"
        _note_too_many(message, among, problems)
        return None
    distinct, refused = among.distinct(chosen_of(every_combination(edits)))
    if not _enough(distinct, refused, among, problems):
        return None
    terms, how = _terms(ends, edits), describe_every(f"{edits} edits", 2**edits, len(distinct))
    if len(distinct) == 2**edits:
        return RunSelection(levels=every_combination(edits), terms=terms, how=how)
    levels = levels_of(distinct, edits)
    how += f" (D-efficiency {d_efficiency(levels, estimable(levels, terms)):.0%})"
    return RunSelection(levels=levels, terms=terms, how=how, notes=list_left_out(among, distinct, refused))


def _fractional(ends: Fractional, among: Combinations, problems: Problems) -> RunSelection | None:
    edits = len(among.edits)
    wanted = next(number for number, roman in ROMAN.items() if roman == ends.resolution)
    base = fraction(edits, wanted)
    if len(base) > MAX_RUNS:
        message = f"a fraction of resolution {ends.resolution} for {edits} edits has {len(base):,} runs"
        _note_too_many(f"{message}, but at most {MAX_RUNS} can be run", among, problems)
        return None
    terms = _terms(ends, edits)
    if ends.interactions == "pairs" and len(estimable(base, terms)) == edits:
        message = (
            "interactions: pairs has no effect here: every pair's effect is confounded with an edit's in these runs"
        )
        notes = ("leave it out, or set resolution: IV or V",)
        problems.add(message, place_in_design(among.models.space, "fractional", "interactions"), notes=notes)
        return None
    guarded = (*mains(edits), *pairs(edits)) if ends.resolution == "V" else ()
    return _orthogonal(base, terms, describe_regular(base, ends.resolution), among, problems, guarded)


def _orthogonal(
    base: Levels,
    terms: Sequence[Term],
    what: str,
    among: Combinations,
    problems: Problems,
    guarded: Sequence[Term] = (),
) -> RunSelection | None:
    """Return these runs, or equally orthogonal ones, if all of them are allowed; else as many D-optimal ones for the
    `guarded` terms (none: for those that are estimated).
    """
    for levels in siblings(base, MAX_RUNS):
        if among.may_all_run(chosen_of(levels)):
            how = "; ".join([what, *(describe_generator(generator, among) for generator in generators(levels))])
            return RunSelection(levels=levels, terms=tuple(terms), how=how)
    distinct, refused = among.distinct(_pool(len(among.edits), chosen_of(base)))
    if not _enough(distinct, refused, among, problems):
        return None
    pool = levels_of(distinct, len(among.edits))
    requested, terms = terms, estimable(base, terms)
    told = estimable(pool, guarded or terms)
    runs = min(max(len(base), len(told) + 1), len(pool))
    levels = pool[list(d_optimal(pool, told, runs, _ends(distinct, among)))]
    how = (
        f"requested: {what}; some of these are refused or the same model, whichever signs are flipped, so instead "
        f"{len(levels)} runs are D-optimal among the {len(pool)} distinct models "
        f"(D-efficiency {d_efficiency(levels, told):.0%})"
    )
    notes = (
        *list_left_out(among, distinct, refused),
        *list_not_in_base([term for term in requested if term not in terms], among),
    )
    return RunSelection(levels=levels, terms=terms, how=how, notes=notes)


def _d_optimal(ends: DOptimal, among: Combinations, problems: Problems) -> RunSelection | None:
    edits = len(among.edits)
    distinct, refused = among.distinct(_pool(edits, ()))
    if not _enough(distinct, refused, among, problems):
        return None
    pool = levels_of(distinct, edits)
    terms = estimable(pool, _terms(ends, edits))
    place = place_in_design(among.models.space, "d_optimal", "runs")
    if ends.runs > min(len(pool), MAX_RUNS):
        message = f"{ends.runs:,} runs, but {len(pool):,} distinct models exist among {2**edits:,} combinations"
        if len(pool) > MAX_RUNS:
            message = f"{ends.runs:,} runs, but at most {MAX_RUNS} can be run"
        gone = list_left_out(among, distinct, refused)
        legend = (among.legend(),) if gone else ()
        problems.add(message, place, notes=(f"set runs: {min(len(pool), MAX_RUNS)}, or fewer", *legend, *gone))
        return None
    if ends.runs < len(terms) + 1:
        message = f"{ends.runs} runs cannot estimate {len(terms)} effects and a mean"
        fewer = f"or interactions: none, for which {edits + 1} are enough"
        least = f"set runs: {len(terms) + 1}, or more"
        problems.add(message, place, notes=(least, fewer) if ends.interactions == "pairs" else (least,))
        return None
    levels = pool[list(d_optimal(pool, terms, ends.runs, _ends(distinct, among)))]
    considered = f"the {len(pool):,} distinct models considered, of {2**edits:,} combinations"
    how = f"{len(levels)} runs, D-optimal among {considered} (D-efficiency {d_efficiency(levels, terms):.0%})"
    notes = list_left_out(among, distinct, refused)
    return RunSelection(levels=levels, terms=_terms(ends, edits), how=how, notes=notes)


def _terms(ends: Factorial | Fractional | DOptimal, edits: int) -> tuple[Term, ...]:
    return (*mains(edits), *(pairs(edits) if ends.interactions == "pairs" else ()))


def _pool(edits: int, base: Iterable[Chosen]) -> tuple[Chosen, ...]:
    """Return all combinations if they are few; else these, the ends and their neighbours, and a fixed random sample."""
    whole = tuple(range(edits))
    if 2**edits <= MAX_POOL:
        return chosen_of(every_combination(edits))
    neighbours = [c for i in whole for c in ((i,), tuple(j for j in whole if j != i))]
    pool = dict.fromkeys([(), whole, *neighbours, *base])
    chance = random.Random(0)
    while len(pool) < MAX_POOL:
        pool[tuple(i for i in whole if chance.random() < 0.5)] = None
    return tuple(pool)


def _ends(distinct: Iterable[Chosen], among: Combinations) -> tuple[int, ...]:
    """Return the positions among combinations of the baseline, which is trained anyway, and of the whole."""
    start = [()] if among.models.space.judge.against == among.ends.from_ else []
    models = dict.fromkeys(among.model(end) for end in (*start, among.whole))
    where = {among.model(run): position for position, run in enumerate(distinct)}
    return tuple(where[model] for model in models if model in where)


def _enough(
    distinct: Mapping[Chosen, list[Chosen]],
    refused: Mapping[str, list[Chosen]],
    among: Combinations,
    problems: Problems,
) -> bool:
    ends, models = among.ends, len(distinct)
    if models > 2:
        return True
    if models == 2:
        message = f"of all combinations of these edits only {ends.from_} and {ends.to} are left"
        gone = list_left_out(among, distinct, refused)
        notes = (among.legend(), *gone, f"use compare: [{ends.from_}, {ends.to}]")
    else:
        message = "all combinations of these edits are the same model at these sizes: there is nothing to compare"
        notes = (f"the edits lead from {ends.from_} to {ends.to}",)
    problems.add(message, place_in_design(among.models.space), notes=notes)
    return False


def _note_too_many(message: str, among: Combinations, problems: Problems) -> None:
    ways = []
    for number in (5, 4, 3):
        roman, runs = ROMAN[number], len(fraction(len(among.edits), number))
        if runs <= MAX_RUNS:
            ways.append(f"a fraction of resolution {roman} has {runs} runs (fractional: {{…, resolution: {roman}}})")
    runs = len(plackett_burman(len(among.edits)))
    ways.append(f"plackett_burman has {runs} runs, d_optimal as many as you set; or split fewer edits")
    problems.add(message, place_in_design(among.models.space), notes=ways)


def _layout(choice: RunSelection, among: Combinations) -> DesignLayout:
    levels, edits = choice.levels, among.edits
    effects = estimable(levels, choice.terms)
    numeral = resolution(levels)
    listed = numeral is None and len(edits) <= MAX_THREES
    mixed = in_estimates(levels, effects, most=3 if listed else 2)
    arms = among.arms(chosen_of(levels))
    named = [tuple(edits[i].name for i in term) for term in effects]
    factors = Factors(
        edits=tuple(edit.name for edit in edits),
        runs=tuple(
            (arm.name, tuple(int(level) for level in row)) for arm, row in zip(arms.values(), levels, strict=True)
        ),
        effects=tuple(named),
        aliases=tuple(
            Alias(term=tuple(edits[i].name for i in term), other=tuple(edits[i].name for i in other), times=times)
            for term, other, times in mixed
        ),
        resolution="" if numeral is None else ROMAN.get(numeral, str(numeral)),
        how=choice.how,
    )
    names = {arm.name for arm in arms.values()}
    dropped = [term for term in choice.terms if term not in effects]
    notes = (
        among.legend(),
        choice.how,
        *choice.notes,
        *list_not_estimated(levels, effects, dropped, among.letters),
        *list_aliases(mixed, among.letters),
        *([THREES_NOT_LISTED] if numeral is None and not listed else []),
        *describe_ends(names, among),
    )
    return DesignLayout(
        arms=tuple(arms.values()),
        contrasts=tuple(_contrast(term, among) for term in effects),
        notes=notes,
        against=(among.ends.to,) if among.ends.to in names else (),
        factors=factors,
    )


def _contrast(term: Term, among: Combinations) -> Contrast:
    if len(term) == 1:
        edit = among.edits[term[0]]
        return Contrast(edit.name, edit.detail, "", "", "main")
    first, second = (among.edits[i].name for i in term)
    detail = f"how much the effect of {first} changes when {second} is present"
    return Contrast(among.effect(term), detail, "", "", "interaction")


# Edits and factors with several levels combined.


def with_levels(
    ends: Factorial, difference: TreatmentDifference, models: Models, problems: Problems
) -> DesignLayout | None:
    """Return the layout of a factorial with factors of several levels; None where a mistake was reported."""
    among = LevelCombinations(ends, difference, models)
    every = 2 ** len(among.edits) * math.prod(len(factor.levels) for factor in among.factors)
    if every > MAX_RUNS:
        message = f"{among.described()} have {every:,} combinations, but at most {MAX_RUNS} can be run"
        notes = ["list fewer levels"] + ["or use blocks that differ less"] * bool(among.edits)
        problems.add(message, place_in_design(models.space), notes=(", ".join(notes),))
        return None
    distinct, refused = among.distinct(among.every())
    if len(distinct) < 2:
        gone = list_left_out(among, distinct, refused)
        message = f"of all combinations of {among.described()} only {len(distinct)} can be trained"
        notes_of = (among.legend(), *gone, "list other values")
        problems.add(message, place_in_design(models.space), notes=notes_of)
        return None
    return _layout_of_levels(among, tuple(distinct), every, list_left_out(among, distinct, refused))


def _layout_of_levels(
    among: LevelCombinations, runs: Sequence[Chosen], every: int, gone: Sequence[str]
) -> DesignLayout:
    ends = among.ends
    assert isinstance(ends, Factorial)
    whole = len(runs) == every
    how = describe_every(among.described(), every, len(runs))
    varied = tuple(VariedFactor(address=f.address, values=f.atoms, scale=scale_of(f.values)) for f in among.factors)
    rows = tuple(among.row(run) for run in runs)
    arms = among.arms(runs)
    named = [arm.name for arm in arms.values()]
    bare = Factors(
        edits=tuple(edit.name for edit in among.edits),
        runs=tuple(zip(named, rows, strict=True)),
        effects=(),
        how=how,
        varied=varied,
    )
    columns, levels = columns_of(bare), coded(bare, rows)
    every_term, shown = terms_of(columns, interactions=ends.interactions == "pairs")
    fitted = estimable(levels, every_term)
    effects = [term for term in fitted if term in shown]

    def names(term: Term) -> tuple[str, ...]:
        return tuple(columns[i].name for i in term)

    def text(term: Term) -> str:
        return " × ".join(names(term))

    mixed = () if whole else in_estimates(
        levels, fitted, most=3 if len(columns) <= MOST_COLUMNS else 2, factors=[column.factor for column in columns]
    )  # fmt: skip
    mixed = tuple(row for row in mixed if row[0] in shown)
    notes = (
        among.legend(),
        how,
        *describe_axes([factor.address for factor in varied if factor.scale == "log"]),
        *gone,
        *list_not_estimated(levels, fitted, [term for term in shown if term not in effects], text),
        *list_aliases(mixed, text),
        *describe_ends(named, among),
    )
    factors = replace(
        bare,
        effects=tuple(names(term) for term in effects),
        aliases=tuple(Alias(term=names(term), other=names(other), times=times) for term, other, times in mixed),
    )
    return DesignLayout(
        arms=tuple(arms.values()),
        contrasts=tuple(_contrast_of_levels(term, columns, among, varied) for term in effects),
        notes=notes,
        against=(ends.to,) if ends.to in named and ends.to != ends.from_ else (),
        factors=factors,
    )


def _contrast_of_levels(
    term: Term, columns: Sequence[ContrastColumn], among: LevelCombinations, varied: Sequence[VariedFactor]
) -> Contrast:
    if len(term) == 1:
        column = columns[term[0]]
        return Contrast(column.name, _effect_detail(column, among, varied), "", "", "main")
    first, second = (columns[i] for i in term)
    changes = f"how much the effect of {first.name} changes"
    return Contrast(
        f"{first.name} × {second.name}",
        f"{changes} {_interaction_detail(second, among, varied)}",
        "",
        "",
        "interaction",
    )


def _effect_detail(column: ContrastColumn, among: LevelCombinations, varied: Sequence[VariedFactor]) -> str:
    edits = len(among.edits)
    if column.factor < edits:
        return among.edits[column.factor].detail
    factor = varied[column.factor - edits]
    texts = level_texts(factor.values)
    if factor.scale == "nominal":
        return f"{texts[0]} → {column.name.removeprefix(f'{factor.address}=')} at {factor.address}"
    scale = " on a logarithmic axis" if factor.scale == "log" else ""
    over = f"over {', '.join(texts)} at {factor.address}"
    if column.name.endswith(f": {TREND}"):
        line = "" if len(texts) == 2 else f", by the straight line{scale} {over}"
        return f"the change from {texts[0]} to {texts[-1]}{line}" + (f" at {factor.address}" if not line else "")
    assert column.name.endswith(f": {CURVATURE}")
    return f"how far the ends of the range lie above its middle, by the parabola{scale} {over}: 0 for a straight line"


def _interaction_detail(column: ContrastColumn, among: LevelCombinations, varied: Sequence[VariedFactor]) -> str:
    edits = len(among.edits)
    if column.factor < edits:
        return f"when {column.name} is present"
    factor = varied[column.factor - edits]
    texts = level_texts(factor.values)
    if factor.scale == "nominal":
        return f"from {texts[0]} to {column.name.removeprefix(f'{factor.address}=')} at {factor.address}"
    return f"from {texts[0]} to {texts[-1]} at {factor.address}, by the straight line"
