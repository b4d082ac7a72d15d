"""Noise of real trainings, as `tests/benchmarks/training_noise.py` kept it: no effect is left, all variation is.

Each arm's results are taken less their mean over the seeds. A table takes some of the seeds, each once and whole, in
any order, and turns the signs of all that is at a seed at random: what an arm has at a seed stays beside what the
others have there, so an edit's effect varies over seeds as it did, tails are as heavy, and the mean that is drawn from
is 0 in every arm: whatever is found in such tables is false. Turned signs make every distribution symmetric, which is
what the manual's promises are about; `as_they_are` leaves tails on the side that they are on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

import ablate
from ablate.plan.plan import Plan
from ablate.session.planning import plan_space

Floats = NDArray[np.float64]
BENCH = Path(__file__).parents[2] / "results" / "bench"


@dataclass(frozen=True, eq=False)
class Trained:
    """A space that was trained: its text, the names of its arms, and final metrics [arms, seeds] by name."""

    name: str
    text: str
    arms: tuple[str, ...]
    values: dict[str, Floats]

    @property
    def seeds(self) -> int:
        """The seeds at which every arm has a result."""
        return next(iter(self.values.values())).shape[1]

    @property
    def pairs(self) -> int:
        """The number of paired differences that there are."""
        return len(self.compared) * self.seeds

    @property
    def compared(self) -> list[tuple[int, int]]:
        """The arms compared with each other; in a factorial each with the first."""
        plan = self.plan(2)
        if plan.factors:
            return [(0, arm) for arm in range(1, len(self.arms))]
        of = dict(zip((variant.id for variant in plan.variants), self.places(plan), strict=True))
        return sorted({(of[c.before], of[c.after]) for c in plan.comparisons if c.before})

    def level(self, metric: str, *, log: bool = False) -> Floats:
        """The mean of each arm [arms], of logarithms if `log`."""
        values = self.values[metric]
        means: Floats = (np.log(values) if log else values).mean(axis=1)
        return means

    def residuals(self, metric: str, *, log: bool = False) -> Floats:
        """What each arm has at a seed beyond its mean [arms, seeds], of logarithms if `log`."""
        values = self.values[metric]
        centred: Floats = (np.log(values) if log else values) - self.level(metric, log=log)[:, None]
        return centred

    def plan(self, seeds: int, design: str = "") -> Plan:
        """The plan of the space at so many seeds, or of another design over its blocks."""
        return planned(self.name, self.text, seeds, design)

    def places(self, plan: Plan) -> list[int]:
        """Which arm each variant of a plan is, by its edits, or by its name where arms have none."""
        own = self.plan(2)
        by_edits = {frozenset(variant.edits): place for place, variant in enumerate(own.variants)}
        if len(by_edits) == len(own.variants):
            return [by_edits[frozenset(variant.edits)] for variant in plan.variants]
        return [self.arms.index(variant.name) for variant in plan.variants]


@cache
def planned(name: str, text: str, seeds: int, design: str) -> Plan:
    """The plan of a space's text; with `design` in place of its own, if any."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.yaml"
        path.write_text(text, encoding="utf-8")
        settings = [f"seeds={seeds}", *([f"design={design}"] if design else [])]
        return plan_space(ablate.load_space(path, settings=settings), results=Path(folder) / "results").plan


def newest() -> Path:
    """The file with the newest kept trainings."""
    return sorted(BENCH.glob("*-training_noise.jsonl"))[-1]


@cache
def trained(path: Path) -> tuple[Trained, ...]:
    """The spaces of a file, with the seeds at which every arm finished."""
    _, *lines = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return tuple(map(_read, lines))


def _read(line: dict) -> Trained:
    arms = tuple(line["values"])
    metrics = line["values"][arms[0]]
    values = {name: np.array([line["values"][arm][name] for arm in arms], dtype=np.float64) for name in metrics}
    whole = np.logical_and.reduce([np.isfinite(table).all(axis=0) for table in values.values()])
    kept = {name: table[:, whole] for name, table in values.items()}
    return Trained(name=line["space"], text=line["text"], arms=arms, values=kept)


def drawn(residuals: Floats, seeds: int, times: int, random: np.random.Generator) -> Iterator[Floats]:
    """So many tables [arms, seeds] of whole seeds, each at most once, with signs turned at random."""
    for _ in range(times):
        taken = random.permutation(residuals.shape[1])[:seeds]
        yield residuals[:, taken] * random.choice([-1.0, 1.0], size=seeds)


def as_they_are(residuals: Floats, seeds: int, times: int, random: np.random.Generator) -> Iterator[Floats]:
    """So many tables [arms, seeds] of whole seeds drawn with replacement, no sign turned.

    Of few seeds some come twice, which by itself makes differences look surer than they are: compare `normal`.
    """
    for _ in range(times):
        yield residuals[:, random.integers(residuals.shape[1], size=seeds)]


def normal(
    residuals: Floats, seeds: int, times: int, random: np.random.Generator, *, turned: bool = False
) -> Iterator[Floats]:
    """As `drawn` if `turned`, else as `as_they_are`, from `normal_seeds` that are made anew for each table."""
    for _ in range(times):
        yield from (drawn if turned else as_they_are)(normal_seeds(residuals, random), seeds, 1, random)


def normal_seeds(residuals: Floats, random: np.random.Generator) -> Floats:
    """As many normal seeds [arms, seeds] as there are residuals, with their covariance, each arm less its mean."""
    covariance = np.cov(residuals)
    root = np.linalg.cholesky(covariance + 1e-12 * np.trace(covariance) * np.eye(len(residuals)))
    made: Floats = root @ random.standard_normal(residuals.shape)
    return made - made.mean(axis=1, keepdims=True)
