"""A run as tables: its verdicts, trials, curves and kernels as pandas DataFrames, with the columns of SQL."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ablate.output.numbers import factor
from ablate.plan.plan import Plan
from ablate.plan.trial import Trial
from ablate.store.schema import TABLES, effect_fields
from ablate.verdict.summary import Summary

if TYPE_CHECKING:
    import pandas

    from ablate.store.query import QueryResult

RATIOS = {
    "estimate": "ratio",
    "low": "ratio_low",
    "high": "ratio_high",
    "adjusted_low": "ratio_adjusted_low",
    "adjusted_high": "ratio_adjusted_high",
}
"""The column of a ratio for each column of a difference of logarithms."""
FRAME = {"VARCHAR": "object", "DOUBLE": "float64", "BIGINT": "Int64", "BOOLEAN": "bool"}
COLUMNS = ("variant", "seed", "salt", "split", "status", "ended_step", "error", "trial_id", "variant_id", "versions_id")
"""The columns of every table of trials; a column for each summary follows."""

ASKED = """(
    SELECT unnest($trials) AS trial_id, unnest($places) AS place, unnest($names) AS variant, unnest($seeds) AS seed
) m"""
"""The trials of one run, with the places and the names of their variants."""
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


def verdicts(summary: Summary | None) -> pandas.DataFrame:
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


def trials(plan: Plan, folder: Path) -> pandas.DataFrame:
    import pandas

    given = {"trials": sorted({trial.id for trial in plan.trials})}
    ends = {id: rest for id, *rest in _query(folder, TRIALS, given).rows}
    rows: list[dict[str, object]] = []
    for trial in _once(plan.trials):
        status, step, error, versions, numbers = ends.get(trial.id, ("planned", None, None, None, None))
        of_trial = (plan.variant(trial.variant).name, trial.seed, trial.salt, trial.split)
        row = (*of_trial, status, step, error, trial.id, trial.variant, versions)
        rows.append({**dict(zip(COLUMNS, row, strict=True)), **(numbers or {})})
    measured = sorted({name for row in rows for name in row}.difference(COLUMNS))
    frame = pandas.DataFrame(rows, columns=[*COLUMNS, *measured])
    return frame.astype({"ended_step": "Int64"} | dict.fromkeys(measured, "float64"))


def curves(plan: Plan, folder: Path) -> pandas.DataFrame:
    return _counted(plan, folder, CURVES).astype(dict.fromkeys(("mean", "sd", "low", "high", "min", "max"), "float64"))


def kernels(plan: Plan, folder: Path) -> pandas.DataFrame:
    return _counted(plan, folder, KERNELS)


def _counted(plan: Plan, folder: Path, statement: str) -> pandas.DataFrame:
    """Query the trials that represent their variant: those for the verdict, or if it has none, those that tuned it."""
    import pandas

    judged = {trial.variant for trial in plan.trials if trial.split == "verdict"}
    counted = [trial for trial in _once(plan.trials) if trial.split == "verdict" or trial.variant not in judged]
    places = {variant.id: place for place, variant in enumerate(plan.variants)}
    given = {
        "trials": [trial.id for trial in counted],
        "places": [places[trial.variant] for trial in counted],
        "names": [plan.variants[places[trial.variant]].name for trial in counted],
        "seeds": [trial.seed for trial in counted],
    }
    answer = _query(folder, statement, given)
    return pandas.DataFrame(list(answer.rows), columns=list(answer.columns))


def _query(folder: Path, statement: str, given: Mapping[str, object]) -> QueryResult:
    from ablate.store.query import asking  # loads DuckDB, which a table of verdicts does not need

    with asking(folder) as ask:
        return ask(statement, given)


def _once(trials: Iterable[Trial]) -> list[Trial]:
    return list({(trial.variant, trial.id): trial for trial in trials}.values())
