"""Combinations of the edits between two blocks: which there may be, and which of them are the same model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from string import ascii_uppercase
from typing import TypeAlias

import numpy as np

from ablate.block.diff import BlockDifference, Edit, path_order
from ablate.block.expression import Block
from ablate.block.fingerprint import fingerprint
from ablate.plan.designs.layout import DesignArm
from ablate.plan.designs.terms import Levels, Term
from ablate.plan.models import Models
from ablate.space.design import Ends

Chosen: TypeAlias = tuple[int, ...]
"""Positions of the edits that are there, ascending."""
READABLE = 40
"""Names of runs are made of the edits' own, as long as none is longer than this."""
MAX_EDITS = len(ascii_uppercase)


@dataclass(frozen=True)
class Combinations:
    """Subsets of the edits that lead from one block to another, which is asked about again and again.

    Edits are in the order of paths; letters name them where their names are too long.
    """

    ends: Ends
    difference: BlockDifference
    models: Models
    _blocks: dict[Chosen, Block] = field(default_factory=dict)
    _refusals: dict[Chosen, tuple[str, ...]] = field(default_factory=dict)
    _models: dict[Chosen, str] = field(default_factory=dict)

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The edits, stabilisers first."""
        return path_order(self.difference.edits)

    @property
    def whole(self) -> Chosen:
        """All edits."""
        return tuple(range(len(self.edits)))

    def block(self, chosen: Chosen) -> Block:
        """The start with these edits applied."""
        if chosen not in self._blocks:
            named = {(): self.ends.from_, self.whole: self.ends.to}.get(chosen)
            apply = self.difference.apply
            space = self.models.space
            names = [self.edits[i].name for i in chosen]
            self._blocks[chosen] = apply(names) if named is None else space.blocks[named]
        return self._blocks[chosen]

    def refusals(self, chosen: Chosen) -> tuple[str, ...]:
        """Why a constraint of the grammar refuses this combination; empty where none does."""
        if chosen not in self._refusals:
            refused = self.models.space.refused(self.block(chosen))
            self._refusals[chosen] = tuple(broken.reason for broken in refused)
        return self._refusals[chosen]

    def model(self, chosen: Chosen) -> str:
        """The same for combinations that are the same model at the sizes of the space.

        One that says what has no value at these sizes is noted later; it is the same as those that are the same block.
        """
        if chosen not in self._models:
            block = self.block(chosen)
            try:
                self._models[chosen] = self.models.identity(block)
            except ValueError:
                self._models[chosen] = fingerprint(block, self.models.space.grammar.catalogue)
        return self._models[chosen]

    def distinct(self, candidates: Iterable[Chosen]) -> tuple[dict[Chosen, list[Chosen]], dict[str, list[Chosen]]]:
        """The candidates that there may be, each with those that are the same model and have more edits, and those that
        are refused, by reason. An edit that changes nothing where it is counts as not there.
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
        """Whether all of these may be, and are different models."""
        runs = tuple(runs)
        return not any(self.refusals(run) for run in runs) and len({self.model(run) for run in runs}) == len(runs)

    def letters(self, chosen: Chosen) -> str:
        """A combination in letters, `none` where it has no edit."""
        return "".join(ascii_uppercase[i] for i in chosen) or "none"

    def legend(self) -> str:
        """Which letter is which edit."""
        return "; ".join(f"{ascii_uppercase[i]} is {edit.name}" for i, edit in enumerate(self.edits))

    def effect(self, term: Term) -> str:
        """An effect by the names of its edits."""
        return " × ".join(self.edits[i].name for i in term)

    def arms(self, runs: Iterable[Chosen]) -> Mapping[Chosen, DesignArm]:
        """The runs as arms, each by a name of its own; the two ends keep theirs."""
        ends = {self.model(()): self.ends.from_, self.model(self.whole): self.ends.to}
        names = {run: ends.get(self.model(run)) for run in runs}
        edits = {run: tuple(self.edits[i].name for i in run) for run in names}
        spelt = {run: " ".join([self.ends.from_, *edits[run]]) for run, name in names.items() if name is None}
        if any(len(name) > READABLE for name in spelt.values()):
            spelt = {run: f"{self.ends.from_}+{self.letters(run)}" for run in spelt}
        return {run: DesignArm(name or spelt[run], self.block(run), edits[run]) for run, name in names.items()}


def levels_of(runs: Iterable[Chosen], edits: int) -> Levels:
    """Runs as rows of -1 and +1."""
    return np.array([[1.0 if i in run else -1.0 for i in range(edits)] for run in runs])


def chosen_of(levels: Levels) -> tuple[Chosen, ...]:
    """Rows of -1 and +1 as runs."""
    return tuple(tuple(int(i) for i in np.flatnonzero(row > 0)) for row in levels)
