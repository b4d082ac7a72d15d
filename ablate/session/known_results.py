"""What a results folder knows about a plan: how trials ended, their judgement, the noise and the time measured.

Loads DuckDB and SciPy.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from ablate.plan.plan import Plan
from ablate.session.judging import account_of
from ablate.space.documents import Judge
from ablate.store import questions
from ablate.store.noise import KnownNoise, noise_of
from ablate.store.trial_duration import trial_seconds
from ablate.store.trial_ends import ends_now
from ablate.verdict.finals import Finals
from ablate.verdict.judgement import Account


@dataclass(frozen=True, slots=True)
class KnownResults:
    """A results folder, read under the rules by which a space is judged."""

    folder: Path
    rules: Judge

    def finals(self, trial_ids: Collection[str]) -> Finals:
        """Return how these trials ended, by id."""
        return cast("Finals", ends_now(self.folder, trial_ids))

    def account(self, plan: Plan, finals: Finals | None = None) -> Account:
        """Return which judgement of its questions the seeds of a plan will be."""
        if not questions.read(self.folder):
            return {}
        return account_of(plan, self.rules, self.folder, finals or self.finals([trial.id for trial in plan.trials]))

    def noise(self, plan: Plan) -> KnownNoise:
        """Return the known noise of the judged metrics under the plan's conditions."""
        return noise_of(self.folder, plan, self.rules)

    def trial_seconds(self, plan: Plan, known: frozenset[str]) -> float | None:
        """Return the median time of finished trials with the recipe and size of those still to run."""
        to_run = [trial for trial in plan.trials if plan.open or trial.id not in known]
        return trial_seconds(self.folder, to_run[0]) if to_run else None
