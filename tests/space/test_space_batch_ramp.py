"""A batch that grows: its size at each step, and what a run has of it in all, each against a direct computation."""

from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from recipes import recipe
from space_fixtures import space

from ablate.plan.build import build_plan
from ablate.plan.models import Models
from ablate.space.fits import needed_bytes
from ablate.space.recipe import BatchRamp
from ablate.space.schedule import batch_at, sequences, sequences_of, smallest_batch, steps_of

RECIPE = "{steps: 20, batch: 12, optimizer: {adamw: {lr: 1e-2}}, batch_ramp: %s}"


def ramped(first, until, *, steps, batch):
    ramp = BatchRamp(**{"from": first, "until": until})
    return recipe(steps=steps, batch=batch).model_copy(update={"batch_ramp": ramp})


def directly(first, batch, growing, steps):
    """The definition, in exact fractions."""
    grown = ((first + Fraction(batch - first) * Fraction(step, growing)).__floor__() for step in range(growing))
    return [*grown, *[batch] * max(0, steps - growing)][:steps]


LENGTHS = st.one_of(st.integers(1, 40), st.floats(0.05, 1.0))


@given(st.integers(1, 60), st.integers(1, 500), LENGTHS, st.integers(1, 60))
@example(first=32, grown=8160, until=0.6, steps=50)  # Crammed BERT's last batch
def test_it_grows_linearly_up_to_the_batch(first, grown, until, steps):
    growing = until if isinstance(until, int) else round(until * steps)
    found = ramped(first, until, steps=steps, batch=first + grown)
    sizes = [batch_at(found, step) for step in range(steps)]
    assert sizes == directly(first, first + grown, growing, steps)
    assert sizes == sorted(sizes) and smallest_batch(found) == sizes[0] == (first if growing else first + grown)
    assert sequences_of(found) == sum(sizes)


@given(st.integers(1, 9), st.integers(1, 60), LENGTHS, st.integers(1, 4000))
def test_no_other_number_of_steps_has_nearly_as_many_sequences(first, grown, until, wanted):
    ramp, batch = BatchRamp(**{"from": first, "until": until}), first + grown
    found = steps_of(batch, ramp, Fraction(wanted))
    off = {steps: abs(sequences(batch, ramp, steps) - wanted) for steps in range(1, wanted + 2)}  # a batch is 1 or more
    assert found >= 1 and off[found] == min(off.values())


def test_a_long_run_is_counted_at_once():
    """By a closed form: Crammed BERT's ramp over a million steps."""
    assert (
        sequences(8192, BatchRamp(**{"from": 1, "until": 0.5}), 10**6)
        == sum(1 + 8191 * step // 500_000 for step in range(500_000)) + 500_000 * 8192
    )


def test_without_one_all_is_as_before(tmp_path):
    plain = space(tmp_path, recipe="{steps: 20, batch: 12, optimizer: {adamw: {lr: 1e-2}}}")
    (tmp_path / "other").mkdir()
    none = space(tmp_path / "other", recipe=RECIPE % "none")
    ids = [[t.id for t in build_plan(found, vocab_size=256, corpus="c").trials] for found in (plain, none)]
    assert ids[0] == ids[1]
    assert {batch_at(none.recipe, step) for step in range(20)} == {12} and sequences_of(none.recipe) == 240


def test_a_ramp_is_another_trial_and_reads_less(tmp_path):
    grown = space(tmp_path, recipe=RECIPE % "{from: 3, until: 60%}")
    (tmp_path / "other").mkdir()
    plain = space(tmp_path / "other", recipe=RECIPE % "none")
    ids = [{t.id for t in build_plan(found, vocab_size=256, corpus="c").trials} for found in (grown, plain)]
    assert not ids[0] & ids[1]
    assert sequences_of(grown.recipe) == sum(directly(3, 12, 12, 20)) < 240
    long = grown.recipe.model_copy(update={"steps": 10**6})
    whole = long.model_copy(update={"batch_ramp": None})
    asked = [needed_bytes(grown.data, each, length=64, windows=8) for each in (long, whole)]
    assert asked[0] <= asked[1]


JUDGE = "{against: pre_ln, metrics: {eval_loss: {margin: 1%}}}"


@pytest.mark.parametrize("until", ["60%", "7"])
def test_equal_tokens_are_counted_in_sequences(tmp_path, until):
    """Where a variant has another batch, its steps follow from all sequences, not from those of one step."""
    found = space(
        tmp_path,
        recipe=RECIPE % f"{{from: 3, until: {until}}}",
        design="{compare: [pre_ln, wide]}",
        judge=JUDGE,
        fair="{budget: tokens}",
        variants="{wide: {block: pre_ln, set: {recipe.batch: 30}}}",
    )
    plan = build_plan(found, vocab_size=256, corpus="c")
    trained = {plan.variant(trial.variant).name: trial.work.recipe for trial in plan.trials}
    growing = {"60%": lambda steps: round(0.6 * steps), "7": lambda steps: 7}[until]
    wanted = sum(directly(3, 12, growing(20), 20))
    off = {steps: abs(sum(directly(3, 30, growing(steps), steps)) - wanted) for steps in range(1, 60)}
    assert trained["pre_ln"].steps == 20
    assert off[trained["wide"].steps] == min(off.values())
    assert any(f"tokens {sequences_of(trained['wide']) * found.model.context:,} against" in note for note in plan.notes)
    assert any(f"3 to 12 sequences, {wanted} in all" in note for note in plan.notes)


def test_equal_flops_are_counted_in_sequences(tmp_path):
    found = space(
        tmp_path,
        recipe=RECIPE % "{from: 3, until: 60%}",
        design="{compare: [pre_ln, sas_p]}",
        judge=JUDGE,
        fair="{budget: flops}",
    )
    models = Models(found, 256, "c")
    plan = build_plan(found, vocab_size=256, corpus="c")
    recipes = {trial.variant: trial.work.recipe for trial in plan.trials}
    costs = {v.name: (v.cost.training_flops, recipes[v.id]) for v in plan.variants}
    (each, _), (other, here) = costs["pre_ln"], costs["sas_p"]
    wanted = each * sum(directly(3, 12, 12, 20))
    off = {s: abs(other * sum(directly(3, 12, round(0.6 * s), s)) - wanted) for s in range(1, 80)}
    assert other != each and off[here.steps] == min(off.values())
    assert models.recipe().steps == 20


def test_another_ramp_has_other_batches(tmp_path):
    """So that variants that differ in it are two samples; as do shares of different numbers of steps."""
    found = space(
        tmp_path,
        recipe=RECIPE % "{from: 3, until: 60%}",
        design="{compare: [pre_ln, slow, longer]}",
        judge=JUDGE,
        variants="{slow: {block: pre_ln, set: {recipe.batch_ramp.from: 2}}, "
        "longer: {block: pre_ln, set: {recipe.steps: 40}}}",
    )
    plan = build_plan(found, vocab_size=256, corpus="c")
    assert {plan.variant(each.after).name: each.unpaired for each in plan.comparisons} == {
        "slow": ("recipe.batch_ramp",),
        "longer": ("recipe.batch_ramp",),
    }
