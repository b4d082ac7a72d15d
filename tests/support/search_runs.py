"""Searches carried out for real: a design over the world of `tiny_spaces.py`, and the tables that it must end with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

import ablate
from ablate.session import Run
from ablate.space.space import Space
from ablate.store.query import query

TABLES = {
    "rows": "SELECT trial_id, step, metric, address, value FROM metrics ORDER BY ALL",
    "proposals": "SELECT * EXCLUDE plan FROM proposals ORDER BY ALL",
    "variants": "SELECT * EXCLUDE (space, plan) FROM variants ORDER BY ALL",
    "memberships": "SELECT * EXCLUDE (space, plan) FROM memberships ORDER BY ALL",
    "outcomes": "SELECT trial_id, status, ended_step FROM trials ORDER BY ALL",
    "comparisons": "SELECT * EXCLUDE plan FROM comparisons ORDER BY ALL",
}
"""What is the same of two searches of the same seed, however they were disturbed."""


def design(sampler: str = "evolution", *, trials: int = 8, parallel: int = 2, more: str = "") -> str:
    """The setting that makes a search of a space."""
    return (
        "design={search: {from: pre_ln, objective: {eval_loss: min, peak_kurtosis: min}, "
        f"budget: {{trials: {trials}}}, sampler: {sampler}, parallel: {parallel}{more}}}}}"
    )


def searched(path: Path, *settings: str) -> Space:
    """The space at `path`, with these settings."""
    return ablate.load_space(path, settings=settings)


def carry_out(space: Space, results: Path, **options: Any) -> Run:
    """The search, quietly; on this process unless another executor is given."""
    options = {"executor": "inline", **options}
    return ablate.run(space, results=results, console=Console(quiet=True), mirror=False, **options)


def tables_of(results: Path) -> dict[str, list[tuple[object, ...]]]:
    """Everything that a search leaves and that a clock has no part in."""
    return {name: list(query(results, statement).rows) for name, statement in TABLES.items()}
