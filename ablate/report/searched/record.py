"""A search as frozen values: its settings, its proposals and their outcomes, and its confirmation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from ablate.execute.search.ranking import RungCorrelation
from ablate.space.design import Goal
from ablate.verdict.summary import Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchObjective:
    """A metric and its direction. On the log scale differences are ratios."""

    metric: str
    goal: Goal
    definition: str
    log: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A block that was trained, in the order of starting; number 0 is the reference.

    `edits` lead to it from the reference; `details` say what each changes. `block` is in YAML. `values` are in the
    order of the objectives, means over the search's seeds, none unless it finished or reached a rung. `until` is the
    step they are from, None for the end. `flops` are those of one forward pass over one sequence. `repeats` counts
    later proposals of the same block. `versions` is a short id of software, device and parts, empty if unknown.
    `around` are the values around the block that are not those of the space, by their addresses, in YAML.
    """

    number: int
    name: str
    variant: str
    edits: tuple[str, ...]
    details: tuple[str, ...]
    block: str
    outcome: str
    values: tuple[float, ...]
    until: int | None
    parameters: int
    flops: int
    seconds: float
    repeats: int
    versions: str = ""
    around: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRecord:
    """A search that is over, or (`partial`) in its current state.

    `derivations` counts those of the grammar, `varied` describes the values tried beside them. `budget` is as requested
    (`60 trials`), `spent` the part used, `why_over` is `budget`, `exhausted`, or empty. `proposed` counts proposals,
    `folded` duplicates of earlier ones, `known` the blocks whose results the folder had, `known_failed` those of them
    that had failed. `refused` counts draws that were not proposed by reason (see `history`), `vetoed` the same by veto,
    `passed_over` proposals not trained because of their rank by a zero-cost measure. `random_share` is the share of
    choices made without regard to any result, `wholly_random` the share of proposals with only such choices, `repaired`
    counts those mutated until admitted.

    `chosen` are names of entries, to be trained anew at `confirm_seeds`; `confirmed` judges them against the reference,
    None until all of that is done. `definitions` are those of judged metrics that are no objective. `again` is the
    command that repeats or resumes the search. `mixed` are the versions in which its trials differ, `head` is the hash
    of its records.
    """

    space: str
    question: str
    grammar: str
    derivations: int
    reference: str
    objectives: tuple[SearchObjective, ...]
    sampler: str
    seed: int
    parallel: int
    seeds: tuple[int, ...]
    pruner: str
    budget: str
    spent: str
    why_over: str
    entries: tuple[Entry, ...]
    proposed: int
    folded: int
    known: int
    refused: Mapping[str, int]
    vetoed: Mapping[str, int]
    passed_over: int
    random_share: float
    wholly_random: float
    repaired: int
    correlations: tuple[RungCorrelation, ...]
    confirmed: Summary | None
    chosen: tuple[str, ...]
    confirm_seeds: tuple[int, ...]
    partial: bool
    again: str
    definitions: Mapping[str, str] = field(default_factory=dict)
    known_failed: int = 0
    varied: tuple[str, ...] = ()
    profile: str | None = None
    mixed: tuple[str, ...] = ()
    head: str = ""

    def __repr__(self) -> str:
        over = f"so far, {self.spent} spent" if self.partial else f"{self.spent} spent"
        return f"<SearchRecord of {self.space}: {self.sampler}, {len(self.trained)} blocks trained, {over}>"

    @property
    def trained(self) -> tuple[Entry, ...]:
        return self.entries[1:]

    @property
    def outcomes(self) -> Counter[str]:
        return Counter(entry.outcome for entry in self.trained)

    @property
    def strangers(self) -> tuple[Entry, ...]:
        """Blocks that ran with other versions than the reference, as far as both are known."""
        base = self.entries[0].versions if self.entries else ""
        return tuple(entry for entry in self.trained if base and entry.versions not in ("", base))

    def entry(self, name: str) -> Entry:
        for entry in self.entries:
            if entry.name == name:
                return entry
        raise KeyError(name)

    @property
    def defined(self) -> dict[str, str]:
        return {**self.definitions, **{objective.metric: objective.definition for objective in self.objectives}}
