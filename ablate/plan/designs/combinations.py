"""Combinations: subsets of the edits between two blocks, which of them are allowed, and which are the same model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from string import ascii_uppercase
from typing import TypeAlias

import numpy as np

from ablate.block.address import is_there
from ablate.block.diff import Edit, path_order
from ablate.block.normal_form import digest, fingerprint, normalise
from ablate.errors import InputError
from ablate.output.words import listed, plural
from ablate.plan.designs.design_matrix import (
    MEAN,
    ROMAN,
    TOLERANCE,
    Generator,
    Levels,
    Term,
    columns,
    in_estimates,
    mains,
    resolution,
)
from ablate.plan.designs.layout import DesignArm, TreatmentDifference, arm_of, refusals
from ablate.plan.models import Models
from ablate.source.problems import Problems
from ablate.space.changes import decided
from ablate.space.design import Ends, Factorial
from ablate.space.variants import with_value
from ablate.space.vary import VariedAddress, level_texts

Chosen: TypeAlias = tuple[int, ...]  # positions of the edits that are present, ascending
READABLE = 40  # runs are named after their edits, as long as no name is longer than this
MAX_EDITS = len(ascii_uppercase)


@dataclass(frozen=True)
class Combinations:
    """Subsets of the edits, in path order, that lead from one treatment to another; letters stand for long names."""

    ends: Ends
    difference: TreatmentDifference
    models: Models
    _arms: dict[Chosen, DesignArm] = field(default_factory=dict)
    _refusals: dict[Chosen, tuple[str, ...]] = field(default_factory=dict)
    _models: dict[Chosen, str] = field(default_factory=dict)

    @property
    def kept(self) -> str:
        return "one with fewer edits"

    @property
    def edits(self) -> tuple[Edit, ...]:
        return path_order(self.difference.edits)

    @property
    def whole(self) -> Chosen:
        return tuple(range(len(self.edits)))

    def arm(self, chosen: Chosen) -> DesignArm:
        if chosen not in self._arms:
            named = {(): self.ends.from_, self.whole: self.ends.to}.get(chosen)
            names = tuple(self.edits[i].name for i in chosen)
            space = self.models.space
            self._arms[chosen] = self.difference.arm("", names) if named is None else arm_of(space, named, names)
        return self._arms[chosen]

    def refusals(self, chosen: Chosen) -> tuple[str, ...]:
        if chosen not in self._refusals:
            self._refusals[chosen] = refusals(self.models, self.arm(chosen))
        return self._refusals[chosen]

    def model(self, chosen: Chosen) -> str:
        if chosen not in self._models:
            self._models[chosen] = self.mark(self.arm(chosen))
        return self._models[chosen]

    def mark(self, arm: DesignArm) -> str:
        """Return a hash that is equal for arms that are the same model at the sizes of the space.

        Where a value cannot be computed at these sizes, which is reported later, equal blocks are the same model.
        """
        try:
            return self.models.treatment(arm.block, arm.setting)
        except (ValueError, InputError):
            mark = fingerprint(arm.block, self.models.space.grammar.catalogue)
            return digest([mark, arm.changes], 64) if arm.changes else mark

    def distinct(self, candidates: Iterable[Chosen]) -> tuple[dict[Chosen, list[Chosen]], dict[str, list[Chosen]]]:
        """Return the allowed candidates, each with those that are the same model and have more edits, and those that
        are refused, by reason. An edit that changes nothing in its place counts as absent.
        """
        same: dict[str, list[Chosen]] = {}
        refused: dict[str, list[Chosen]] = {}
        for chosen in sorted(candidates, key=lambda c: (len(c), c)):
            if reasons := self.refusals(chosen):
                refused.setdefault("; ".join(reasons), []).append(chosen)
            else:
                same.setdefault(self.model(chosen), []).append(chosen)
        return {first: others for first, *others in same.values()}, refused

    def may_all_run(self, runs: Iterable[Chosen]) -> bool:
        runs = tuple(runs)
        return not any(self.refusals(run) for run in runs) and len({self.model(run) for run in runs}) == len(runs)

    def letters(self, chosen: Chosen) -> str:
        return "".join(ascii_uppercase[i] for i in chosen) or "none"

    def legend(self) -> str:
        return "; ".join(f"{ascii_uppercase[i]} is {edit.name}" for i, edit in enumerate(self.edits))

    def effect(self, term: Term) -> str:
        return " × ".join(self.edits[i].name for i in term)

    def arms(self, runs: Iterable[Chosen]) -> Mapping[Chosen, DesignArm]:
        """Return the runs as arms with distinct names; a run that is the same model as an end has its name."""
        ends = self._ends_by_model()
        names = {run: ends.get(self.model(run)) for run in runs}
        spelt = {run: self._spelt(run) for run, name in names.items() if name is None}
        if any(len(name) > READABLE for name in spelt.values()):
            spelt = {run: f"{self.ends.from_}+{self.letters(run)}" for run in spelt}
        return {run: replace(self.arm(run), name=name or spelt[run]) for run, name in names.items()}

    def _ends_by_model(self) -> dict[str, str]:
        return {self.model(()): self.ends.from_, self.model(self.whole): self.ends.to}

    def _spelt(self, run: Chosen) -> str:
        return " ".join([self.ends.from_, *self.arm(run).edits])


def levels_of(runs: Iterable[Chosen], edits: int) -> Levels:
    return np.array([[1.0 if i in run else -1.0 for i in range(edits)] for run in runs])


def chosen_of(levels: Levels) -> tuple[Chosen, ...]:
    return tuple(tuple(int(i) for i in np.flatnonzero(row > 0)) for row in levels)


# Combinations of edits with one level of every factor.


@dataclass(frozen=True)
class LevelCombinations(Combinations):
    """Subsets of the edits, each with one level of every factor: in a `Chosen`, levels follow the positions of edits,
    numbered on through all factors.
    """

    @property
    def kept(self) -> str:
        return "another"

    @cached_property
    def factors(self) -> tuple[VariedAddress, ...]:
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
        edits = len(self.edits)
        starts = [edits + sum(len(factor.levels) for factor in self.factors[:i]) for i in range(len(self.factors))]
        ranges = [range(at, at + len(f.levels)) for at, f in zip(starts, self.factors, strict=True)]
        subsets = [tuple(i for i in range(edits) if mask >> i & 1) for mask in range(2**edits)]
        return tuple((*subset, *levels) for subset in subsets for levels in product(*ranges))

    def levels(self, chosen: Chosen) -> tuple[int, ...]:
        at, places = len(self.edits), chosen[len(chosen) - len(self.factors) :]
        levels = []
        for factor, place in zip(self.factors, places, strict=True):
            levels.append(place - at)
            at += len(factor.levels)
        return tuple(levels)

    def row(self, chosen: Chosen) -> tuple[int, ...]:
        return (*(1 if i in chosen else -1 for i in range(len(self.edits))), *self.levels(chosen))

    def arm(self, chosen: Chosen) -> DesignArm:
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
        edits = len(self.edits)
        levels = (f"{ascii_uppercase[edits + i]}{level + 1}" for i, level in enumerate(self.levels(chosen)))
        return "".join((*(ascii_uppercase[i] for i in chosen if i < edits), *levels))

    def legend(self) -> str:
        factors = []
        for place, factor in enumerate(self.factors, start=len(self.edits)):
            numbered = listed([f"{ascii_uppercase[place]}{i + 1}" for i in range(len(factor.levels))])
            factors.append(f"{numbered} are {factor.address}={', '.join(level_texts(factor.values))}")
        edits = [super().legend()] if self.edits else []
        return "; ".join((*edits, *factors))

    def _ends_by_model(self) -> dict[str, str]:
        return {self.mark(arm_of(self.models.space, name)): name for name in (self.ends.to, self.ends.from_)}

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
        of = [f"{plural(len(factor.levels), 'level')} of {factor.address}" for factor in self.factors]
        edits = [plural(len(self.edits), "edit")] if self.edits else []
        return listed([*edits, *of])


# Descriptions of a factorial: how its runs were chosen, what is left out, and which effects are confounded.

MOST_LISTED = 16  # more combinations than this are counted, not listed
MOST_ALIASES_LISTED = 60
MEANING_OF_RESOLUTION = {
    3: "effects of edits are confounded with those of pairs",
    4: "effects of edits are not confounded with those of pairs, but those of pairs are with each other",
}
"""The meaning of a resolution; from V on neither holds."""
MEANING_FROM_FIVE = "effects of edits and of pairs are confounded only with those of three or more edits"
THREES_NOT_LISTED = "estimates also contain effects of three edits: with this many edits they are not listed"


def describe_every(what: str, every: int, runs: int) -> str:
    if runs == every:
        return f"every combination of {what}, {runs} runs"
    return (
        f"{runs} of the {every} combinations of {what}: the other {every - runs} are refused, or the same model as one "
        "of these, so effects are not estimated independently"
    )


def describe_axes(logarithmic: Sequence[str]) -> Iterator[str]:
    if logarithmic:
        levels = "their levels are" if len(logarithmic) > 1 else "its levels are"
        yield (f"the trend of {listed(logarithmic)} is along a logarithmic axis, on which {levels} more evenly spaced")


def describe_regular(levels: Levels, requested: str) -> str:
    runs, edits = levels.shape
    reached = resolution(levels)
    if reached is None:
        return f"no fraction of {edits} edits has resolution {requested}: every combination, {runs} runs"
    meaning = MEANING_OF_RESOLUTION.get(reached, MEANING_FROM_FIVE)
    better = "" if ROMAN[reached] == requested else f", better than the requested {requested} at no more runs"
    return f"{runs} of the {2**edits} combinations of {edits} edits, resolution {ROMAN[reached]}{better}: {meaning}"


def describe_plackett_burman(levels: Levels) -> str:
    runs, edits = levels.shape
    text = f"Plackett and Burman's {runs} runs for {edits} edits"
    if 2**edits == runs:
        return f"{text}: every combination"
    reached = resolution(levels)
    if reached is not None:
        return f"{text}, resolution {ROMAN[reached]}: {MEANING_OF_RESOLUTION.get(reached, MEANING_FROM_FIVE)}"
    if len(in_estimates(levels, mains(edits), most=2)) == edits * (edits - 1) * (edits - 2) // 2:
        return f"{text}: each pair's effect is partly confounded with that of every other edit"
    return f"{text}: many pairs' effects are partly confounded with those of other edits"


def describe_generator(generator: Generator, among: Combinations) -> str:
    """Describe a generator: `D = ABC` has D where an odd number of A, B and C (one or three) are present."""
    parity = (len(generator.of) + (generator.sign < 0)) % 2
    of = ", ".join(among.letters((i,)) for i in generator.of)
    there = f"an {'odd' if parity else 'even'} number of {of} are present"
    if len(generator.of) == 1:
        there = f"{of} is {'present' if generator.sign > 0 else 'absent'}"
    sign = "-" if generator.sign < 0 else ""
    edit = among.letters((generator.edit,))
    return f"{edit} = {sign}{among.letters(generator.of)} ({edit} is present where {there})"


def list_left_out(
    among: Combinations, distinct: Mapping[Chosen, Sequence[Chosen]], refused: Mapping[str, Sequence[Chosen]]
) -> tuple[str, ...]:
    notes = [f"left out: {_letters_of(gone, among)} ({reason})" for reason, gone in refused.items()]
    same = {first: others for first, others in distinct.items() if others}
    if sum(map(len, same.values())) > MOST_LISTED:
        notes.append(f"the same model as {among.kept}: {sum(map(len, same.values())):,} combinations")
    else:
        notes += [f"the same model: {_letters_of((first, *others), among)}" for first, others in same.items()]
    return tuple(notes)


def _letters_of(combinations: Sequence[Chosen], among: Combinations) -> str:
    if len(combinations) > MOST_LISTED:
        return f"{len(combinations):,} combinations"
    return ", ".join(among.letters(chosen) for chosen in combinations)


def list_not_estimated(
    levels: Levels, effects: Sequence[Term], dropped: Sequence[Term], named: Callable[[Term], str]
) -> Iterator[str]:
    known = [MEAN, *effects]
    for term in dropped:
        weights = np.linalg.lstsq(columns(levels, known), columns(levels, [term]), rcond=None)[0][:, 0]
        of = [named(t) for t, weight in zip(known, weights, strict=True) if t and abs(weight) > TOLERANCE]
        told = f"it is confounded with {', '.join(of)}" if of else "it does not vary"
        yield f"not estimated: {named(term)}: in these runs {told}"


def list_not_in_base(dropped: Sequence[Term], among: Combinations) -> Iterator[str]:
    """List effects that the requested runs would not have estimated either, so that those in their place need not."""
    if dropped:
        named = ", ".join(among.letters(term) for term in dropped)
        told = "it" if len(dropped) == 1 else "them"
        yield f"not estimated: {named}: the requested runs do not separate {told} from others"


def list_aliases(aliases: Sequence[tuple[Term, Term, float]], named: Callable[[Term], str]) -> Iterator[str]:
    if len(aliases) > MOST_ALIASES_LISTED:
        most = max(abs(times) for _, _, times in aliases)
        yield f"aliases in the estimates: {len(aliases):,} effects, each at most {most:.3g} times"
    elif aliases:
        of: dict[Term, list[str]] = {}
        for term, other, times in aliases:
            of.setdefault(term, []).append(f"{times:+.3g} {named(other)}")
        lines = "; ".join(f"{named(term)} contains {', '.join(others)}" for term, others in of.items())
        yield f"aliases in the estimates: {lines}"


def describe_ends(names: Collection[str], among: Combinations) -> Iterator[str]:
    """Describe a baseline trained in addition to the runs, and an end that is not compared because it is not a run."""
    against = among.models.space.judge.against
    if against not in names:
        yield f"{against}, the baseline, is trained in addition to these runs"
    if among.ends.to not in {*names, among.ends.from_}:
        yield f"{among.ends.to} is not one of these runs: it is not compared with the baseline"
