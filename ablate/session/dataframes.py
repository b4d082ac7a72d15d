"""A run as tables: its verdicts, trials, curves and kernels as pandas DataFrames, with the columns of SQL."""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ablate.plan.plan import Plan
from ablate.plan.trial import Trial
from ablate.store.records import effect_fields
from ablate.store.schema import TABLES
from ablate.verdict.summary import Effect, Summary

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import pandas

    from ablate.store.query import Ask

RATIOS = {
    "estimate": "ratio",
    "low": "ratio_low",
    "high": "ratio_high",
    "adjusted_low": "ratio_adjusted_low",
    "adjusted_high": "ratio_adjusted_high",
}
"""The column of a ratio for each column of a difference of logarithms."""
FRAME = {"VARCHAR": "object", "DOUBLE": "float64", "BIGINT": "Int64", "BOOLEAN": "bool"}
"""The pandas dtype of each SQL type."""
TRIALS = ("variant", "seed", "salt", "split", "status", "ended_step", "error", "trial_id", "variant_id", "versions_id")
"""The columns of every table of trials; a column for each summary follows."""

ENDS = """
    SELECT trial_id, status, ended_step, detail, versions_id FROM trials
    WHERE trial_id IN (SELECT unnest($trials))
"""
SUMMARIES = """
    SELECT trial_id, name, value FROM summaries WHERE trial_id IN (SELECT unnest($trials)) ORDER BY name
"""
CURVES = """
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
    FROM metrics x
    JOIN (
        SELECT unnest($trials) AS trial_id, unnest($places) AS place, unnest($names) AS variant, unnest($seeds) AS seed
    ) m USING (trial_id)
    WHERE x.metric <> 'token_kernel'
    GROUP BY m.place, m.variant, x.metric, x.address, x.step ORDER BY m.place, x.metric, x.address, x.step
"""
"""The view `curves`, restricted to the trials of one run."""
KERNELS = """
    SELECT m.variant, m.seed, k.step, k.address, k.i, k.j, k.first_i, k.first_j, k.value
    FROM (SELECT DISTINCT trial_id, step, address, i, j, first_i, first_j, value FROM kernels) k
    JOIN (SELECT unnest($trials) AS trial_id, unnest($names) AS variant, unnest($seeds) AS seed) m USING (trial_id)
    ORDER BY m.variant, m.seed, k.step, len(k.address), k.address, k.i, k.j
"""


def verdicts(summary: Summary | None) -> pandas.DataFrame:
    """Return a row for each comparison and each metric; none if nothing was judged."""
    import pandas

    names = {} if summary is None else {arm.variant: arm.name for arm in summary.arms}
    types = _verdict_types()
    rows = [_verdict(effect, names, types) for effect in (summary.effects if summary is not None else ())]
    return pandas.DataFrame(rows, columns=list(types)).astype(types)


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


def _verdict_types() -> dict[str, str]:
    """Return the columns of a frame of verdicts with their types: those of an effect in SQL, ratios and more seeds."""
    sql = {column.name: column.type for column in TABLES["judged"].columns}
    types = {field: FRAME[sql[name]] for name, field in effect_fields().items()}
    types |= dict.fromkeys(("n", "ranked"), "int64") | dict.fromkeys(RATIOS.values(), FRAME["DOUBLE"])
    return {"more_seeds" if name == "seeds_needed" else name: type for name, type in types.items()}


def _verdict(effect: Effect, names: Mapping[str, str], columns: Iterable[str]) -> dict[str, Any]:
    ends = {ratio: getattr(effect, of) for of, ratio in RATIOS.items()}
    needed = effect.seeds_needed if effect.verdict == "undecided" and effect.judged else None
    return {
        **{name: getattr(effect, name, None) for name in columns},
        "before": names.get(effect.before),
        "after": names.get(effect.after),
        "verdict": effect.verdict if effect.judged else None,
        **{ratio: _ratio(value) if effect.scale == "log" else None for ratio, value in ends.items()},
        "more_seeds": None if needed is None else needed - (effect.ranked or effect.n),
    }


def _ratio(logarithm: float | None) -> float | None:
    """Return the ratio of its logarithm; zero or infinity for an unbounded end of an interval."""
    if logarithm is None:
        return None
    try:
        return math.exp(logarithm)
    except OverflowError:
        return math.inf


def trials(plan: Plan, folder: Path) -> pandas.DataFrame:
    """Return a row for each trial of a plan, in its order, as the results have it now."""
    import pandas

    given = {"trials": sorted({trial.id for trial in plan.trials})}
    with _asking(folder) as ask:
        ends = {id: rest for id, *rest in ask(ENDS, given).rows}
        numbers: dict[str, dict[str, float]] = {}
        for id, name, value in ask(SUMMARIES, given).rows:
            numbers.setdefault(id, {})[name] = value
    rows = []
    for trial in _once(plan.trials):
        status, step, detail, versions = ends.get(trial.id, ("planned", None, None, None))
        rows.append(
            {
                "variant": plan.variant(trial.variant).name,
                "seed": trial.seed,
                "salt": trial.salt,
                "split": trial.split,
                "status": status,
                "ended_step": step,
                "error": _error(detail),
                "trial_id": trial.id,
                "variant_id": trial.variant,
                "versions_id": versions,
                **numbers.get(trial.id, {}),
            }
        )
    measured = sorted({name for each in numbers.values() for name in each})
    frame = pandas.DataFrame(rows, columns=[*TRIALS, *measured])
    return frame.astype({"ended_step": "Int64"} | dict.fromkeys(measured, "float64"))


def _error(detail: str | None) -> str | None:
    fields = json.loads(detail) if detail else {}
    error = fields.get("error") or fields.get("cause")
    return None if error is None else str(error)


def curves(plan: Plan, folder: Path) -> pandas.DataFrame:
    """Return every metric against the step, over the seeds of each variant, as the results have it now."""
    import pandas

    counted = _counted(plan)
    places = {variant.id: place for place, variant in enumerate(plan.variants)}
    given = {
        "trials": [trial.id for trial in counted],
        "places": [places[trial.variant] for trial in counted],
        "names": [plan.variants[places[trial.variant]].name for trial in counted],
        "seeds": [trial.seed for trial in counted],
    }
    with _asking(folder) as ask:
        answer = ask(CURVES, given)
    frame = pandas.DataFrame(list(answer.rows), columns=list(answer.columns))
    return frame.astype(dict.fromkeys(("mean", "sd", "low", "high", "min", "max"), "float64"))


def kernels(plan: Plan, folder: Path) -> pandas.DataFrame:
    """Return every cell of every snapshot of a kernel, as the results have them now."""
    import pandas

    counted = _counted(plan)
    given = {
        "trials": [trial.id for trial in counted],
        "names": [plan.variant(trial.variant).name for trial in counted],
        "seeds": [trial.seed for trial in counted],
    }
    with _asking(folder) as ask:
        answer = ask(KERNELS, given)
    return pandas.DataFrame(list(answer.rows), columns=list(answer.columns))


def _asking(folder: Path) -> AbstractContextManager[Ask]:
    from ablate.store.query import asking  # loads DuckDB, which a table of verdicts does not need

    return asking(folder)


def _counted(plan: Plan) -> list[Trial]:
    """Return the trials that represent their variant: those for the verdict, or if it has none, those that tuned it."""
    judged = {trial.variant for trial in plan.trials if trial.split == "verdict"}
    return [trial for trial in _once(plan.trials) if trial.split == "verdict" or trial.variant not in judged]


def _once(trials: Iterable[Trial]) -> list[Trial]:
    """Return the trials of each variant, once each."""
    return list({(trial.variant, trial.id): trial for trial in trials}.values())
