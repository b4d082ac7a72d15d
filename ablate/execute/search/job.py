"""The jobs that a search hands out, and their proposals."""

from __future__ import annotations

from dataclasses import dataclass

from ablate.execute.search.proposer import Proposal
from ablate.plan.treatment import Treated


@dataclass(frozen=True, slots=True)
class ProposedBlock:
    """Proposal number k, and the mark of its block; `same_as` is the first job of that block if it is a repeat."""

    k: int
    proposal: Proposal
    mark: str
    same_as: int | None


@dataclass(frozen=True, slots=True)
class Job:
    """A block to be trained to the step `until`, which is rung number `rung`; None: to the end.

    It stands for a trial of each of the search's seeds. k is the number of its proposal, None for the reference.
    """

    number: int
    block: Treated
    mark: str
    k: int | None
    until: int | None
    rung: int | None
