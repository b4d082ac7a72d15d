"""Pages of MLflow: what it should show of each space, its runs and their numbers, and saved views of the runs."""

from __future__ import annotations

import json
import math
import zlib
from base64 import b64encode
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import duckdb

from ablate.errors import RefusedError
from ablate.store import mlflow_texts
from ablate.store.durable import JsonObject, compact
from ablate.store.mlflow_texts import (
    FORM,
    GROUP,
    NUMBERS,
    PARAM_LENGTH,
    TAG_LENGTH,
    VERDICT,
    ForecastValue,
    MlflowRun,
    MlflowVariant,
    Page,
    SpaceVerdicts,
    VariantAnswer,
    read_verdicts,
    short,
)
from ablate.store.predictions import NOT_KEPT
from ablate.store.projection import DATABASE, is_ours, reading

# Pages, read from the DuckDB file: a page for each space, the runs of its trials, their numbers

TRIAL, ATTEMPT, KIND, DIGEST = "ablate.trial", "ablate.attempt", "ablate.kind", "ablate.digest"
"""Tags of the mirror's runs: trial, attempt, kind (`trial` or `verdicts`), a hash of all shown but the answer."""
NOTE, COLOUR = "mlflow.note.content", "mlflow.runColor"

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
"""Numbers of the view `numbers` that finished trials show; one that is also a curve is `final_…`."""
DIVERGED = "seeds_diverged"  # 0 or 1 for a run; its mean over a group is the share of seeds that diverged
NOT_PARAMS = frozenset({"trial", "variant", "folder", "conditions"})
"""Parts of a specification that are not parameters: ids and paths. The block is in the description."""

T = TypeVar("T")


def extreme_name(metric: str) -> str:
    return f"{EXTREMES[metric]}.{metric}"


def final_name(summary: str) -> str:
    return f"final_{summary}" if summary in CURVES else summary


@dataclass(frozen=True, slots=True)
class Point:
    name: str
    step: int
    value: float


SPACES_SQL = """
SELECT space, plan, coalesce(question, '') AS question, coalesce(design, '') AS design,
    coalesce(profile, '') AS profile, baseline,
    (SELECT count(*) FROM memberships m WHERE m.space = s.space) AS requested
FROM spaces s ORDER BY space
"""
VARIANTS_SQL = """
SELECT v.space, v.variant_id, v.variant AS name, v.position, coalesce(v.edits, []) AS edits, v.parameters, v.flops,
    coalesce(v.block, '') AS block, coalesce(v.terms, []) AS terms,
    {growth: f.growth, cosine: f.cosine, gradient: f.gradient, logits: f.logits, context: f.context,
        refused: f.refused, dangers: f.dangers} AS forecast
FROM variants v LEFT JOIN forecasts f USING (plan, variant_id) ORDER BY v.space, v.position
"""
EDITS_SQL = "SELECT space, change, detail FROM comparisons WHERE kind = 'edit'"
TRIALS_SQL = """
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


class SpaceRow(NamedTuple):
    space: str
    plan: str
    question: str
    design: str
    profile: str
    baseline: str
    requested: int


class TrialRow(NamedTuple):
    """The columns of `TRIALS_SQL`; `began` and `ended` are seconds since 1970."""

    space: str
    trial_id: str
    variant_id: str
    seed: int
    attempt: int
    status: str
    ended_step: int
    detail: str | None
    specification: str | None
    digest: str
    salt: int | None
    split: str | None
    steps: int | None
    lr: float | None
    conditions: str | None
    began: float
    ended: float
    versions: str | None


def read_pages(folder: Path, trials: Collection[str] | None = None) -> list[Page]:
    """Read every space with an ended trial, with all of those or only `trials`; needs a refreshed DuckDB file."""
    if not (folder / DATABASE).exists():
        return []
    with reading(folder / DATABASE) as connection:
        if not is_ours(connection):
            raise RefusedError(f"{folder / DATABASE} has the tables of another version\n  = a run rebuilds it")
        spaces = _by_space(connection, SpaceRow, SPACES_SQL)
        variants = _by_space(connection, MlflowVariant, VARIANTS_SQL)
        edits = _by_space(connection, lambda _, change, detail: (change, detail), EDITS_SQL)
        ended = _by_space(connection, TrialRow, TRIALS_SQL, None if trials is None else list(trials))
        judged = read_verdicts(folder, connection, [space.plan for (space,) in spaces.values()])
    return [
        _page(space, variants[name], dict(edits[name]), ended[name], judged.get(name))
        for name, (space,) in spaces.items()
        if ended[name]
    ]


def _by_space(
    connection: duckdb.DuckDBPyConnection, made: Callable[..., T], statement: str, *values: object
) -> Mapping[str, list[T]]:
    """Return rows by their first column, each `made` of its columns in their order."""
    of_space: defaultdict[str, list[T]] = defaultdict(list)
    for row in connection.execute(statement, values).fetchall():
        of_space[row[0]].append(made(*row))
    return of_space


def _page(
    space: SpaceRow,
    variants: list[MlflowVariant],
    details: Mapping[str, str],
    trials: list[TrialRow],
    judged: SpaceVerdicts | None,
) -> Page:
    by_id = {variant.id: variant for variant in variants}
    baseline = by_id.get(space.baseline)
    against = baseline.name if baseline else ""
    keys = mlflow_texts.edit_keys(edit for variant in by_id.values() for edit in variant.edits)
    answers = {}
    for id, variant in by_id.items():
        unlike = "; ".join(mlflow_texts.edit_difference(variant, baseline)) or "the baseline" if baseline else ""
        answers[id] = (judged or SpaceVerdicts({}, {})).answer(variant.name, id, unlike)
    runs = []
    for row in trials:
        variant = by_id[row.variant_id]
        ending = mlflow_texts.ending_text(row.status, row.ended_step, row.detail)
        of_page = {
            NOTE: mlflow_texts.run_note(row.seed, ending, variant, baseline, details),
            COLOUR: mlflow_texts.colour(variant.position, baseline=variant == baseline),
            "design": space.design,
            "against": against,
        }
        runs.append(_run(row, variant, of_page, keys, answers[row.variant_id]))
    return Page(
        space=space.space,
        question=space.question,
        design=space.design,
        profile=space.profile,
        baseline=against,
        requested=space.requested,
        variants=tuple(by_id.values()),
        keys=keys,
        runs=tuple(runs),
        judged=tuple(judged.scales) if judged else (),
    )


def _run(
    row: TrialRow, variant: MlflowVariant, of_page: Mapping[str, str], keys: Mapping[str, str], answer: VariantAnswer
) -> MlflowRun:
    tuning = row.split == "tuning"
    lr = "" if row.lr is None else f"{row.lr:g}"
    name = ("" if row.status == "finished" else f"{row.status}: ") + f"{variant.name} seed {row.seed}"
    name += f", tuning, lr {lr}" if tuning and of_page["design"] != "search" else ""
    params = {
        "variant": variant.name,
        "parameters": str(variant.parameters),
        "flops": str(variant.flops),
        **{key: "yes" if edit in variant.edits else "no" for edit, key in keys.items()},
        **dict(_flat(json.loads(row.specification or "{}"), NOT_PARAMS)),
    }
    params.pop("architecture.block", None)
    tags = {
        KIND: "trial",
        TRIAL: row.trial_id,
        ATTEMPT: str(row.attempt),
        "variant": variant.name,
        "seed": str(row.seed),
        "salt": str(row.salt or ""),
        "terms": "; ".join(variant.terms),
        "split": "tuning" if tuning else "",
        "steps": str(row.steps or ""),
        "lr": lr,
        "conditions": row.conditions or "",
        "order": f"{variant.position:03}.{row.seed:05}",
        "edits": "; ".join(variant.edits),
        "status": row.status,
        "ended_step": str(row.ended_step),
        "detail": "" if row.status == "finished" else row.detail or "",
        "versions": row.versions or "",
        **of_page,
    }
    params = {key: short(value, PARAM_LENGTH) for key, value in params.items()}
    tags = {key: short(value, TAG_LENGTH) for key, value in tags.items() if value}
    # What MLflow cannot change afterwards: all else of a run is brought up to date where it is.
    tags[DIGEST] = sha256(compact([FORM, row.trial_id, row.attempt, row.digest]).encode()).hexdigest()[:16]
    return MlflowRun(
        trial=row.trial_id,
        name=name,
        status=row.status,
        began=round(1000 * row.began),
        ended=round(1000 * row.ended),
        params=params | {key: short(value, PARAM_LENGTH) for key, value in _forecast(variant.forecast)},
        tags=tags,
        answer=answer,
    )


def _forecast(forecast: Mapping[str, ForecastValue]) -> Iterator[tuple[str, str]]:
    """Yield what was forecast of a variant, or why nothing was; nothing where the plan was kept without forecasts."""
    for name, value in forecast.items() if forecast["refused"] != NOT_KEPT else ():
        if isinstance(value, list):
            yield f"forecast.{name}", "; ".join(value) or "none"
        elif value is not None:
            yield f"forecast.{name}", f"{value:.6g}" if isinstance(value, float) else str(value)


def _flat(value: Any, left_out: Collection[str] = (), prefix: str = "") -> Iterator[tuple[str, str]]:
    """Flatten a document to dotted names: `recipe.optimizer.adamw.lr`."""
    if isinstance(value, dict):
        for key, child in value.items():
            if key not in left_out:
                yield from _flat(child, (), f"{prefix}.{key}" if prefix else key)
    else:
        yield prefix, value if isinstance(value, str) else compact(value)


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


# Saved views of an experiment's runs page, as MLflow's own button `Views` lists them: columns, groups and charts
#
# MLflow keeps a view in a tag of the experiment, in an undocumented form, seen in 3.17.2; other pages show a default.

VIEW_TAG = "mlflow.sharedViewState."
PAGE_KIND = {"mlflow.experimentKind": "custom_model_development"}
"""The kind of an experiment's page: trained models, not the traces of an application."""
VARIANTS_VIEW, TRIALS_VIEW = "ablate-variants", "ablate-trials"
VIEWS = {VARIANTS_VIEW: "Variants: means over seeds", TRIALS_VIEW: "Trials, one by one"}
NAME_COLUMN, CLOCK_COLUMNS = "attributes.`Run Name`", ("runDateAndNestInfo", "duration")
PIXELS = 8
GROUPS = 100  # number of groups that are closed at first; a page shows a hundred runs before `Load more`
LINES = (*CURVES, *map(extreme_name, EXTREMES))
BARS = tuple(
    final_name(name)
    for name in (
        *("eval_loss", "eval_bits_per_byte", "peak_kurtosis", "token_correlation", "peak_kurtosis_behind_norms"),
        *("peak_token_cosine", "peak_max_median_ratio", "peak_activation_rms"),
    )
)
BOUNDED = tuple(map(extreme_name, ("token_correlation_rms", "token_cosine", "attention_entropy")))
"""Curves on a linear axis; the others are on a logarithmic one, where an exploding trial does not flatten the rest."""
SECTIONS = (("losses", "Losses"), ("stream", "Outliers and propagation"), ("finals", "At the end"))
FORM_OF_SECTION = {"display": True, "isReordered": False, "deleted": False, "isGenerated": True}
FORM_OF_LINE: JsonObject = {
    "type": "LINE",
    "lineSmoothness": 0,
    "xAxisKey": "step",
    "xAxisScaleType": "linear",
    "selectedXAxisMetricKey": "",
    "yAxisKey": "metric",
    "yAxisExpressions": [],
    "range": {},
    "ignoreOutliers": False,
    "useGlobalXaxisKey": True,
    "useGlobalLineSmoothing": True,
}


def view_tags(page: Page) -> dict[str, str]:
    numbers = [f"metrics.`{name}`" for name in (*BARS[:4], DIVERGED)]
    edits = [f"params.`{key}`" for key in page.keys.values()]
    cost, seed = ["params.`parameters`", "params.`flops`"], ["params.`seed`"]
    answers = [f"metrics.`{part}.{name}`" for name in page.judged for part in NUMBERS]
    words = [f"tags.`{VERDICT}.{name}`" for name in page.judged]
    shown = [*answers, f"metrics.`{DIVERGED}`"] if answers else numbers
    names = list(dict.fromkeys(run.answer.tags[GROUP] for run in page.runs))
    longest = max(_width(name, 15) for name in names)  # `Group: `, its colour and its number of runs
    # One row per variant, named by its verdicts, which opens to show its seeds.
    groups: JsonObject = {
        "groupBy": {"aggregateFunction": "average", "groupByKeys": [{"mode": "tag", "groupByData": GROUP}]},
        "groupsExpanded": {f"tag.{GROUP}.{name}": False for name in names[:GROUPS]},
    }
    return {
        **PAGE_KIND,
        VIEW_TAG + VARIANTS_VIEW: _view(VARIANTS_VIEW, [*shown, *cost, *words], max(340, longest), groups),
        VIEW_TAG + TRIALS_VIEW: _view(TRIALS_VIEW, [*numbers, *seed, *words, *edits], 340, {}),
    }


def view_links(experiment: str, verdicts: str = "", root: str = "") -> list[tuple[str, str]]:
    """The name and address of each view of an experiment, and of its run `verdicts`, below `root` or relative.

    Without `workflowType` the page opens on an empty overview.
    """
    base = f"{root}#/experiments/{experiment}/runs"
    kind = "workflowType=machine_learning"
    pages = [(name, f"{base}?{kind}&viewStateShareKey={key}") for key, name in VIEWS.items()]
    pages.append(("Curves by variant", f"{base}?{kind}&viewStateShareKey={VARIANTS_VIEW}&compareRunsMode=CHART"))
    return [*pages, ("Verdicts as files", f"{base}/{verdicts}/artifacts?{kind}")] if verdicts else pages


def _width(text: str, beside: int) -> int:
    return min(760, max(130, PIXELS * (len(text.split("`")[1] if "`" in text else text) + beside)))


def _view(key: str, columns: list[str], name_width: int, groups: JsonObject) -> str:
    state = {
        "searchFilter": f"tags.`{KIND}` = 'trial'",
        "orderByKey": "tags.`order`",
        "orderByAsc": True,
        "selectedColumns": columns,
        "columnOrder": [NAME_COLUMN, *columns, *CLOCK_COLUMNS],
        "columnWidths": {NAME_COLUMN: name_width, **{column: _width(column, 3) for column in columns}},
        **groups,
        "runsHiddenMode": "FIRST_20_RUNS",
        "compareRunSections": [{"uuid": key, "name": name, **FORM_OF_SECTION} for key, name in SECTIONS],
        "compareRunCharts": list(_charts()),
    }
    packed = b64encode(zlib.compress(json.dumps(state).encode())).decode()
    # MLflow lists the newest first; the order here is ours.
    return json.dumps({"name": VIEWS[key], "createdAt": -list(VIEWS).index(key), "state": f"deflate;{packed}"})


def _charts() -> Iterable[JsonObject]:
    for name in LINES:
        form = {**FORM_OF_LINE, "scaleType": "linear" if name in BOUNDED else "log"}
        yield {**form, **_card(name, "losses" if name in CURVES else "stream")}
    for name in (*BARS, DIVERGED):
        yield {"type": "BAR", **_card(name, "finals")}


def _card(name: str, section: str) -> JsonObject:
    common = {"runsCountToCompare": 20, "deleted": False, "isGenerated": True}
    return {"uuid": name, "metricKey": name, "displayName": name, "metricSectionId": section, **common}
