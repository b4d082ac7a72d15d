"""Reads pages, and the numbers of their runs, from the DuckDB file."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any

import duckdb

from ablate.errors import RefusedError
from ablate.store import verdicts
from ablate.store.checksummed_lines import compact
from ablate.store.kept_forecasts import NOT_KEPT
from ablate.store.mlflow import notes
from ablate.store.mlflow.answers import VariantAnswer, answer, judged_metrics, read_means, unanswered
from ablate.store.mlflow.naming import PARAM_LENGTH, TAG_LENGTH, colour, edit_keys, short
from ablate.store.mlflow.values import (
    ATTEMPT,
    COLOUR,
    DIGEST,
    KIND,
    NOTE,
    TRIAL,
    MlflowRun,
    MlflowVariant,
    Page,
    Point,
)
from ablate.store.projection import DATABASE, is_ours, reading

FORM = 5
"""Incremented when runs of the same trials show something different: then every run is sent again."""
CURVES = ("train_loss", "eval_loss", "eval_bits_per_byte")
EXTREMES: Mapping[str, str] = {
    "kurtosis": "max",
    "max_median_ratio": "max",
    "token_correlation_rms": "max",
    "token_cosine": "max",
    "activation_rms": "max",
    "gradient_norm": "max",
    "attention_entropy": "min",
}
"""Curves over all parts: for each metric its most extreme part at each step, as `max.kurtosis`."""
FINALS = """
    name IN ('eval_loss', 'eval_bits_per_byte', 'token_correlation', 'step_seconds', 'tokens_per_second')
    OR (starts_with(name, 'peak_') AND name <> 'peak_token_correlation_rms' AND name NOT IN (
        'peak_eval_loss', 'peak_eval_bits_per_byte', 'peak_train_loss', 'peak_learning_rate'))
    OR name IN (SELECT unnest(json_keys(resolved, '$.judge.metrics')) FROM spaces WHERE resolved IS NOT NULL)
"""
"""Numbers of the view `numbers` that finished trials show: losses, the largest value of every probe metric, and
whatever a space judges. A number that is also a curve is `final_…`."""
DIVERGED = "seeds_diverged"
"""0 or 1 for a run; its mean over a group is the share of seeds that diverged."""
NOT_PARAMS = frozenset({"trial", "variant", "folder", "conditions"})
"""Parts of a specification that are not parameters: ids and paths. The block is in the description."""

Row = Mapping[str, Any]


def extreme_name(metric: str) -> str:
    """Return the name of the curve of a metric's most extreme part."""
    return f"{EXTREMES[metric]}.{metric}"


def final_name(summary: str) -> str:
    """Return the name in MLflow of a number of the table `summaries`."""
    return f"final_{summary}" if summary in CURVES else summary


def read_pages(folder: Path, trials: Collection[str] | None = None) -> list[Page]:
    """Read every space that has an ended trial, with all of its ended trials, or only those in `trials`; needs a
    refreshed DuckDB file.
    """
    if not (folder / DATABASE).exists():
        return []
    with reading(folder / DATABASE) as connection:
        if not is_ours(connection):
            raise RefusedError(f"{folder / DATABASE} has the tables of another version\n  = a run rebuilds it")
        spaces = _rows(
            connection,
            "SELECT s.*, (SELECT count(*) FROM memberships m WHERE m.space = s.space) AS requested FROM spaces s "
            "ORDER BY space",
        )
        variants = _rows(connection, VARIANTS)
        comparisons = _rows(connection, "SELECT space, change, detail FROM comparisons WHERE kind = 'edit'")
        wanted = None if trials is None else list(trials)
        ended = _rows(connection, TRIALS, [wanted])
        judged = _judged(folder, connection)
        means = read_means(connection, judged)
    pages = [
        _page(
            space,
            [row for row in variants if row["space"] == space["space"]],
            {row["change"]: row["detail"] for row in comparisons if row["space"] == space["space"]},
            [row for row in ended if row["space"] == space["space"]],
            judged.get(space["space"]),
            means,
        )
        for space in spaces
    ]
    return [page for page in pages if page.runs]


def _judged(folder: Path, connection: duckdb.DuckDBPyConnection) -> dict[str, Mapping[str, Any]]:
    """Read the verdicts of each space whose current plan was judged."""
    current = {(row["space"], row["plan"]) for row in _rows(connection, "SELECT space, plan FROM plans WHERE current")}
    return {
        space: document
        for space, plans in verdicts.read(folder).items()
        for plan, (_, document) in plans.items()
        if (space, plan) in current
    }


FORECAST = ("growth", "cosine", "gradient", "logits", "context", "refused")
"""The columns of the view `forecasts` that runs have as parameters, as `forecast.cosine`."""
VARIANTS = f"""
SELECT v.*, f.dangers, {", ".join(f"f.{name}" for name in FORECAST)}
FROM variants v LEFT JOIN forecasts f USING (plan, variant_id) ORDER BY v.space, v.position
"""

TRIALS = """
SELECT m.space, m.trial_id, m.variant_id, m.seed,
    t.attempt, t.status, t.ended_step, t.detail, t.specification, t.digest,
    t.salt, t.split, t.steps, t.lr, t.conditions,
    (SELECT seconds FROM timings x WHERE x.trial_id = t.trial_id AND name = 'began') AS began,
    (SELECT seconds FROM timings x WHERE x.trial_id = t.trial_id AND name = 'ended') AS ended,
    (SELECT string_agg(name || ' ' || version, ', ' ORDER BY name) FROM versions x
        WHERE x.versions_id = t.versions_id) AS versions
FROM memberships m
JOIN trials t ON t.trial_id = m.trial_id AND t.digest IS NOT NULL
JOIN variants v ON v.space = m.space AND v.variant_id = m.variant_id
WHERE $1 IS NULL OR list_contains($1, m.trial_id)
ORDER BY m.space, v.position, m.seed, m.trial_id
"""


def read_points(folder: Path, trials: Collection[str]) -> dict[str, list[Point]]:
    """Read the curves and final numbers of each trial, finite values only: MLflow's axes cannot show others."""
    extremes = " ".join(f"WHEN '{metric}' THEN {extreme}(value)" for metric, extreme in EXTREMES.items())
    names = " ".join(f"WHEN '{metric}' THEN '{extreme_name(metric)}'" for metric in EXTREMES)
    with reading(folder / DATABASE) as connection:
        rows = connection.execute(
            f"""
            WITH wanted AS (SELECT unnest($1) AS trial_id), found AS (
                SELECT trial_id, metric, step, value FROM metrics JOIN wanted USING (trial_id)
                WHERE isfinite(value) AND metric IN {CURVES} AND address = ''
                UNION ALL
                SELECT trial_id, CASE metric {names} END, step, CASE metric {extremes} END
                FROM metrics JOIN wanted USING (trial_id)
                WHERE isfinite(value) AND metric IN {tuple(EXTREMES)}
                GROUP BY trial_id, metric, step
                UNION ALL
                SELECT trial_id, CASE WHEN name IN {CURVES} THEN 'final_' || name ELSE name END, 0, value
                FROM numbers JOIN trials USING (trial_id) JOIN wanted USING (trial_id)
                WHERE ({FINALS}) AND status = 'finished'
                UNION ALL
                SELECT trial_id, '{DIVERGED}', 0, (status = 'diverged')::DOUBLE
                FROM trials JOIN wanted USING (trial_id) WHERE status IN ('finished', 'diverged')
            )
            FROM found ORDER BY ALL
            """,
            [list(trials)],
        ).fetchall()
    return {
        trial: [Point(*row[1:]) for row in group if math.isfinite(row[3])]
        for trial, group in groupby(rows, key=lambda row: row[0])
    }


def _rows(connection: duckdb.DuckDBPyConnection, statement: str, values: Sequence[Any] = ()) -> list[Row]:
    cursor = connection.execute(statement, values)
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _page(
    space: Row,
    variants: list[Row],
    details: Mapping[str, str],
    trials: list[Row],
    judged: Mapping[str, Any] | None,
    means: Mapping[tuple[str, str], Mapping[str, float]],
) -> Page:
    by_id = {row["variant_id"]: _variant(row) for row in variants}
    keys = edit_keys(edit for variant in by_id.values() for edit in variant.edits)
    baseline = by_id.get(space["baseline"])
    shared = {"design": space["design"] or "", "against": baseline.name if baseline else ""}
    answers = {
        id: _answer(id, variant, baseline, judged, means.get((space["space"], id), {})) for id, variant in by_id.items()
    }
    runs = (
        _run(row, by_id[row["variant_id"]], baseline, shared, details, keys, answers[row["variant_id"]])
        for row in trials
    )
    return Page(
        space=space["space"],
        question=space["question"] or "",
        design=shared["design"],
        baseline=shared["against"],
        requested=space["requested"],
        variants=tuple(by_id.values()),
        details=details,
        keys=keys,
        runs=tuple(runs),
        judged=judged_metrics(judged),
    )


def _answer(
    id: str,
    variant: MlflowVariant,
    baseline: MlflowVariant | None,
    judged: Mapping[str, Any] | None,
    means: Mapping[str, float],
) -> VariantAnswer:
    edits = "" if baseline is None else "; ".join(notes.difference(variant, baseline)) or "the baseline"
    return answer(variant.name, id, edits, judged, means) if judged else unanswered(variant.name, edits)


def _variant(row: Row) -> MlflowVariant:
    return MlflowVariant(
        name=row["variant"],
        position=row["position"],
        edits=tuple(row["edits"] or ()),
        parameters=row["parameters"],
        flops=row["flops"],
        block=row["block"] or "",
        terms=tuple(row["terms"] or ()),
        forecast=dict(_forecast(row)),
    )


def _forecast(row: Row) -> Iterator[tuple[str, str]]:
    """Yield what was forecast of a variant, or why nothing was; nothing where the plan was kept without forecasts."""
    if row["refused"] == NOT_KEPT:
        return
    for name in FORECAST:
        if row[name] is not None:
            yield f"forecast.{name}", f"{row[name]:.6g}" if isinstance(row[name], float) else str(row[name])
    if row["dangers"] is not None:
        yield "forecast.dangers", "; ".join(row["dangers"]) or "none"


def _run(
    row: Row,
    variant: MlflowVariant,
    baseline: MlflowVariant | None,
    shared: Mapping[str, str],
    details: Mapping[str, str],
    keys: Mapping[str, str],
    shown: VariantAnswer,
) -> MlflowRun:
    name = ("" if row["status"] == "finished" else f"{row['status']}: ") + f"{variant.name} seed {row['seed']}"
    name += f", tuning, lr {row['lr']:g}" if row["split"] == "tuning" and shared["design"] != "search" else ""
    params = {
        "variant": variant.name,
        "parameters": str(variant.parameters),
        "flops": str(variant.flops),
        **{key: "yes" if edit in variant.edits else "no" for edit, key in keys.items()},
        **dict(_flat(json.loads(row["specification"] or "{}"), NOT_PARAMS)),
    }
    params.pop("architecture.block", None)
    tags = {
        KIND: "trial",
        TRIAL: row["trial_id"],
        ATTEMPT: str(row["attempt"]),
        "variant": variant.name,
        "seed": str(row["seed"]),
        **_told(row, variant),
        "order": f"{variant.position:03}.{row['seed']:05}",
        "edits": "; ".join(variant.edits),
        "status": row["status"],
        "ended_step": str(row["ended_step"]),
        "detail": "" if row["status"] == "finished" else row["detail"] or "",
        "versions": row["versions"] or "",
        NOTE: notes.run_note(row, variant, baseline, details),
        COLOUR: colour(variant.position, baseline=variant == baseline),
        **shared,
    }
    params = {key: short(value, PARAM_LENGTH) for key, value in params.items()}
    tags = {key: short(value, TAG_LENGTH) for key, value in tags.items() if value}
    # A forecast says nothing of the trial: one that changes is no reason to send its run again.
    tags[DIGEST] = sha256(compact([FORM, name, params, tags, row["digest"]]).encode()).hexdigest()[:16]
    return MlflowRun(
        trial=row["trial_id"],
        name=name,
        status=row["status"],
        began=round(1000 * row["began"]),
        ended=round(1000 * row["ended"]),
        params=params | {key: short(value, PARAM_LENGTH) for key, value in variant.forecast.items()},
        tags=tags,
        answer=shown,
    )


def _told(row: Row, variant: MlflowVariant) -> Mapping[str, str]:
    """Return what distinguishes a trial from others of its space: its salt, its terms of fairness, its split, and the
    steps and learning rate that it got.
    """
    return {
        "salt": str(row["salt"]) if row["salt"] else "",
        "terms": "; ".join(variant.terms),
        "split": row["split"] if row["split"] == "tuning" else "",
        "steps": str(row["steps"] or ""),
        "lr": "" if row["lr"] is None else f"{row['lr']:g}",
        "conditions": row["conditions"] or "",
    }


def _flat(value: Any, left_out: Collection[str] = (), prefix: str = "") -> Iterator[tuple[str, str]]:
    """Flatten a document to dotted names: `recipe.optimizer.adamw.lr`."""
    if isinstance(value, dict):
        for key, child in value.items():
            if key not in left_out:
                yield from _flat(child, (), f"{prefix}.{key}" if prefix else key)
    else:
        yield prefix, value if isinstance(value, str) else compact(value)
