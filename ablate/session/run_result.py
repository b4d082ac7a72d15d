"""Run result: the plan of a run, how its trials ended, and the verdicts, as values, tables and texts."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ablate.execute.controller import EndCounts
from ablate.execute.executor import FAILED
from ablate.output.words import factor
from ablate.plan.plan import Plan, Trial
from ablate.report import wording
from ablate.store.schema import TABLES, effect_fields
from ablate.train.events import GOES_ON, Outcome
from ablate.verdict.fairness_audit import Unequal
from ablate.verdict.summary import Summary, verdicts_of

if TYPE_CHECKING:
    import pandas

    from ablate.report.document import ReportDocument
    from ablate.report.page import PageRecord
    from ablate.report.searched.record import SearchRecord
    from ablate.store.query import QueryResult

RATIOS = {
    "estimate": "ratio",
    "low": "ratio_low",
    "high": "ratio_high",
    "adjusted_low": "ratio_adjusted_low",
    "adjusted_high": "ratio_adjusted_high",
}
FRAME = {"VARCHAR": "object", "DOUBLE": "float64", "BIGINT": "Int64", "BOOLEAN": "bool"}
COLUMNS = ("variant", "seed", "salt", "split", "status", "ended_step", "error", "trial_id", "variant_id", "versions_id")

ASKED = """(
    SELECT unnest($trials) AS trial_id, unnest($places) AS place, unnest($names) AS variant, unnest($seeds) AS seed
) m"""
TRIALS = """
    SELECT trial_id, status, ended_step, coalesce(detail ->> 'error', detail ->> 'cause'), versions_id, (
        SELECT map_from_entries(list((name, value))) FROM summaries s WHERE s.trial_id = trials.trial_id
    )
    FROM trials WHERE trial_id IN (SELECT unnest($trials))
"""
CURVES = f"""
    SELECT
        m.variant, x.metric, x.address, x.step,
        count(*) FILTER (isfinite(x.value)) AS n,
        count(*) FILTER (NOT isfinite(x.value)) AS n_not_finite,
        avg(x.value ORDER BY m.seed, m.trial_id) FILTER (isfinite(x.value)) AS mean,
        stddev_samp(x.value ORDER BY m.seed, m.trial_id) FILTER (isfinite(x.value)) AS sd,
        mean - sd AS low,
        mean + sd AS high,
        min(x.value) FILTER (isfinite(x.value)) AS min,
        max(x.value) FILTER (isfinite(x.value)) AS max
    FROM metrics x JOIN {ASKED} USING (trial_id)
    WHERE x.metric <> 'token_kernel'
    GROUP BY m.place, m.variant, x.metric, x.address, x.step ORDER BY m.place, x.metric, x.address, x.step
"""
"""The view `curves`, restricted to the trials of one run."""
KERNELS = f"""
    SELECT m.variant, m.seed, k.step, k.address, k.i, k.j, k.first_i, k.first_j, k.value
    FROM (SELECT DISTINCT trial_id, step, address, i, j, first_i, first_j, value FROM kernels) k
    JOIN {ASKED} USING (trial_id)
    ORDER BY m.variant, m.seed, k.step, len(k.address), k.address, k.i, k.j
"""


def verdict_frame(summary: Summary | None) -> pandas.DataFrame:
    import pandas

    names = {} if summary is None else {arm.variant: arm.name for arm in summary.arms}
    sql = {column.name: column.type for column in TABLES["judged"].columns}
    fields = {name: "more_seeds" if name == "seeds_needed" else field for name, field in effect_fields().items()}
    types = {field: FRAME[sql[name]] for name, field in fields.items()}
    types |= dict.fromkeys(("n", "ranked"), "int64") | dict.fromkeys(RATIOS.values(), FRAME["DOUBLE"])
    rows = []
    for effect in summary.effects if summary is not None else ():
        row = {name: getattr(effect, name, None) for name in types}
        row |= {"before": names.get(effect.before), "after": names.get(effect.after)}
        row["verdict"] = effect.verdict if effect.judged else None
        if effect.verdict == "undecided" and effect.judged and effect.seeds_needed is not None:
            row["more_seeds"] = effect.seeds_needed - (effect.ranked or effect.n)
        rows.append(row)
    frame = pandas.DataFrame(rows, columns=list(types)).astype(types)
    for of, ratio in RATIOS.items():  # by the exponential function of C, as in SQL: NumPy's own may differ in a bit
        frame[ratio] = frame[of].map(factor).where(frame["scale"] == "log")
    return frame


def says_columns(table: Callable[[Any], pandas.DataFrame]) -> Callable[[Any], pandas.DataFrame]:
    """Append to the docstring of a table of verdicts the columns that SQL has too, as `tables.sql` describes them."""
    indent = " " * (len(re.findall(r"\n( *)\S", table.__doc__ or "\n        .")[0]) + 4)
    comments = {column.name: column.comment for column in TABLES["judged"].columns}
    lines = [
        textwrap.fill(
            comments[name],
            width=120,
            initial_indent=f"{indent}{field:<11} " if len(field) < 12 else f"{indent}{field}\n{indent}{'':<12}",
            subsequent_indent=f"{indent}{'':<12}",
        )
        for name, field in effect_fields().items()
        if name not in ("before_id", "after_id", "seeds_needed")
    ]
    table.__doc__ = "\n".join([(table.__doc__ or "").rstrip(), "", *lines, indent[4:]])
    return table


def trial_frame(plan: Plan, folder: Path) -> pandas.DataFrame:
    import pandas

    given = {"trials": sorted({trial.id for trial in plan.trials})}
    ends = {id: rest for id, *rest in _query(folder, TRIALS, given).rows}
    rows: list[dict[str, str | float | None]] = []
    for trial in _once(plan.trials):
        status, step, error, versions, numbers = ends.get(trial.id, ("planned", None, None, None, None))
        of_trial = (plan.variant(trial.variant).name, trial.seed, trial.salt, trial.split)
        row = (*of_trial, status, step, error, trial.id, trial.variant, versions)
        rows.append({**dict(zip(COLUMNS, row, strict=True)), **(numbers or {})})
    measured = sorted({name for row in rows for name in row}.difference(COLUMNS))
    frame = pandas.DataFrame(rows, columns=[*COLUMNS, *measured])
    return frame.astype({"ended_step": "Int64"} | dict.fromkeys(measured, "float64"))


def curve_frame(plan: Plan, folder: Path) -> pandas.DataFrame:
    return _counted(plan, folder, CURVES).astype(dict.fromkeys(("mean", "sd", "low", "high", "min", "max"), "float64"))


def _counted(plan: Plan, folder: Path, statement: str) -> pandas.DataFrame:
    """Query the trials that represent their variant: those for the verdict, or if it has none, those that tuned it."""
    import pandas

    judged = {trial.variant for trial in plan.trials if trial.split == "verdict"}
    counted = [trial for trial in _once(plan.trials) if trial.split == "verdict" or trial.variant not in judged]
    places = {variant.id: place for place, variant in enumerate(plan.variants)}
    given: dict[str, Sequence[str | int]] = {
        "trials": [trial.id for trial in counted],
        "places": [places[trial.variant] for trial in counted],
        "names": [plan.variants[places[trial.variant]].name for trial in counted],
        "seeds": [trial.seed for trial in counted],
    }
    answer = _query(folder, statement, given)
    return pandas.DataFrame(list(answer.rows), columns=list(answer.columns))


def _query(folder: Path, statement: str, given: Mapping[str, Sequence[str | int]]) -> QueryResult:
    from ablate.store.query import asking  # loads DuckDB, which a table of verdicts does not need

    with asking(folder) as ask:
        return ask(statement, given)


def _once(trials: Iterable[Trial]) -> list[Trial]:
    return list({(trial.variant, trial.id): trial for trial in trials}.values())


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
    @says_columns
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
        return verdict_frame(self.summary)

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
        return trial_frame(self.plan, self.results)

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
        return curve_frame(self.plan, self.results)

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
        return _counted(self.plan, self.results, KERNELS)

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
        """The answer as texts by file name; pages are drawn when they are first read."""
        if self.searched is not None:
            return texts_of_search(self.searched)
        assert self.summary is not None
        return texts_of_verdicts(self.summary, self.definitions, self.gathered, self.mixed)


# Texts: pages and JSON of an answer. What draws them is loaded when they are asked for.


def rendered(document: ReportDocument, name: str) -> dict[str, str]:
    from ablate.report import html_renderer, markdown_renderer

    return {f"{name}.md": markdown_renderer.render(document), f"{name}.html": html_renderer.render(document)}


def texts_of_search(record: SearchRecord) -> Mapping[str, str]:
    from ablate.report.searched import page as page_of_search
    from ablate.report.searched import sections as sections_of_search

    return {**rendered(page_of_search(record), "search"), "search.json": sections_of_search.to_json(record)}


def texts_of_verdicts(
    summary: Summary,
    definitions: Mapping[str, str],
    gathered: Callable[[], PageRecord] | None,
    mixed: Sequence[str] = (),
) -> Mapping[str, str]:
    """Texts by file name; the page is drawn when it is first read."""
    from ablate.report import json_form
    from ablate.report.effect_tables import to_markdown
    from ablate.report.page import page
    from ablate.store.mirror import Texts

    verdicts = {
        "verdicts.md": to_markdown(summary, definitions),
        "verdicts.json": json_form.to_json(summary, definitions, mixed),
    }
    return verdicts if gathered is None else Texts(verdicts, lambda: rendered(page(gathered()), "page"))
