"""Combinations of the edits between two blocks: which are allowed, and which of them are the same model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from string import ascii_uppercase
from typing import TypeAlias

import numpy as np

from ablate.block.diff import Edit, path_order
from ablate.block.fingerprint import digest, fingerprint
from ablate.errors import InputError
from ablate.plan.designs.between import TreatmentDifference, arm_of, refusals
from ablate.plan.designs.layout import DesignArm
from ablate.plan.designs.terms import Levels, Term
from ablate.plan.models import Models
from ablate.space.design import Ends

Chosen: TypeAlias = tuple[int, ...]
"""Positions of the edits that are present, ascending."""
READABLE = 40
"""Runs are named after their edits, as long as no name is longer than this."""
MAX_EDITS = len(ascii_uppercase)


@dataclass(frozen=True)
class Combinations:
    """Subsets of the edits that lead from one treatment to another; treatments, refusals and models are cached.

    Edits are in the order of paths; letters name them where their names are too long.
    """

    ends: Ends
    difference: TreatmentDifference
    models: Models
    _arms: dict[Chosen, DesignArm] = field(default_factory=dict)
    _refusals: dict[Chosen, tuple[str, ...]] = field(default_factory=dict)
    _models: dict[Chosen, str] = field(default_factory=dict)

    @property
    def kept(self) -> str:
        """The one that is kept of several that are the same model."""
        return "one with fewer edits"

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The edits, stabilisers first."""
        return path_order(self.difference.edits)

    @property
    def whole(self) -> Chosen:
        """All edits."""
        return tuple(range(len(self.edits)))

    def arm(self, chosen: Chosen) -> DesignArm:
        """Return the start with these edits applied, without a name of its own."""
        if chosen not in self._arms:
            named = {(): self.ends.from_, self.whole: self.ends.to}.get(chosen)
            names = tuple(self.edits[i].name for i in chosen)
            space = self.models.space
            self._arms[chosen] = self.difference.arm("", names) if named is None else arm_of(space, named, names)
        return self._arms[chosen]

    def refusals(self, chosen: Chosen) -> tuple[str, ...]:
        """Return why constraints of the grammar refuse this combination; empty where none does."""
        if chosen not in self._refusals:
            self._refusals[chosen] = refusals(self.models, self.arm(chosen))
        return self._refusals[chosen]

    def model(self, chosen: Chosen) -> str:
        """Return a hash that is equal for combinations that are the same model at the sizes of the space."""
        if chosen not in self._models:
            self._models[chosen] = self.mark(self.arm(chosen))
        return self._models[chosen]

    def mark(self, arm: DesignArm) -> str:
        """Return a hash that is equal for arms that are the same model at the sizes of the space.

        What has no value at these sizes (an expression, heads, which layers) is reported later; until then equal blocks
        are the same model.
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
        """Return whether all of these are allowed, and are different models."""
        runs = tuple(runs)
        return not any(self.refusals(run) for run in runs) and len({self.model(run) for run in runs}) == len(runs)

    def letters(self, chosen: Chosen) -> str:
        """Spell a combination in letters, `none` where it has no edit."""
        return "".join(ascii_uppercase[i] for i in chosen) or "none"

    def legend(self) -> str:
        """Explain which letter is which edit."""
        return "; ".join(f"{ascii_uppercase[i]} is {edit.name}" for i, edit in enumerate(self.edits))

    def effect(self, term: Term) -> str:
        """Name an effect by its edits."""
        return " × ".join(self.edits[i].name for i in term)

    def arms(self, runs: Iterable[Chosen]) -> Mapping[Chosen, DesignArm]:
        """Return the runs as arms with distinct names; the two ends keep theirs."""
        ends = {self.model(()): self.ends.from_, self.model(self.whole): self.ends.to}
        names = {run: ends.get(self.model(run)) for run in runs}
        spelt = {run: " ".join([self.ends.from_, *self.arm(run).edits]) for run, name in names.items() if name is None}
        if any(len(name) > READABLE for name in spelt.values()):
            spelt = {run: f"{self.ends.from_}+{self.letters(run)}" for run in spelt}
        return {run: replace(self.arm(run), name=name or spelt[run]) for run, name in names.items()}


def levels_of(runs: Iterable[Chosen], edits: int) -> Levels:
    """Convert runs to rows of -1 and +1."""
    return np.array([[1.0 if i in run else -1.0 for i in range(edits)] for run in runs])


def chosen_of(levels: Levels) -> tuple[Chosen, ...]:
    """Convert rows of -1 and +1 to runs."""
    return tuple(tuple(int(i) for i in np.flatnonzero(row > 0)) for row in levels)
