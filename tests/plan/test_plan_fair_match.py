"""Sizes that make a model as large as the baseline's, against a search through all of them."""

import re

import pytest
from builders import CATALOGUE
from reading import ROOT
from space_fixtures import space

from ablate.block.expression import Node, Sequence, Size, walk
from ablate.compiler.compile import size_report
from ablate.errors import InputError
from ablate.plan.build import build_plan
from ablate.plan.designs import DesignArm
from ablate.plan.matching import MOST_SKIPPED, _around, match
from ablate.plan.models import Models
from ablate.plan.plan import PLAIN, Setting
from ablate.space.fair import Match
from ablate.space.load import load_space

NAMES = ["sas_p", "op", "post_ln", "macaron", "value_skipinit"]
SIZES = ["{layers: 4, width: 24, heads: 2, context: 16", "{layers: 4, width: 40, heads: 4, context: 16"]
ROPE = "block.attention.position=rope"
AROUND = ", embedding: {std: 0.02, scale: 50}, head: untied, init: {normal: 0.02}}"


def world(tmp_path, *settings, names=NAMES, model=SIZES[0], **sections):
    design = f"{{compare: [pre_ln, {', '.join(names)}]}}"
    found = space(tmp_path, *settings, design=design, model=model + AROUND, **sections)
    return found, Models(found, 256, "corpus")


def terms(by, share="1%"):
    return f"{{match: {{parameters: {share}, by: {by}}}}}"


def with_hidden(block, units, first, width):
    """The block with its MLPs' hidden widths scaled, without the code under test."""

    def changed(value):
        match value:
            case Node(name="mlp"):
                was = value["hidden"].units or value["hidden"].multiple * width
                return value.replace({"hidden": Size(units=max(1, round(was * units / first)))})
            case Node():
                return Node(value.name, tuple((name, changed(child)) for name, child in value.fields))
            case Sequence():
                return Sequence(tuple(changed(part) for part in value))
            case tuple():
                return tuple(changed(part) for part in value)
        return value

    return changed(block)


def all_sizes(models, block, by, most):
    """Parameters at every size up to `most`, by what the size is; those that cannot be built are not there."""
    model, counted = models.space.model, {}
    for n in range(1, most + 1):
        of = {
            "width": lambda n: (block, Setting(width=n * model.heads)),
            "depth": lambda n: (block, Setting(layers=n)),
            "mlp": lambda n: (with_hidden(block, n, 4 * model.width, model.width), PLAIN),
        }[by]
        try:
            counted[n] = models.cost(*of(n)).parameters
        except InputError:
            continue
    return counted


@pytest.mark.sampled(1)
@pytest.mark.parametrize("model", SIZES)
@pytest.mark.parametrize("by", ["width", "depth", "mlp"])
def test_it_is_the_nearest_of_all_sizes(tmp_path, by, model):
    found, models = world(tmp_path, model=model)
    wanted = models.cost(found.blocks["pre_ln"]).parameters
    most = {"width": 20, "depth": 8, "mlp": 250}[by]
    tried = 0
    for name in NAMES:
        block = found.blocks[name]
        if models.cost(block).parameters == wanted:
            continue
        tried += 1
        got = match(DesignArm("", block), wanted, Match(parameters=1e-9, by=by), models)
        everything = all_sizes(models, block, by, most)
        assert max(everything.values()) > wanted  # else the nearest might be beyond what was tried
        assert abs(got.parameters - wanted) == min(abs(count - wanted) for count in everything.values()), name
        assert models.cost(got.block, got.setting).parameters == got.parameters
    assert tried >= 3


def test_the_sizes_that_rope_cannot_turn_are_passed_over(tmp_path):
    """Two heads of 13 would be 26 wide, but an odd head cannot be turned in pairs: the width goes in steps of 4."""
    found, models = world(tmp_path, ROPE)
    wanted = models.cost(found.blocks["pre_ln"]).parameters
    got = match(DesignArm("", found.blocks["sas_p"]), wanted, Match(parameters=1e-9, by="width"), models)
    assert (got.setting.width or 24) % 4 == 0
    assert {n % 2 for n in all_sizes(models, found.blocks["sas_p"], "width", 20)} == {0}
    plain, models = world(tmp_path, file="plain.yaml")
    assert {n % 2 for n in all_sizes(models, plain.blocks["sas_p"], "width", 9)} == {0, 1}  # the twin: without RoPE


@pytest.mark.parametrize(("width", "heads"), [(96, 4), (256, 4), (512, 8)])
def test_sas_p_is_within_a_hundredth_of_pre_ln_by_width(tmp_path, width, heads):
    model = f"{{layers: 4, width: {width}, heads: {heads}, context: 64"
    plan = planned(*world(tmp_path, names=["sas_p"], model=model, fair=terms("width"), judge=JUDGE))
    before, after = (v.parameters for v in plan.variants)
    assert abs(after / before - 1) <= 0.01
    free = planned(*world(tmp_path, names=["sas_p"], model=model, judge=JUDGE))
    assert abs(free.variants[1].parameters / before - 1) > 0.05  # the twin: unmatched it is not


def test_heads_that_are_too_many_for_it_leave_it_further_off_which_is_refused(tmp_path):
    """With RoPE the width of 768 in 24 heads goes in steps of 48, which are 12 % of the parameters."""
    model = "{layers: 2, width: 768, heads: 24, context: 64"
    with pytest.raises(InputError) as refused:
        planned(*world(tmp_path, ROPE, names=["sas_p"], model=model, fair=terms("width"), judge=JUDGE))
    (share,) = re.findall(r"allow parameters: (\d+%), or set match: none", str(refused.value))
    plan = planned(*world(tmp_path, ROPE, names=["sas_p"], model=model, fair=terms("width", share), judge=JUDGE))
    off = plan.variants[1].parameters / plan.variants[0].parameters - 1
    assert 0.01 < abs(off) <= float(share[:-1]) / 100 < abs(off) + 0.01


def test_the_shipped_space_has_the_same_question_under_five_terms():
    found = load_space(ROOT / "spaces" / "sas_p_fair.yaml", CATALOGUE)
    plan = build_plan(found, vocab_size=256, corpus="corpus")
    baseline = plan.variant(plan.baseline)
    of = {v.terms: v for v in plan.variants if v.id != baseline.id}
    assert baseline.terms == tuple(name for (name,) in of) == tuple(found.fair.terms)
    assert abs(of["equal parameters by width",].parameters / baseline.parameters - 1) <= 0.01
    by_depth = of["equal parameters by depth",]
    near = [Models(found, 256, "").cost(by_depth.block, Setting(layers=n)).parameters for n in (3, 4, 5, 6)]
    assert abs(by_depth.parameters - baseline.parameters) == min(abs(n - baseline.parameters) for n in near)
    steps = {t.variant: t.work.recipe.steps for t in plan.trials}
    flops = of["equal FLOPs",]
    assert abs(steps[flops.id] * flops.flops / (steps[baseline.id] * baseline.flops) - 1) < 0.01
    assert of["equal wall-clock",].setting.open


JUDGE = "{against: pre_ln, metrics: {eval_loss: {margin: 1%}}}"


def planned(found, models, **more):
    return build_plan(found, vocab_size=models.vocab_size, corpus=models.corpus, **more)


def test_by_depth_it_is_the_nearest_layer_and_how_far_off_is_said(tmp_path):
    plan = planned(*world(tmp_path, names=["sas_p"], fair=terms("depth", "4%")))
    pre_ln, sas_p = plan.variants
    assert sas_p.setting.layers == 5
    assert sas_p.name == "sas_p"  # a single set of terms has no name to tell it by
    (note,) = (note for note in plan.notes if note.startswith("sas_p: "))
    off = f"{100 * (sas_p.parameters / pre_ln.parameters - 1):+.1f} %"
    counts = f"parameters {sas_p.parameters:,} against {pre_ln.parameters:,} ({off})"
    assert note == f"sas_p: layers 4 → 5, {counts}"


def test_what_is_within_the_share_stays_as_it_is_and_shares_its_trials(tmp_path):
    op = planned(*world(tmp_path, names=["op"], fair=terms("width")))
    assert [v.setting for v in op.variants] == [PLAIN, PLAIN]
    assert any(note.startswith("op: unchanged, parameters ") for note in op.notes)
    free = planned(*world(tmp_path, names=["op"]))
    assert {t.id for t in op.trials} == {t.id for t in free.trials}
    tight = planned(*world(tmp_path, names=["op"], fair=terms("mlp", "0.3%")))
    assert {t.id for t in tight.trials} != {t.id for t in free.trials}


def test_the_baseline_is_as_the_space_has_it_even_where_it_is_no_arm(tmp_path):
    judge = JUDGE.replace("pre_ln", "post_ln")
    plan = planned(*world(tmp_path, names=["sas_p"], fair=terms("width", "3%"), judge=judge))
    baseline = plan.variant(plan.baseline)
    assert (baseline.name, baseline.setting) == ("post_ln", PLAIN)
    free = planned(*world(tmp_path, names=["sas_p"], judge=judge))
    off = [abs(v.parameters - baseline.parameters) for v in plan.variants]
    assert max(off) < max(abs(v.parameters - baseline.parameters) for v in free.variants)


def test_a_matched_model_has_the_parameters_that_are_told(tmp_path):
    """Counted on the modules themselves."""
    for by in ("width", "depth", "mlp"):
        plan = planned(*world(tmp_path, names=["sas_p"], fair=terms(by, "5%")))
        trial = next(t for t in plan.trials if t.variant == plan.variants[1].id)
        assert size_report(trial.work.architecture, CATALOGUE).parameters == plan.variants[1].parameters


def test_by_mlp_every_mlp_is_widened_in_proportion_and_nothing_else(tmp_path):
    blocks = "{two: [residual: [layer_norm, {mlp: {hidden: 2x}}], residual: [layer_norm, {mlp: {hidden: 4x}}]]}"
    found, models = world(tmp_path, names=["two"], blocks=blocks)
    got = match(DesignArm("", found.blocks["two"]), 50_000, Match(parameters=0.01, by="mlp"), models)
    assert got.within
    small, large = (node["hidden"].units for node in walk(got.block) if node.name == "mlp")
    assert large == 2 * small > 4 * 24
    assert got.block == with_hidden(found.blocks["two"], small, 2 * 24, 24)
    assert got.what == f"hidden width of the MLP 48 → {small}"


def test_trials_of_terms_apart_have_names_apart(tmp_path):
    fair = f"{{under: {{plain: {{}}, by width: {terms('width', '3%')}, by mlp: {terms('mlp')}}}}}"
    plan = planned(*world(tmp_path, names=["sas_p"], fair=fair))
    assert [v.name for v in plan.variants] == ["pre_ln", "sas_p", "sas_p, by width", "sas_p, by mlp"]
    assert [v.terms for v in plan.variants] == [("plain", "by width", "by mlp"), ("plain",), ("by width",), ("by mlp",)]
    assert len({v.id for v in plan.variants}) == 4
    assert len(plan.trials) == len({t.id for t in plan.trials}) == 8


@pytest.mark.parametrize(
    ("wanted", "expected"), [(1, (None, 3)), (30, (None, 3)), (31, (3, 5)), (99, (9, 11)), (120, (11, None))]
)
def test_between_which_sizes_it_lies(wanted, expected):
    """Ten parameters a unit, at odd sizes from 3 to 11 alone."""
    assert _around(lambda n: 10 * n if n % 2 and n >= 3 else None, wanted, 11) == expected


def test_sizes_that_cannot_be_built_at_all_are_given_up():
    asked = []
    assert _around(lambda n: asked.append(n), 10, 10**6) == (None, None)
    assert len(asked) == MOST_SKIPPED


def test_a_match_that_misses_its_bound_is_refused_wherever_it_does(tmp_path):
    """At 2 layers sas_p is nearest as it is; another layer of macaron is as far off."""
    model = "{layers: 2, width: 24, heads: 2, context: 16"
    found, models = world(tmp_path, names=["sas_p", "macaron"], model=model, fair=terms("depth"), judge=JUDGE)
    wanted = models.cost(found.blocks["pre_ln"]).parameters
    sizes = all_sizes(models, found.blocks["sas_p"], "depth", 8)
    assert min(sizes, key=lambda n: abs(sizes[n] - wanted)) == 2 and abs(sizes[2] / wanted - 1) > 0.01
    with pytest.raises(InputError) as refused:
        planned(found, models)
    assert "sas_p cannot be matched to pre_ln in parameters by depth: the nearest is its 2 layers" in str(refused.value)
    assert "macaron cannot be matched to pre_ln in parameters by depth: the nearest is layers 2 → 1" in str(
        refused.value
    )


@pytest.mark.parametrize("by", ["width", "mlp"])
def test_where_no_size_is_nearer_it_is_its_own(tmp_path, by):
    found, models = world(tmp_path)
    block = found.blocks["sas_p"]
    wanted = models.cost(block).parameters + 1
    got = match(DesignArm("", block), wanted, Match(parameters=1e-9, by=by), models)
    assert not got.within and got.off == (wanted - 1) / wanted - 1
    assert got.what == {"width": "its width of 24", "mlp": "its hidden width of the MLP, 96"}[by]
