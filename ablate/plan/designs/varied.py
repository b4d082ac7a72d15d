"""Factorials of edits and of factors with several levels: every combination that is allowed and a model of its own."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from string import ascii_uppercase

from ablate.block.normal_form import normalise
from ablate.block.select import is_there
from ablate.errors import InputError
from ablate.output.words import listed, plural
from ablate.plan.designs import wording
from ablate.plan.designs.between import TreatmentDifference, arm_of, place_in_design
from ablate.plan.designs.coding import (
    CURVATURE,
    MOST_COLUMNS,
    TREND,
    ContrastColumn,
    coded,
    columns_of,
    scale_of,
    terms_of,
)
from ablate.plan.designs.combinations import READABLE, Chosen, Combinations
from ablate.plan.designs.layout import Contrast, DesignArm, Layout
from ablate.plan.designs.terms import Term, estimable, in_estimates
from ablate.plan.models import Models
from ablate.plan.plan import Alias, Factors, VariedFactor
from ablate.source.problems import Problems
from ablate.space.changed import decided
from ablate.space.design import Factorial
from ablate.space.override import with_value
from ablate.space.vary import VariedAddress, level_texts

MAX_RUNS = 256


@dataclass(frozen=True)
class LevelCombinations(Combinations):
    """Subsets of the edits, each with one level of every factor: in a `Chosen`, levels follow the positions of edits,
    numbered on through all factors.
    """

    @property
    def kept(self) -> str:
        """The one that is kept of several that are the same model."""
        return "another"

    @cached_property
    def factors(self) -> tuple[VariedAddress, ...]:
        """The factors with several levels."""
        assert isinstance(self.ends, Factorial)
        return self.ends.vary.factors

    @cached_property
    def own(self) -> tuple[int | None, ...]:
        """The level of each factor that the start has by itself; None where it has none of them."""
        start = arm_of(self.models.space, self.ends.from_)
        return tuple(
            next((place for place in range(len(factor.levels)) if self._is_own(factor, place, start)), None)
            for factor in self.factors
        )

    def _is_own(self, factor: VariedAddress, place: int, start: DesignArm) -> bool:
        level, space, catalogue = factor.levels[place], self.models.space, self.models.space.grammar.catalogue
        if factor.in_block:
            reader = space.grammar.reader_for(Problems())
            there = is_there(start.block, factor.selector, catalogue)
            changed = with_value(start.block, factor.override(level), reader) if there else None
            return changed is not None and normalise(changed, catalogue) == normalise(start.block, catalogue)
        try:
            changed_space = self.models.at(((factor.address, level.value),))
        except InputError:
            return False
        return decided(changed_space) == decided(space)

    def every(self) -> tuple[Chosen, ...]:
        """Return every combination."""
        edits = len(self.edits)
        starts = [edits + sum(len(factor.levels) for factor in self.factors[:i]) for i in range(len(self.factors))]
        ranges = [range(at, at + len(f.levels)) for at, f in zip(starts, self.factors, strict=True)]
        subsets = [tuple(i for i in range(edits) if mask >> i & 1) for mask in range(2**edits)]
        return tuple((*subset, *levels) for subset in subsets for levels in product(*ranges))

    def levels(self, chosen: Chosen) -> tuple[int, ...]:
        """Return the level of each factor, from 0."""
        at, places = len(self.edits), chosen[len(chosen) - len(self.factors) :]
        levels = []
        for factor, place in zip(self.factors, places, strict=True):
            levels.append(place - at)
            at += len(factor.levels)
        return tuple(levels)

    def row(self, chosen: Chosen) -> tuple[int, ...]:
        """Return a combination as `Factors.runs` has it."""
        return (*(1 if i in chosen else -1 for i in range(len(self.edits))), *self.levels(chosen))

    def arm(self, chosen: Chosen) -> DesignArm:
        """Return the start with these edits and levels, without a name of its own."""
        if chosen not in self._arms:
            space = self.models.space
            names = tuple(edit.name for i, edit in enumerate(self.edits) if i in chosen)
            whole = len(names) == len(self.edits)
            arm = arm_of(space, self.ends.to, names) if whole else self.difference.arm("", names)
            block, changes, edits = arm.block, dict(arm.changes), list(names)
            reader = space.grammar.reader_for(Problems())
            for factor, level, own in zip(self.factors, self.levels(chosen), self.own, strict=True):
                if factor.in_block:
                    block = with_value(block, factor.override(factor.levels[level]), reader)
                elif level != own:
                    changes[factor.address] = factor.levels[level].value
                if level != own:
                    edits.append(f"{factor.address}={level_texts(factor.values)[level]}")
            block = normalise(block, space.grammar.catalogue)
            self._arms[chosen] = DesignArm("", block, tuple(edits), tuple(sorted(changes.items())))
        return self._arms[chosen]

    def letters(self, chosen: Chosen) -> str:
        """Spell a combination in letters, the levels of a factor numbered from 1."""
        edits = len(self.edits)
        levels = (f"{ascii_uppercase[edits + i]}{level + 1}" for i, level in enumerate(self.levels(chosen)))
        return "".join((*(ascii_uppercase[i] for i in chosen if i < edits), *levels))

    def legend(self) -> str:
        """Explain which letter is which edit, and which number which level."""
        factors = []
        for place, factor in enumerate(self.factors, start=len(self.edits)):
            numbered = listed([f"{ascii_uppercase[place]}{i + 1}" for i in range(len(factor.levels))])
            factors.append(f"{numbered} are {factor.address}={', '.join(level_texts(factor.values))}")
        edits = [super().legend()] if self.edits else []
        return "; ".join((*edits, *factors))

    def arms(self, runs: Iterable[Chosen]) -> Mapping[Chosen, DesignArm]:
        """Return the runs as arms with distinct names; what is the same model as one of the ends has its name."""
        space, runs = self.models.space, tuple(runs)
        ends = {}
        for name in (self.ends.to, self.ends.from_):
            ends[self.mark(arm_of(space, name))] = name
        names = {run: ends.get(self.model(run)) for run in runs}
        spelt = {run: self._spelt(run) for run, name in names.items() if name is None}
        if any(len(name) > READABLE for name in spelt.values()):
            spelt = {run: f"{self.ends.from_}+{self.letters(run)}" for run in spelt}
        return {run: replace(self.arm(run), name=name or spelt[run]) for run, name in names.items()}

    def _spelt(self, run: Chosen) -> str:
        """Name a run after its edits and the levels that the start does not have."""
        lasts = [factor.words[-1].text for factor in self.factors]
        words = [self.ends.from_, *(edit.name for i, edit in enumerate(self.edits) if i in run)]
        for factor, last, level, own in zip(self.factors, lasts, self.levels(run), self.own, strict=True):
            if level != own:
                short = last if lasts.count(last) == 1 else factor.address
                words.append(f"{short}={level_texts(factor.values)[level]}")
        return " ".join(words)

    def described(self) -> str:
        """Return what is combined, in words."""
        of = [f"{plural(len(factor.levels), 'level')} of {factor.address}" for factor in self.factors]
        edits = [plural(len(self.edits), "edit")] if self.edits else []
        return listed([*edits, *of])


def with_levels(ends: Factorial, difference: TreatmentDifference, models: Models, problems: Problems) -> Layout | None:
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
        gone = wording.left_out(among, distinct, refused)
        message = f"of all combinations of {among.described()} only {len(distinct)} can be trained"
        notes_of = (among.legend(), *gone, "list other values")
        problems.add(message, place_in_design(models.space), notes=notes_of)
        return None
    return _layout(among, tuple(distinct), every, wording.left_out(among, distinct, refused))


def _layout(among: LevelCombinations, runs: Sequence[Chosen], every: int, gone: Sequence[str]) -> Layout:
    ends = among.ends
    assert isinstance(ends, Factorial)
    what = among.described()
    whole = len(runs) == every
    how = wording.every_level(what, every) if whole else wording.remaining_levels(what, every, len(runs))
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
        *wording.axes([factor.address for factor in varied if factor.scale == "log"]),
        *gone,
        *wording.not_estimated(levels, fitted, [term for term in shown if term not in effects], text),
        *wording.mixed(mixed, text),
        *wording.beside(named, among),
    )
    factors = replace(
        bare,
        effects=tuple(names(term) for term in effects),
        aliases=tuple(Alias(term=names(term), other=names(other), times=times) for term, other, times in mixed),
    )
    return Layout(
        arms=tuple(arms.values()),
        contrasts=tuple(_contrast(term, columns, among, varied) for term in effects),
        notes=notes,
        against=(ends.to,) if ends.to in named and ends.to != ends.from_ else (),
        factors=factors,
    )


def _contrast(
    term: Term, columns: Sequence[ContrastColumn], among: LevelCombinations, varied: Sequence[VariedFactor]
) -> Contrast:
    if len(term) == 1:
        column = columns[term[0]]
        return Contrast(column.name, _detail(column, among, varied), "", "", "main")
    first, second = (columns[i] for i in term)
    changes = f"how much the effect of {first.name} changes"
    return Contrast(
        f"{first.name} × {second.name}", f"{changes} {_beside(second, among, varied)}", "", "", "interaction"
    )


def _detail(column: ContrastColumn, among: LevelCombinations, varied: Sequence[VariedFactor]) -> str:
    """Describe the effect of an edit or of a contrast of levels."""
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


def _beside(column: ContrastColumn, among: LevelCombinations, varied: Sequence[VariedFactor]) -> str:
    """Describe what the effect of another column is compared between."""
    edits = len(among.edits)
    if column.factor < edits:
        return f"when {column.name} is present"
    factor = varied[column.factor - edits]
    texts = level_texts(factor.values)
    if factor.scale == "nominal":
        return f"from {texts[0]} to {column.name.removeprefix(f'{factor.address}=')} at {factor.address}"
    return f"from {texts[0]} to {texts[-1]} at {factor.address}, by the straight line"
