"""Factors with several levels: their runs, effects and names, and what is left out."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from itertools import product

import numpy as np
import pytest
from space_fixtures import space

from ablate.errors import InputError
from ablate.plan.build import build_plan
from ablate.plan.designs.design_matrix import coded, columns_of, fitted_terms, places_of, scale_of
from ablate.plan.models import TokenisedText
from ablate.plan.plan import Factors, VariedFactor
from ablate.store.documents import Documents, plan_document

JUDGE = "{against: pre_ln, metrics: {eval_bits_per_byte: {}}}"
DEPTHS = "{factorial: {from: pre_ln, to: op, vary: {model.layers: [16, 4, 8]}}}"
SWEEP = (
    "{factorial: {from: pre_ln, vary: {recipe.optimizer.adamw.eps: [1e-8, 1e-6, 1e-4],"
    " block.*_residual.gain: [1, 0.5, 0.25]}}}"
)


def planned(folder, design, **sections):
    found = space(folder, design=design, **({"judge": JUDGE} | sections))
    read = lambda other: TokenisedText(vocab_size=300, fingerprint=str(other.data.tokenizer))  # noqa: E731
    return build_plan(found, vocab_size=256, corpus="text", read=read)


def factors_of(plan):
    ((_, factors),) = plan.factors
    return factors


def changes(plan, *kinds):
    return [comparison.change for comparison in plan.comparisons if comparison.kind in kinds]


def test_edits_and_levels_are_combined(tmp_path):
    plan = planned(tmp_path, DEPTHS)
    factors = factors_of(plan)
    assert factors.varied == (VariedFactor(address="model.layers", values=(4, 8, 16), scale="log"),)
    assert sorted(levels for _, levels in factors.runs) == sorted(product((-1, 1), (-1, 1), (-1, 1), (0, 1, 2)))
    depths = {variant.id: dict(variant.setting.changes).get("model.layers", 4) for variant in plan.variants}
    assert all(depths[id] == (4, 8, 16)[levels[-1]] for id, levels in factors.runs)
    trained = {trial.variant: trial.work.architecture.sizes.n_layers for trial in plan.trials}
    assert trained == depths
    mains, pairs = changes(plan, "main"), changes(plan, "interaction")
    assert mains[-2:] == ["model.layers: trend", "model.layers: curvature"] and len(mains) == 5
    assert len(pairs) == 6 and sum(pair.endswith(" × model.layers: trend") for pair in pairs) == 3
    assert changes(plan, "baseline") == ["op"] and factors.aliases == ()
    assert "every combination of 3 edits and 3 levels of model.layers, 24 runs" in plan.notes
    axis = "the trend of model.layers is along a logarithmic axis, on which its levels are more evenly spaced"
    assert axis in plan.notes


def test_a_sweep_needs_no_other_end(tmp_path):
    plan = planned(tmp_path, SWEEP)
    assert len(plan.variants) == 9 and factors_of(plan).edits == ()
    names = {variant.name for variant in plan.variants}
    assert {"pre_ln", "pre_ln eps=1e-06", "pre_ln eps=0.0001 gain=0.25"} < names
    assert changes(plan, "baseline") == []
    assert changes(plan, "interaction") == ["recipe.optimizer.adamw.eps: trend × block.*_residual.gain: trend"]
    gains = {variant.name: str(variant.block) for variant in plan.variants}
    assert gains["pre_ln"] != gains["pre_ln gain=0.5"] and gains["pre_ln"] == gains["pre_ln eps=1e-06"]


def test_the_start_of_a_trained_gain_is_a_number(tmp_path):
    """What else the gain is stays; the level of SAS-P itself is SAS-P."""
    judge = "{against: sas_p, metrics: {eval_loss: {}}}"
    vary = "{block.mlp_residual.gain.init: [1, 0.01, 1/sqrt(depth), 0.1]}"
    plan = planned(tmp_path, f"{{factorial: {{from: sas_p, vary: {vary}}}}}", judge=judge)
    assert [variant.name for variant in plan.variants if variant.id == plan.baseline] == ["sas_p"]
    blocks = {variant.name: str(variant.block) for variant in plan.variants}
    assert set(blocks) == {"sas_p", "sas_p init=0.01", "sas_p init=1/sqrt(depth)", "sas_p init=1"}
    numbers = vary.replace("1/sqrt(depth), ", "")
    plan = planned(tmp_path, f"{{factorial: {{from: sas_p, vary: {numbers}}}}}", judge=judge)
    assert changes(plan, "main") == [f"block.mlp_residual.gain.init: {kind}" for kind in ("trend", "curvature")]
    with pytest.raises(InputError, match=r"residual\.gain has no field 'start'"):
        planned(tmp_path, f"{{factorial: {{from: sas_p, vary: {vary.replace('init', 'start')}}}}}", judge=judge)
    with pytest.raises(InputError, match=r"residual\.gain has no fields"):  # a fixed gain is itself a number
        planned(tmp_path, "{factorial: {from: pre_ln, vary: {block.mlp_residual.gain.init: [1, 2]}}}")


def test_a_claim_is_not_about_a_run_of_a_factorial(tmp_path):
    """Its effects are judged, and the whole of its edits; one run by itself is not."""
    claim = (
        "{{against: pre_ln, metrics: {{eval_loss: {{}}}}, "
        "expect: [{{claim: c, of: '{}', metric: eval_loss, verdict: worse}}]}}"
    )
    sweep = "{factorial: {from: pre_ln, vary: {model.layers: [4, 8]}}}"
    with pytest.raises(InputError, match=r"'pre_ln layers=8', which this design does not compare(.|\n)*layers: trend"):
        planned(tmp_path, sweep, judge=claim.format("pre_ln layers=8"))
    for of in ("op", "+qk_norm", "model.layers: trend"):
        planned(tmp_path, DEPTHS, judge=claim.format(of))


def test_the_level_of_the_start_is_the_trial_that_it_was_without_levels(tmp_path):
    plan = planned(tmp_path, SWEEP)
    plain = planned(tmp_path, "{compare: [pre_ln, op]}")
    trials = {trial.id for trial in plain.trials if trial.variant == plain.baseline}
    assert trials <= {trial.id for trial in plan.trials} and plan.baseline == plain.baseline


def test_a_start_that_is_no_level_is_trained_beside_the_runs(tmp_path):
    plan = planned(tmp_path, "{factorial: {from: pre_ln, vary: {model.layers: [2, 8]}}}")
    assert len(plan.variants) == 3 and len(factors_of(plan).runs) == 2
    assert "pre_ln, the baseline, is trained in addition to these runs" in plan.notes
    assert not any("is not one of these runs" in note for note in plan.notes)
    assert changes(plan, "main") == ["model.layers: trend"]


def test_levels_without_an_order_are_each_against_the_first(tmp_path):
    design = "{factorial: {from: pre_ln, to: op, vary: {data.tokenizer: [bytes, {bpe: 300}, {bpe: 400}]}}}"
    plan = planned(tmp_path, design)
    assert changes(plan, "main")[3:] == ["data.tokenizer={bpe: 300}", "data.tokenizer={bpe: 400}"]
    assert factors_of(plan).varied[0].scale == "nominal"
    details = {comparison.change: comparison.detail for comparison in plan.comparisons}
    assert details["data.tokenizer={bpe: 400}"] == "bytes → {bpe: 400} at data.tokenizer"
    pairs = changes(plan, "interaction")
    assert len(pairs) == 3 + 3 * 2 and "+qk_norm × data.tokenizer={bpe: 300}" in pairs
    with pytest.raises(InputError, match="judge eval_bits_per_byte"):
        planned(tmp_path, design, judge="{against: pre_ln, metrics: {eval_loss: {}}}")


def test_a_factor_that_only_some_blocks_have_is_varied_there(tmp_path):
    plan = planned(tmp_path, "{factorial: {from: pre_ln, to: op, vary: {block.*_norm.eps: [1e-6, 1e-4, 1e-2]}}}")
    factors = factors_of(plan)
    assert len(factors.runs) == 4 * 3 + 4
    removed = factors.edits.index("-layer_norm")
    assert {levels[-1] for _, levels in factors.runs if levels[removed] == 1} == {0}
    assert "the same model: CD1, CD2, CD3" in plan.notes
    assert any(note.startswith("not estimated: -layer_norm × block.*_norm.eps: trend") for note in plan.notes)
    assert any(alias.other == ("-layer_norm", "block.*_norm.eps: trend") for alias in factors.aliases)


def test_combinations_that_do_not_fit_are_left_out_with_the_reason(tmp_path):
    plan = planned(tmp_path, "{factorial: {from: pre_ln, vary: {model.width: [32, 60], model.heads: [4, 5]}}}")
    assert "left out: A1B2 (5 heads do not divide the width 32)" in plan.notes
    assert len(factors_of(plan).runs) == 3


def test_a_plan_without_levels_is_written_as_ever(tmp_path):
    for design, varied in (("{factorial: {from: pre_ln, to: op}}", False), (SWEEP, True)):
        plan = planned(tmp_path, design)
        ((_, written),) = plan_document(plan, Documents(source=""))["factors"]
        assert ("varied" in written) == varied
        back = json.loads(json.dumps(written))
        factors = factors_of(plan)
        assert back == json.loads(json.dumps({k: v for k, v in asdict(factors).items() if varied or k != "varied"}))
        assert tuple(VariedFactor(**{**one, "values": tuple(one["values"])}) for one in back.get("varied", ())) == (
            factors.varied
        )


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ((4, 8, 16), "log"),
        ((1, 2, 3), "linear"),
        ((1e-8, 1e-6, 1e-4), "log"),
        ((0, 1, 10), "linear"),
        ((-1, 0, 1), "linear"),
        ((1, 100), "linear"),
        ((True, False), "nominal"),
        (("1/width", 1.0), "nominal"),
    ],
)
def test_levels_are_on_the_scale_on_which_they_are_more_evenly_spaced(values, scale):
    assert scale_of(values) == scale


@pytest.mark.parametrize("values", [(4, 8, 16), (0.0, 1.0, 10.0, 11.0), (1, 2, 4, 8, 17, 30), ("a", "b", "c")])
def test_contrasts_of_levels_are_what_they_say(values):
    """Against the polynomial fit of numpy: the change over the range, and how far its ends lie above the middle."""
    varied = VariedFactor(address="x", values=values, scale=scale_of(values))
    factors = Factors(edits=(), runs=tuple((str(i), (i,)) for i in range(len(values))), effects=(), varied=(varied,))
    columns, x = columns_of(factors), coded(factors, [levels for _, levels in factors.runs])
    y = np.random.default_rng(1).normal(size=len(values))
    beta = np.linalg.lstsq(np.column_stack([np.ones(len(values)), x]), y)[0][1:]
    effects = dict(zip((column.name for column in columns), 2 * beta, strict=True))
    assert len(columns) == len(values) - 1
    np.testing.assert_allclose(x.sum(axis=0), 0, atol=1e-12)
    if varied.scale == "nominal":
        assert effects == {"x=b": pytest.approx(y[1] - y[0]), "x=c": pytest.approx(y[2] - y[0])}
        return
    t = places_of(varied)
    slope, _ = np.polyfit(t, y, 1)
    curve = np.poly1d(np.polyfit(t, y, 2))
    assert effects["x: trend"] == pytest.approx(2 * slope)
    assert effects["x: curvature"] == pytest.approx((curve(-1) + curve(1)) / 2 - curve(0))
    products = x.T @ x
    np.testing.assert_allclose(products - np.diag(np.diag(products)), 0, atol=1e-9)


def test_of_two_levels_the_trend_is_what_an_edit_would_be():
    two = VariedFactor(address="x", values=(1, 3), scale="linear")
    factors = Factors(edits=("a",), runs=(("p", (-1, 0)), ("q", (1, 1))), effects=(), varied=(two,))
    np.testing.assert_array_equal(coded(factors, [(-1, 0), (1, 1)]), [[-1, -1], [1, 1]])


def test_what_is_fitted_is_every_contrast_of_the_factors_and_pairs(tmp_path):
    factors = factors_of(planned(tmp_path, DEPTHS))
    levels = coded(factors, [levels for _, levels in factors.runs])
    assert len(fitted_terms(factors, levels)) == 3 + 2 + 3 + 3 * 2
    alone = replace(factors, effects=tuple(effect for effect in factors.effects if len(effect) == 1))
    assert len(fitted_terms(alone, levels)) == 5


def test_levels_may_be_set_by_an_option_and_beside_terms_of_fairness(tmp_path):
    setting = "design.factorial.vary={model.layers: [2, 4], model.width: [32, 64]}"
    fair = "{budget: steps, match: none, tune: none, under: {equal steps: {}, equal FLOPs: {budget: flops}}}"
    found = space(tmp_path, setting, design="{factorial: {from: pre_ln}}", judge=JUDGE, fair=fair)
    plan = build_plan(found, vocab_size=256, corpus="text")
    (_, first), (_, second) = plan.factors
    assert first.varied == second.varied and len(first.runs) == len(second.runs) == 4
    assert {id for id, _ in first.runs} != {id for id, _ in second.runs}
    steps = {trial.work.recipe.steps for trial in plan.trials}
    assert 20 in steps and len(steps) > 1
