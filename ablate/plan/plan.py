"""The plan: variants, comparisons and trials, as frozen data. `plan` prints it and `run` executes it."""

from __future__ import annotations

from dataclasses import dataclass

from ablate.block.expression import Block
from ablate.plan.trial import Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One distinct block. `names` are all the names that led to it; the first is the one shown.

    `edits` are the names of the edits applied to the design's start. `parameters` trained, and `flops` of matrix
    products in one forward pass over one sequence.
    """

    id: str
    names: tuple[str, ...]
    block: Block
    edits: tuple[str, ...]
    parameters: int
    flops: int

    @property
    def name(self) -> str:
        """The name shown."""
        return self.names[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A question the design asks: what does `change` do, from variant `before` to variant `after` (ids)?

    `kind` is `edit` (one edit, judged in the family that Holm's correction covers) or `baseline` (against the judge's
    baseline).
    """

    kind: str
    change: str
    detail: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed:
    """Proposal number `k` of a search: derivation `derivation` of its grammar, which is `variant`.

    `repeat`: it was proposed before, or is the reference. Of its `choices`, `random` were made without regard to any
    result.
    """

    k: int
    derivation: int
    variant: str
    repeat: bool
    choices: int
    random: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a space asks for. `notes` say what was folded, left out or assumed.

    `proposals` are those of a search; while it goes on, the plan is `open`: more may follow.
    """

    space: str
    question: str
    design: str
    baseline: str
    variants: tuple[Variant, ...]
    comparisons: tuple[Comparison, ...]
    seeds: tuple[int, ...]
    trials: tuple[Trial, ...]
    notes: tuple[str, ...]
    proposals: tuple[Proposed, ...] = ()
    open: bool = False

    def variant(self, id: str) -> Variant:
        """The variant of that id; KeyError if the plan has none."""
        return next(v for v in self.variants if v.id == id)
