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
"""What a difference of logarithms is called as a ratio."""
FRAME = {"VARCHAR": "object", "DOUBLE": "float64", "BIGINT": "Int64", "BOOLEAN": "bool"}
"""What pandas holds each type of SQL in."""
TRIALS = ("variant", "seed", "salt", "split", "status", "ended_step", "error", "trial_id", "variant_id", "versions_id")
"""The columns that are there whatever was measured; a column for each summary follows."""

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
"""As the view `curves`, of the trials of one run."""
KERNELS = """
    SELECT m.variant, m.seed, k.step, k.address, k.i, k.j, k.first_i, k.first_j, k.value
    FROM (SELECT DISTINCT trial_id, step, address, i, j, first_i, first_j, value FROM kernels) k
    JOIN (SELECT unnest($trials) AS trial_id, unnest($names) AS variant, unnest($seeds) AS seed) m USING (trial_id)
    ORDER BY m.variant, m.seed, k.step, len(k.address), k.address, k.i, k.j
"""


def verdicts(summary: Summary | None) -> pandas.DataFrame:
    """A row for each comparison and each metric; none where nothing was judged."""
    import pandas

    names = {} if summary is None else {arm.variant: arm.name for arm in summary.arms}
    types = _verdict_types()
    rows = [_verdict(effect, names, types) for effect in (summary.effects if summary is not None else ())]
    return pandas.DataFrame(rows, columns=list(types)).astype(types)


def says_columns(table: Callable[[Any], pandas.DataFrame]) -> Callable[[Any], pandas.DataFrame]:
    """Have a docstring of a table of verdicts end with the columns that SQL has too, as `tables.sql` says them."""
    indent = " " * (len(re.findall(r"\n( *)\S", table.__doc__ or "\n        .")[0]) + 4)
    said = {column.name: column.comment for column in TABLES["judged"].columns}
    lines = [
        textwrap.fill(
            said[name],
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
    """The columns of a frame of verdicts with their types: what SQL has of an effect, ratios and more seeds."""
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
    """What a logarithm of a ratio says; of an end that n does not bound, nothing or everything."""
    if logarithm is None:
        return None
    try:
        return math.exp(logarithm)
    except OverflowError:
        return math.inf


def trials(plan: Plan, folder: Path) -> pandas.DataFrame:
    """A row for each trial of a plan, in its order, as the results have it now."""
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
    said = json.loads(detail) if detail else {}
    found = said.get("error") or said.get("cause")
    return None if found is None else str(found)


def curves(plan: Plan, folder: Path) -> pandas.DataFrame:
    """Every metric against the step, over the seeds of each variant, as the results have it now."""
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
    """Every cell of every snapshot of a kernel, as the results have them now."""
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
    from ablate.store.query import asking  # with DuckDB, which a table of verdicts does without

    return asking(folder)


def _counted(plan: Plan) -> list[Trial]:
    """The trials that stand for their variant: where it has some for the verdict, not those that chose its settings."""
    judged = {trial.variant for trial in plan.trials if trial.split == "verdict"}
    return [trial for trial in _once(plan.trials) if trial.split == "verdict" or trial.variant not in judged]


def _once(trials: Iterable[Trial]) -> list[Trial]:
    """The trials of each variant, once each."""
    return list({(trial.variant, trial.id): trial for trial in trials}.values())
