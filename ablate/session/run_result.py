"""The result of a run: its plan, how its trials ended, and the verdicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ablate.execute.controller import EndCounts
from ablate.execute.policy import FAILED
from ablate.plan.plan import Plan
from ablate.plan.trial import Trial
from ablate.report import wording
from ablate.session import dataframes
from ablate.train.events import GOES_ON, Outcome
from ablate.verdict.fairness_audit import Unequal
from ablate.verdict.summary import Summary, verdicts_of

if TYPE_CHECKING:
    import pandas

    from ablate.report.page import PageRecord
    from ablate.report.searched.record import SearchRecord


@dataclass(frozen=True, slots=True)
class Run:
    """The result of a run: the plan, how its trials ended, the verdicts, and what each metric means.

    `verdicts`, `trials`, `curves` and `kernels` are tables (pandas). `ended` counts the trials of this run only;
    `failed` are all trials of the plan that have no result. `results` is the folder. `summary` judges the design's
    comparisons; for a search, those that confirm what it has found, if the space declares them. `searched` is what a
    search has found, and `page` its page for a browser; `gathered` gathers what the page of any other space shows.
    `unequal` is what was not equal between variants, if the space declares equal terms; `mixed` the versions in which
    its trials differ, in lines.
    """

    plan: Plan
    ended: EndCounts
    failed: tuple[tuple[Trial, Outcome], ...]
    summary: Summary | None
    definitions: Mapping[str, str]
    results: Path
    searched: SearchRecord | None = None
    page: Path | None = None
    gathered: Callable[[], PageRecord] | None = None
    unequal: tuple[Unequal, ...] = ()
    mixed: tuple[str, ...] = ()

    def __repr__(self) -> str:
        plan = self.plan
        parts = [f"{plan.design}, {wording.trials_of(plan)}", f"{self.ended.kinds.total()} trained now"]
        parts.append(wording.failed(outcome.kind for _, outcome in self.failed) or "none failed")
        parts += ["stopped before its end"] if self.ended.interrupted else []
        parts.append("no verdicts" if self.summary is None else verdicts_of(self.summary))
        return f"<Run of {plan.space}: {'; '.join(parts)}>"

    @property
    @dataframes.says_columns
    def verdicts(self) -> pandas.DataFrame:
        """A row for each comparison and each judged metric, as the view `effects` in SQL has it.

        For a search these are the comparisons that confirm what it has found: no row without confirmation.

            before      name of the variant before; None for an effect over several variants
            after       name of the variant after; None for an effect over several variants
            more_seeds  more pairs that would decide; missing if it is decided, or if no affordable number would
            ratio, ratio_low, ratio_high, ratio_adjusted_low, ratio_adjusted_high
                        on the log scale after over before, by geometric means, and its intervals: estimate, low, high,
                        adjusted_low and adjusted_high as factors; NaN on the linear scale

        And, as the table `judged` has it (what is NULL in SQL is missing here, and so is the verdict of noise):

        """
        return dataframes.verdicts(self.summary)

    @property
    def trials(self) -> pandas.DataFrame:
        """A row for each trial of the plan, in its order; for a search, each trial that it has requested.

        It is read from the results at each access, and raises InputError if these are gone.

            variant     name of its variant
            seed        decides its batches and its initialisation
            salt        changes only the initialisation: in the A/A arm, which measures the noise; 0 otherwise
            split       the split of its held-out loss: tuning if something is chosen by it, else verdict
            status      finished, diverged, pruned, bug, out_of_memory, timeout, lost, unfinished or planned
            ended_step  the step at which it ended; missing until then
            error       why it failed, if it did
            trial_id    the hash of what decides its numbers
            variant_id  fingerprint of its variant
            versions_id what it ran with: the table `versions` in SQL
            eval_loss, eval_bits_per_byte, peak_kurtosis, …
                        a column for each number of a trial in the table `summaries`: <metric> is the whole model's, or
                        the mean over its parts, at the end of a finished trial; peak_<metric> the largest finite value
                        over all parts and steps, also of a diverged trial; NaN if there is none
        """
        return dataframes.trials(self.plan, self.results)

    @property
    def curves(self) -> pandas.DataFrame:
        """Every metric against the step, over the seeds of each variant, as the view `curves` in SQL has it.

        Diverged and failed trials count up to the step at which they ended. If a variant has trials for the verdict,
        those that only tuned its settings do not count. It is read from the results at each access, and raises
        InputError if these are gone.

            variant     name of the variant
            metric      name of the metric; the run's `definitions` say what each means
            address     the part measured, as in layers.3.attention; empty for the whole model
            step        optimiser steps done before it was measured
            n           trials with a finite value here
            n_not_finite  trials whose value here is NaN or infinite
            mean, sd    mean over the n, and sample standard deviation; NaN if n is too small
            low, high   mean minus, and plus, one sd
            min, max    smallest and largest of the n
        """
        return dataframes.curves(self.plan, self.results)

    @property
    def kernels(self) -> pandas.DataFrame:
        """Snapshots of the kernel matrix of tokens within a sequence (probe `token_kernel`), as the view `kernels` in
        SQL has them: a row for each cell with i >= j; the others are the same.

        It is read from the results at each access, and raises InputError if these are gone.

            variant, seed  of the trial
            step        updates done before the snapshot
            address     the block whose input it is, as in layers.3, or the head
            i, j        row and column: up to 16 ranges of neighbouring positions, or single positions if there are few
            first_i, first_j
                        the first position of each range, from 0
            value       mean cosine of the tokens of both, over sequences; 1 everywhere is rank collapse
        """
        return dataframes.kernels(self.plan, self.results)

    @property
    def fruitless(self) -> bool:
        """True if every trial that it was to train failed, or if all were known and every one had failed."""
        if self.ended.interrupted:
            return False
        ended = {kind for kind, number in self.ended.kinds.items() if number and kind not in GOES_ON}
        if ended:
            return ended <= set(FAILED)
        return bool(self.failed) and len(self.failed) == len({trial.id for trial in self.plan.trials})

    def report(self) -> Mapping[str, str]:
        """Return the answer as texts by file name; pages are drawn when they are first read."""
        from ablate.session import reporting  # loads DuckDB, rich and SciPy, which a Run itself does not need

        if self.searched is not None:
            return reporting.texts_of_search(self.searched)
        assert self.summary is not None
        return reporting.texts_of_verdicts(self.summary, self.definitions, self.gathered, self.mixed)
