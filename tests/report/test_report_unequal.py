"""What was not equal, whatever was declared: counted anew here."""

from space_fixtures import space

from ablate.plan.build import build_plan
from ablate.plan.models import Models
from ablate.plan.plan import Known
from ablate.verdict.fairness_audit import unequal

JUDGE = "{against: pre_ln, metrics: {eval_loss: {margin: 1%}}}"


def world(tmp_path, fair, paces=None, tuned=None, names="pre_ln, sas_p", **sections):
    design = f"{{compare: [{names}]}}"
    found = space(tmp_path, **{"design": design, "judge": JUDGE, "fair": fair, **sections})
    models = Models(found, 256, "corpus")
    of = {models.as_written(found.blocks[name]): pace for name, pace in (paces or {}).items()}
    known = Known(paces=of, tuned=tuned or {})
    return found, build_plan(found, vocab_size=256, corpus="corpus", known=known)


def rows(found):
    return {(row.name, row.quantity): row for row in found.rows}


def test_equal_steps_leave_parameters_and_flops_unequal(tmp_path):
    found, plan = world(tmp_path, None)
    (under,) = unequal(plan, found)
    pre_ln, sas_p = plan.variants
    assert (under.terms, under.declared) == ("", "")
    assert under.equal == "the same for all: layers, width, hidden width of MLPs, steps, tokens"
    assert [row.quantity for row in under.rows] == ["parameters", "FLOPs of a forward pass", "training FLOPs"]
    parameters = rows(under)["sas_p", "parameters"]
    assert (parameters.baseline, parameters.here) == (f"{pre_ln.parameters:,}", f"{sas_p.parameters:,}")
    assert parameters.share == sas_p.parameters / pre_ln.parameters - 1
    assert parameters.variant == sas_p.id
    flops = rows(under)["sas_p", "training FLOPs"]
    assert flops.baseline == f"{3 * pre_ln.flops * 4 * 20:.4g}"
    assert not any(row.declared for row in under.rows)


def test_each_of_the_terms_has_its_own_variants_and_says_what_it_declares(tmp_path):
    under = "equal steps: {}, as large: {match: {parameters: 9%, by: width}}, equal FLOPs: {budget: flops}"
    found, plan = world(tmp_path, f"{{under: {{{under}}}}}")
    steps, large, flops = unequal(plan, found)
    assert [one.terms for one in (steps, large, flops)] == ["equal steps", "as large", "equal FLOPs"]
    assert [one.declared for one in (steps, large, flops)] == [
        "equal steps",
        "equal steps, parameters within 9 % by width",
        "equal training FLOPs",
    ]
    assert {row.name for row in large.rows} == {"sas_p, as large"}
    assert {"width", "hidden width of MLPs", "FLOPs of a forward pass"} <= {row.quantity for row in large.rows}
    assert [row.quantity for row in large.rows if row.declared] == ["parameters"]  # what the match left over
    assert "layers" in large.equal
    by = rows(flops)
    here = next(t.work.recipe.steps for t in plan.trials if t.work.recipe.steps != 20)
    assert by["sas_p, equal FLOPs", "steps"].here == str(here)
    assert by["sas_p, equal FLOPs", "tokens"].here == f"{here * 4 * 16:,}"
    assert by["sas_p, equal FLOPs", "training FLOPs"].declared
    assert abs(by["sas_p, equal FLOPs", "training FLOPs"].share) < 0.03 < by["sas_p, equal FLOPs", "steps"].share


def test_a_variant_that_differs_in_nothing_that_is_counted_has_no_row(tmp_path):
    found, plan = world(tmp_path, None, names="pre_ln, post_ln")
    (under,) = unequal(plan, found)
    assert under.rows == ()
    assert "parameters" in under.equal
    assert "training FLOPs" in under.equal


def test_time_is_told_where_it_was_measured_and_steps_where_they_are_known(tmp_path):
    fair = "{budget: wallclock}"
    found, plan = world(tmp_path, fair)
    (before,) = unequal(plan, found)
    assert rows(before)["sas_p", "steps"].here == "not known yet"
    assert rows(before)["sas_p", "steps"].share is None
    assert not any("time" in row.quantity for row in before.rows)
    found, plan = world(tmp_path, fair, {"pre_ln": 0.010, "sas_p": 0.008})
    pre_ln, sas_p = plan.variants
    (after,) = unequal(plan, found, {pre_ln.id: 0.010, sas_p.id: 0.008})
    pace = rows(after)["sas_p", "time per step"]
    assert (pace.baseline, pace.here, pace.declared) == ("10 ms", "8 ms", False)
    assert rows(after)["sas_p", "steps"].here == "25"
    assert "total time" in after.equal  # 20 × 10 ms = 25 × 8 ms


def test_tuned_settings_and_what_went_into_them_are_told(tmp_path):
    fair = "{tune: {seeds: 2, lr: [1e-3, 1e-2]}}"
    found, plan = world(tmp_path, fair)
    (before,) = unequal(plan, found)
    assert "lr" in before.equal  # not known yet of either
    tuned = dict(zip([v.id for v in plan.variants], [(("lr", 1e-3),), (("lr", 1e-2),)], strict=True))
    found, plan = world(tmp_path, fair, tuned=tuned)
    (after,) = unequal(plan, found)
    row = rows(after)["sas_p", "lr"]
    assert (row.baseline, row.here, row.share) == ("0.001", "0.01", None)
    assert after.declared == "each tuned over the same settings"
    assert "tuning trials" in after.equal


def test_the_noise_arm_is_not_of_them(tmp_path):
    found, plan = world(tmp_path, None, noise="{seeds: 2}")
    (under,) = unequal(plan, found)
    assert {row.name for row in under.rows} == {"sas_p"}


def test_what_a_treatment_is_about_is_no_error_of_what_is_declared_equal(tmp_path):
    fair = "{budget: steps, match: none, tune: none, under: {}}"
    variants = "{long: {block: op, set: {recipe.steps: 40, recipe.clip: 2.0}}}"
    found, plan = world(tmp_path, fair, names="pre_ln, op, long", variants=variants)
    (told,) = unequal(plan, found)
    steps = [(row.name, row.baseline, row.here, row.declared) for row in told.rows if row.quantity == "steps"]
    assert steps == [("long", "20", "40", False)]
    clips = [(row.name, row.baseline, row.here) for row in told.rows if row.quantity == "recipe.clip"]
    assert clips == [("long", "as in the space", "2")]
