"""The MLflow mirror: an experiment for each space, a run for each ended trial of it, loss curves and final numbers.

Per-layer series stay in DuckDB: hundreds of them in each run are more than MLflow's pages bear. What has been sent is
kept in `mlflow.jsonl`, so that MLflow, which takes seconds to import, is not touched when there is nothing new.
"""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from ablate.errors import RefusedError
from ablate.store import lines
from ablate.store.lines import Appender
from ablate.store.projection import DATABASE, reading

STORE = "mlflow.db"
SENT = "mlflow.jsonl"
CURVES = ("train_loss", "eval_loss")
SUMMARIES = ("peak_kurtosis", "peak_max_median_ratio", "token_correlation", "peak_activation_rms")
METRICS_AT_ONCE, PARAMS_AT_ONCE = 1000, 100
"""What MLflow takes in one batch."""
PARAM_LENGTH, TAG_LENGTH = 6000, 8000
"""The longest values MLflow keeps."""
TRIAL_TAG, ATTEMPT_TAG = "ablate.trial", "ablate.attempt"


@dataclass(frozen=True, slots=True)
class Run:
    """One trial of one space, as MLflow will show it. Times are milliseconds since 1970."""

    space: str
    trial_id: str
    attempt: int
    name: str
    status: str
    began: int
    ended: int
    params: Mapping[str, str]
    tags: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Point:
    """One number of a run."""

    name: str
    step: int
    value: float


def mirror(folder: Path) -> int:
    """Send to `<folder>/mlflow.db` what it does not have; how many runs that was.

    Needs the folder's lock (it is the only writer) and a refreshed `ablate.duckdb`. Doing it twice is once, also after
    a crash half-way. A trial that was trained again replaces its run.
    """
    if not (folder / DATABASE).exists():
        return 0
    if not (folder / STORE).exists():
        (folder / SENT).unlink(missing_ok=True)
    sent = {tuple(record) for record in lines.read(folder / SENT).records}
    new = [run for run in _ended_runs(folder) if (run.space, run.trial_id, run.attempt) not in sent]
    if new:
        _send(folder, new)
    return len(new)


def _ended_runs(folder: Path) -> list[Run]:
    """Every ended trial of every space, from the DuckDB file."""
    with reading(folder / DATABASE) as connection:
        rows = connection.execute(
            """
            SELECT m.space, m.trial_id, t.attempt, v.variant, m.seed, t.status, t.ended_step, t.detail, t.specification,
                v.edits, v.block, b.variant AS baseline, b.edits AS baseline_edits,
                (SELECT seconds FROM timings x WHERE x.trial_id = t.trial_id AND name = 'began') AS began,
                (SELECT seconds FROM timings x WHERE x.trial_id = t.trial_id AND name = 'ended') AS ended
            FROM memberships m
            JOIN trials t ON t.trial_id = m.trial_id AND t.digest IS NOT NULL
            JOIN spaces s ON s.space = m.space
            LEFT JOIN variants v ON v.space = m.space AND v.variant_id = m.variant_id
            LEFT JOIN variants b ON b.space = m.space AND b.variant_id = s.baseline
            ORDER BY m.space, v.position, m.seed, m.trial_id
            """
        )
        names = [column[0] for column in rows.description]
        return [_run(dict(zip(names, row, strict=True))) for row in rows.fetchall()]


def _run(row: Mapping[str, Any]) -> Run:
    specification = json.loads(row["specification"] or "{}")
    params = {"variant": row["variant"], **dict(_flat(specification, ("trial", "variant", "folder")))}
    tags = {
        TRIAL_TAG: row["trial_id"],
        ATTEMPT_TAG: str(row["attempt"]),
        "variant": row["variant"],
        "seed": str(row["seed"]),
        "edits": "; ".join(row["edits"] or ()),
        "status": row["status"],
        "ended_step": str(row["ended_step"]),
        "detail": row["detail"] or "",
        "block": row["block"] or "",
        "against": row["baseline"] or "",
        "difference": _difference(row["edits"] or [], row["baseline_edits"] or []),
    }
    return Run(
        space=row["space"],
        trial_id=row["trial_id"],
        attempt=row["attempt"],
        name=f"{row['variant']} seed {row['seed']}",
        status=row["status"],
        began=round(1000 * row["began"]),
        ended=round(1000 * row["ended"]),
        params={name: _short(value, PARAM_LENGTH) for name, value in params.items()},
        tags={name: _short(value, TAG_LENGTH) for name, value in tags.items() if value},
    )


def _difference(edits: list[str], baseline: list[str]) -> str:
    """What a variant has that the baseline has not, and the other way round."""
    more = [edit for edit in edits if edit not in baseline]
    less = [f"without {edit}" for edit in baseline if edit not in edits]
    return "; ".join(more + less)


def _flat(value: Any, left_out: tuple[str, ...] = (), prefix: str = "") -> Iterator[tuple[str, str]]:
    """A document as dotted names: `recipe.optimizer.adamw.lr`."""
    if isinstance(value, dict):
        for key, child in value.items():
            if key not in left_out:
                yield from _flat(child, (), f"{prefix}.{key}" if prefix else key)
    else:
        yield prefix, value if isinstance(value, str) else lines.compact(value)


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def _points(folder: Path, runs: list[Run]) -> dict[str, list[Point]]:
    """The loss curves and final numbers of each trial; what is not finite has no place on MLflow's axes."""
    wanted = [[run.trial_id for run in runs]]
    with reading(folder / DATABASE) as connection:
        rows = connection.execute(
            f"""
            SELECT trial_id, metric, step, value FROM metrics
            WHERE metric IN {CURVES} AND address = '' AND trial_id IN (SELECT unnest($1))
            UNION ALL
            SELECT trial_id, name, step, value FROM summaries
            WHERE name IN {SUMMARIES} AND trial_id IN (SELECT unnest($1))
            ORDER BY ALL
            """,
            wanted,
        ).fetchall()
    points = [(trial_id, Point(name, step, value)) for trial_id, name, step, value in rows if math.isfinite(value)]
    return {trial_id: [point for _, point in group] for trial_id, group in groupby(points, key=lambda pair: pair[0])}


def _send(folder: Path, runs: list[Run]) -> None:
    points = _points(folder, runs)
    done = Appender(folder / SENT)
    try:
        with _quiet_mlflow() as mlflow:
            client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{(folder / STORE).resolve()}")
            for space, group in groupby(runs, key=lambda run: run.space):
                experiment = _experiment(client, folder, space)
                there = _trials_there(client, experiment)
                for run in group:
                    for stale in there.get(run.trial_id, ()):
                        client.delete_run(stale)
                    _send_run(mlflow, client, experiment, run, points.get(run.trial_id, []))
                    done.write([[run.space, run.trial_id, run.attempt]])
    finally:
        done.close()


def _send_run(mlflow: Any, client: Any, experiment: str, run: Run, points: list[Point]) -> None:
    entities = mlflow.entities
    created = client.create_run(experiment, start_time=run.began, run_name=run.name, tags=dict(run.tags))
    params = [entities.Param(name, value) for name, value in run.params.items()]
    metrics = [entities.Metric(p.name, p.value, run.ended, p.step) for p in points]
    for start in range(0, len(params), PARAMS_AT_ONCE):
        client.log_batch(created.info.run_id, params=params[start : start + PARAMS_AT_ONCE])
    for start in range(0, len(metrics), METRICS_AT_ONCE):
        client.log_batch(created.info.run_id, metrics=metrics[start : start + METRICS_AT_ONCE])
    status = "FINISHED" if run.status == "finished" else "FAILED"
    client.set_terminated(created.info.run_id, status=status, end_time=run.ended)


def _experiment(client: Any, folder: Path, space: str) -> str:
    """The id of a space's experiment; one deleted by hand is restored, since its name stays taken."""
    found = client.get_experiment_by_name(space)
    if found is None:
        return str(client.create_experiment(space, artifact_location=(folder / "mlruns").resolve().as_uri()))
    if found.lifecycle_stage == "deleted":
        client.restore_experiment(found.experiment_id)
    return str(found.experiment_id)


def _trials_there(client: Any, experiment: str) -> dict[str, list[str]]:
    """The runs of each trial that an experiment has: those of an earlier attempt, or left half-sent by a crash."""
    found: dict[str, list[str]] = {}
    token = None
    while True:
        page = client.search_runs([experiment], max_results=1000, page_token=token)
        for run in page:
            found.setdefault(run.data.tags.get(TRIAL_TAG, ""), []).append(run.info.run_id)
        if not (token := page.token):
            return found


@contextmanager
def _quiet_mlflow() -> Iterator[Any]:
    """MLflow, imported late, without its progress messages and without reporting its use to anyone."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_CONFIGURE_LOGGING", "false")
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
    import mlflow
    from mlflow.exceptions import MlflowException

    try:
        yield mlflow
    except MlflowException as error:
        raise RefusedError(
            f"the MLflow mirror failed: {error}\n  = the results are safe; what is missing is sent the next time"
        ) from error
