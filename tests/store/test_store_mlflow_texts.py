"""Names, texts and views as MLflow takes them, without MLflow."""

from __future__ import annotations

import base64
import json
import re
import zlib

import pytest
import yaml
from builders import op, pre_ln
from store_fixtures import fill

from ablate.block.expression import print_block
from ablate.store import mlflow_pages
from ablate.store.mlflow_pages import read_pages, read_points
from ablate.store.mlflow_texts import block_text, colour, edit_keys, short, short_lines

pytestmark = pytest.mark.fast


def test_every_edit_has_a_name_that_mlflow_allows_and_none_shares_one():
    edits = ["+qk_norm", "-layer_norm", "-layer_norm@mlp_norm", "residual.gain=0.5", "layer_norm->rms_norm", "+[a,b]"]
    edits += ["attention.query={dense: {bias: true}}@attention", "+qk norm", "+qk/norm", "=", "x" * 300, "x" * 301]
    keys = edit_keys(edits)
    assert list(keys) == edits and len(set(keys.values())) == len(edits)
    assert all(re.fullmatch(r"edit\.[\w.\-]+", key) and len(key) < 250 for key in keys.values())
    assert keys["+qk_norm"] == "edit.add_qk_norm" and keys["residual.gain=0.5"] == "edit.residual.gain"
    assert keys["-layer_norm@mlp_norm"] == "edit.remove_layer_norm.mlp_norm"
    two = edit_keys(["residual.gain=0.5", "residual.gain=1/sqrt(2*depth)"])
    assert list(two.values()) == ["edit.residual.gain_0.5", "edit.residual.gain_1_sqrt_2_depth"]


def test_variants_have_different_colours_and_the_baseline_is_grey():
    colours = [colour(position, baseline=position == 1) for position in range(1, 40)]
    assert len(set(colours)) == len(colours) and all(re.fullmatch("#[0-9a-f]{6}", one) for one in colours)
    assert colours[0] == "#5f6b7a"


def test_texts_are_cut_where_mlflow_would_refuse_them():
    assert short("abc", 3) == "abc" and short("abcd", 3) == "ab…"
    assert short_lines("one\ntwo\nthree", 100, "more below") == "one\ntwo\nthree"
    assert short_lines("one\ntwo\n" + "x" * 50, 30, "more below") == "one\ntwo\n\nmore below"


@pytest.mark.parametrize("block", [pre_ln(), op()])
def test_a_block_on_several_lines_is_the_same_block(block):
    text = print_block(block)
    shown = block_text(text)
    assert yaml.safe_load(shown) == yaml.safe_load(text)
    assert len(shown.splitlines()) > 5 and max(map(len, shown.splitlines())) < 120


def test_a_saved_view_has_the_columns_that_runs_have(tmp_path):
    fill(tmp_path)
    (page,) = read_pages(tmp_path)
    points = read_points(tmp_path, [run.trial for run in page.runs])
    there = {f"metrics.`{point.name}`" for trial in points.values() for point in trial}
    there |= {f"params.`{name}`" for name in page.runs[0].params}
    for key in (mlflow_pages.VARIANTS_VIEW, mlflow_pages.TRIALS_VIEW):
        tag = mlflow_pages.view_tags(page)[mlflow_pages.VIEW_TAG + key]
        assert len(tag) < 5000, "as much as any MLflow server keeps"
        packed = json.loads(tag)["state"].removeprefix("deflate;")
        state = json.loads(zlib.decompress(base64.b64decode(packed)))
        assert set(state["selectedColumns"]) <= there
        assert set(state["selectedColumns"]) <= set(state["columnOrder"])
        charts = {f"metrics.`{chart['metricKey']}`" for chart in state["compareRunCharts"]}
        assert charts & there == {name for name in there if name.startswith("metrics")}
    assert set(state["selectedColumns"]) >= {"params.`edit.add_qk_norm`", "params.`edit.residual.gain`"}
