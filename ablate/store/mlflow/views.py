"""Saved views of an experiment's runs page, as MLflow's own button `Views` lists them: columns, groups and charts.

MLflow keeps a view in a tag of the experiment, in an undocumented form, seen in 3.17.2. A page that cannot read a view
says so and shows its default, so only convenience depends on it.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from collections.abc import Iterable, Mapping

from ablate.store.mlflow.answers import GROUP, NUMBERS, VERDICT
from ablate.store.mlflow.pages import CURVES, DIVERGED, EXTREMES, KIND, Page, extreme_name, final_name

TAG = "mlflow.sharedViewState."
PAGE_KIND = {"mlflow.experimentKind": "custom_model_development"}
"""The kind of an experiment's page: trained models, not the traces of an application."""
VARIANTS, TRIALS = "ablate-variants", "ablate-trials"
NAMES = {VARIANTS: "Variants: means over seeds", TRIALS: "Trials, one by one"}
NAME, CLOCK = "attributes.`Run Name`", ("runDateAndNestInfo", "duration")
"""The columns that are always there, by the page's names."""
PIXELS = 8
GROUPS = 100
"""Number of groups that are closed at first; a page shows a hundred runs before `Load more`."""
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
FORM_OF_LINE: Mapping[str, object] = {
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
    """Return the tags of an experiment that set up its page: saved views with columns, groups and charts."""
    numbers = [f"metrics.`{name}`" for name in (*BARS[:4], DIVERGED)]
    edits = [f"params.`{key}`" for key in page.keys.values()]
    cost, seed = ["params.`parameters`", "params.`flops`"], ["params.`seed`"]
    answers = [f"metrics.`{part}.{name}`" for name in page.judged for part in NUMBERS]
    words = [f"tags.`{VERDICT}.{name}`" for name in page.judged]
    shown = [*answers, f"metrics.`{DIVERGED}`"] if answers else numbers
    names = list(dict.fromkeys(run.answer.tags[GROUP] for run in page.runs))
    longest = max(_width(name, 15) for name in names)  # `Group: `, its colour and its number of runs
    # One row per variant, named by its verdicts, which opens to show its seeds.
    groups = {
        "groupBy": {"aggregateFunction": "average", "groupByKeys": [{"mode": "tag", "groupByData": GROUP}]},
        "groupsExpanded": {f"tag.{GROUP}.{name}": False for name in names[:GROUPS]},
    }
    return {
        **PAGE_KIND,
        TAG + VARIANTS: _view(VARIANTS, [*shown, *cost, *words], max(340, longest), groups),
        TAG + TRIALS: _view(TRIALS, [*numbers, *seed, *words, *edits], 340, {}),
    }


def links(experiment: str, verdicts: str = "", root: str = "") -> list[tuple[str, str]]:
    """Return the name and address of each view of an experiment, and of its run `verdicts`.

    Addresses are below `root`, or relative for a text within MLflow's pages. Without `workflowType` the page opens on
    an empty overview.
    """
    base = f"{root}#/experiments/{experiment}/runs"
    kind = "workflowType=machine_learning"
    pages = [(name, f"{base}?{kind}&viewStateShareKey={key}") for key, name in NAMES.items()]
    pages.append(("Curves by variant", f"{base}?{kind}&viewStateShareKey={VARIANTS}&compareRunsMode=CHART"))
    return [*pages, ("Verdicts as files", f"{base}/{verdicts}/artifacts?{kind}")] if verdicts else pages


def _width(text: str, beside: int) -> int:
    """Return the width in pixels that shows a whole text with `beside` more characters, within bounds."""
    return min(760, max(130, PIXELS * (len(text.split("`")[1] if "`" in text else text) + beside)))


def _view(key: str, columns: list[str], name_width: int, groups: Mapping[str, object]) -> str:
    state = {
        "searchFilter": f"tags.`{KIND}` = 'trial'",
        "orderByKey": "tags.`order`",
        "orderByAsc": True,
        "selectedColumns": columns,
        "columnOrder": [NAME, *columns, *CLOCK],
        "columnWidths": {NAME: name_width, **{column: _width(column, 3) for column in columns}},
        **groups,
        "runsHiddenMode": "FIRST_20_RUNS",
        "compareRunSections": [{"uuid": key, "name": name, **FORM_OF_SECTION} for key, name in SECTIONS],
        "compareRunCharts": list(_charts()),
    }
    packed = b64encode(zlib.compress(json.dumps(state).encode())).decode()
    # MLflow lists the newest first; the order here is ours.
    return json.dumps({"name": NAMES[key], "createdAt": -list(NAMES).index(key), "state": f"deflate;{packed}"})


def _charts() -> Iterable[dict[str, object]]:
    for name in LINES:
        form = {**FORM_OF_LINE, "scaleType": "linear" if name in BOUNDED else "log"}
        yield {**form, **_card(name, "losses" if name in CURVES else "stream")}
    for name in (*BARS, DIVERGED):
        yield {"type": "BAR", **_card(name, "finals")}


def _card(name: str, section: str) -> dict[str, object]:
    common = {"runsCountToCompare": 20, "deleted": False, "isGenerated": True}
    return {"uuid": name, "metricKey": name, "displayName": name, "metricSectionId": section, **common}
