"""A design as its questions are told apart: its contrasts, how its variants are trained and measured, and its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ablate.plan.plan import Comparison, Factors, PlannedLadder
from ablate.verdict.comparison_key import Unit, unit_of
from ablate.verdict.contrasts import Contrast
from ablate.verdict.finals import RESULTS, Finals
from ablate.verdict.seeds import Seed


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A contrast: its key and the sign with which it stands there, and the hash of how each of its variants is trained,
    and of the tokens it is trained on.
    """

    key: str
    sign: int = 1
    trained: Mapping[str, str]
    corpora: frozenset[str]

    def on(self, metric: str) -> Unit:
        """Return the holder of this contrast's account on a metric."""
        return unit_of(self.key, metric, self.corpora)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRun:
    """A run that verdicts are given on: its variant, its seed, and its id among final metrics."""

    variant: str
    seed: Seed
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedDesign:
    """What identifies the questions of a design: of a plan, or of a table of runs.

    `baseline`, `seeds`, `looks` and the comparisons are as in `plan.Plan`. `trained` is the hash of how each variant is
    trained, by its id, and `compared` has the key of each contrast. `evaluation` and `every` say how runs are measured:
    by how many windows, or for a table by which method they are judged, and how often metrics are read.
    """

    baseline: str
    comparisons: tuple[Comparison, ...]
    factors: tuple[tuple[str, Factors], ...] = ()
    ladders: tuple[tuple[str, PlannedLadder], ...] = ()
    seeds: tuple[Seed, ...]
    looks: tuple[int, ...] = ()
    trained: Mapping[str, str]
    compared: Mapping[Contrast, Compared]
    runs: Sequence[JudgedRun]
    evaluation: object = None
    every: object = None

    def without_result(self, finals: Finals, seeds: Sequence[Seed]) -> tuple[tuple[str, Seed], ...]:
        """Return the variants and seeds whose runs ended without a result, so that they are judged without them."""
        among = {(run.variant, run.seed): finals.get(run.id) for run in self.runs if run.seed in seeds}
        return tuple(sorted((run for run, f in among.items() if f and f["status"] not in RESULTS), key=str))

    def with_result(self, finals: Finals) -> frozenset[tuple[str, Seed]]:
        """Return the variants and seeds whose runs have a result."""
        ended = {(run.variant, run.seed): finals.get(run.id) for run in self.runs}
        return frozenset(run for run, final in ended.items() if final and final["status"] in RESULTS)
