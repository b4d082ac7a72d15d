"""What a variant came to stands in each of its runs: means on the metric's scale, differences, verdicts, a sentence."""

from __future__ import annotations

import base64
import json
import math
import zlib

import pytest
from mlflow_fixtures import client_of, runs_of, told
from store_fixtures import DOCUMENTS, fill, number, opened, plan
from test_store_mlflow_rebuild import kill_at

from ablate.store import mlflow_pages
from ablate.store.mirror import mirror
from ablate.store.mlflow_pages import read_pages
from ablate.store.query import query

EFFECT = {
    "kind": "baseline",
    "change": "half",
    "terms": "",
    "before": "a1",
    "after": "b2",
    "n": 2,
    "sd": 0.1,
    "p": 0.01,
    "p_adjusted": 0.02,
    "q": 0.01,
    "p_equivalent": None,
    "p_equivalent_adjusted": None,
    "method": "student",
    "df": 1.0,
    "margin": None,
    "differs": False,
    "seeds_needed": None,
    "note": "",
}
LOSS = {"metric": "eval_loss", "scale": "linear", "estimate": -0.5, "low": -0.75, "high": -0.25, "verdict": "better"}
PEAK = {"metric": "peak_kurtosis", "scale": "log", "estimate": math.log(2), "low": 0.0, "high": math.log(4)}
METRIC = {"better": "lower", "margin": None, "stated": "", "why_no_margin": ""}


def judged(*effects, metrics=(("eval_loss", "linear"), ("peak_kurtosis", "log")), **more):
    """A record of verdicts with these effects of `half`."""
    return {
        "space": "small",
        "seeds": [0, 1],
        "confidence": 0.95,
        "metrics": [{"name": name, "scale": scale, **METRIC} for name, scale in metrics],
        "effects": [{**EFFECT, **effect} for effect in effects],
        **more,
    }


RECORD = judged(
    LOSS, {**PEAK, "verdict": "worse_by_rank"}, sentences={"b2": "lowers eval loss by 0.50 [0.25, 0.75] (better)."}
)


@pytest.fixture
def folder(tmp_path):
    fill(tmp_path)
    mirror(tmp_path)
    return tmp_path


def record(folder, document):
    with opened(folder) as results:
        results.record_judgement(document["space"], document, [])
        results.refresh()


def test_each_run_of_a_variant_has_the_variants_numbers_and_verdicts(folder):
    client = client_of(folder)
    before = {name: run.info.run_id for name, run in runs_of(client).items()}
    assert runs_of(client)["half seed 0"].data.tags["answer"] == "half", "not judged yet"
    record(folder, RECORD)
    assert told(folder) == ["repaired: small: 6 runs without the current verdicts"]
    assert mirror(folder) and told(folder) == []
    runs = runs_of(client)
    assert {name: run.info.run_id for name, run in runs.items()} == before, "the same runs, completed"
    for seed in (0, 1):
        run = runs[f"half seed {seed}"].data
        shown = {name: round(value, 12) for name, value in run.metrics.items() if name.startswith("difference")}
        assert shown == {
            "difference.eval_loss": -0.5,
            "difference_low.eval_loss": -0.75,
            "difference_high.eval_loss": -0.25,
            "difference.peak_kurtosis": 2,
            "difference_low.peak_kurtosis": 1,
            "difference_high.peak_kurtosis": 4,
        }
        assert run.tags["answer"] == "half: better, worse by rank"
        assert run.tags["difference"] == "+qk_norm: lowers eval loss by 0.50 [0.25, 0.75] (better)."
        assert (run.tags["verdict.eval_loss"], run.tags["verdict.peak_kurtosis"]) == ("better", "worse by rank")
        assert run.tags["interval"] == "95 %, not adjusted for the number of comparisons"
    assert runs["pre_ln seed 0"].data.tags["difference"] == "the baseline"


@pytest.mark.full
def test_means_are_geometric_where_the_scale_is_log_and_those_of_sql(folder):
    record(folder, RECORD)
    mirror(folder)
    shown = runs_of(client_of(folder))["half seed 0"].data.metrics
    losses = [number(f"b2000{seed}", 40, "eval_loss") for seed in (0, 1)]
    assert shown["mean.eval_loss"] == pytest.approx(sum(losses) / 2, rel=1e-12)
    row = query(folder, "SELECT eval_loss_mean, peak_kurtosis FROM leaderboard WHERE variant = 'half'").rows[0]
    assert (shown["mean.eval_loss"], shown["mean.peak_kurtosis"]) == row
    peaks = query(folder, "SELECT peak_kurtosis FROM final WHERE variant = 'half'").rows
    assert row[1] == pytest.approx(math.sqrt(peaks[0][0] * peaks[1][0]), rel=1e-12) != (peaks[0][0] + peaks[1][0]) / 2


@pytest.mark.full
def test_the_adjusted_interval_is_shown_where_the_record_has_it(folder):
    adjusted = {"adjusted_low": -0.9, "adjusted_high": -0.1, "adjusted_confidence": 0.99}
    record(folder, judged({**LOSS, **adjusted}, {**PEAK, "low": None, "high": math.inf, "verdict": "undecided"}))
    mirror(folder)
    run = runs_of(client_of(folder))["half seed 1"].data
    shown = (run.metrics["difference_low.eval_loss"], run.metrics["difference_high.eval_loss"])
    assert shown == (-0.9, -0.1) and run.tags["interval"] == "99 %, adjusted as the verdict is"
    assert "difference_high.peak_kurtosis" not in run.metrics, "an end that is infinite is on no axis"


@pytest.mark.full
def test_an_answer_that_holds_no_more_goes_with_its_run_and_a_later_one_takes_its_place(folder):
    client = client_of(folder)
    record(folder, RECORD)
    mirror(folder)
    before = {name: run.info.run_id for name, run in runs_of(client).items()}
    record(folder, judged({**LOSS, "estimate": -0.6}, {**PEAK, "verdict": "better"}))
    mirror(folder)
    later = runs_of(client)["half seed 0"]
    assert (later.data.metrics["difference.eval_loss"], later.info.run_id) == (-0.6, before["half seed 0"])
    record(folder, judged(LOSS, metrics=[("eval_loss", "linear")]))
    mirror(folder)
    fewer = runs_of(client)
    assert not {name for run in fewer.values() for name in run.data.metrics if name.endswith(".peak_kurtosis")} - {
        "max.kurtosis"
    }
    assert "verdict.peak_kurtosis" not in fewer["half seed 0"].data.tags and len(fewer) == 6
    with opened(folder) as results:
        asked = DOCUMENTS.__class__(
            source=DOCUMENTS.source,
            resolved={"space": "small", "seeds": [0, 1, 2]},
            definitions=DOCUMENTS.definitions,
            corpus=DOCUMENTS.corpus,
        )
        results.record_plan(plan(), asked)
        results.refresh()
    mirror(folder)
    none = runs_of(client)
    assert {run.data.tags["answer"] for run in none.values()} == {"pre_ln", "half", "op"} and told(folder) == []


@pytest.mark.full
def test_a_kill_between_two_answers_leaves_them_to_the_next(folder):
    record(folder, RECORD)
    kill_at(folder, "log_batch", 3)
    assert told(folder) == ["repaired: small: 4 runs without the current verdicts"]
    assert mirror(folder) and told(folder) == [] and len(runs_of(client_of(folder))) == 6


@pytest.mark.full
def test_the_grouped_view_has_a_column_for_each_number_and_names_groups_by_verdicts(folder):
    record(folder, RECORD)
    mirror(folder)
    (page,) = read_pages(folder)
    tag = client_of(folder).get_experiment_by_name("small").tags[mlflow_pages.VIEW_TAG + mlflow_pages.VARIANTS_VIEW]
    assert tag == mlflow_pages.view_tags(page)[mlflow_pages.VIEW_TAG + mlflow_pages.VARIANTS_VIEW] and len(tag) < 5000
    state = json.loads(zlib.decompress(base64.b64decode(json.loads(tag)["state"].removeprefix("deflate;"))))
    run = runs_of(client_of(folder))["half seed 0"].data
    there = {f"metrics.`{name}`" for name in run.metrics} | {f"params.`{name}`" for name in run.params}
    there |= {f"tags.`{name}`" for name in run.tags}
    wanted = [f"metrics.`{part}.eval_loss`" for part in ("mean", "difference", "difference_low", "difference_high")]
    assert state["selectedColumns"][:4] == wanted and set(state["selectedColumns"]) <= there
    assert state["groupBy"]["groupByKeys"] == [{"mode": "tag", "groupByData": "answer"}]
    assert "tag.answer.half: better, worse by rank" in state["groupsExpanded"]
