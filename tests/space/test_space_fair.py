"""What a space declares to be equal."""

import pytest
from space_fixtures import space

from ablate.errors import InputError
from ablate.space.fair import EQUAL_STEPS, Match, Terms, Tune

WIDTH = Match(parameters=0.01, by="width")


@pytest.mark.fast
def test_a_space_that_says_nothing_has_equal_steps_and_one_nameless_set_of_terms(tmp_path):
    found = space(tmp_path).fair
    assert found == EQUAL_STEPS
    assert dict(found.terms) == {"": Terms(budget="steps", match="none")}


@pytest.mark.fast
def test_what_is_left_out_is_as_the_grammar_has_it(tmp_path):
    assert space(tmp_path, fair="{budget: flops}").fair == EQUAL_STEPS.model_copy(update={"budget": "flops"})
    assert space(tmp_path, "fair.match={parameters: 2%, by: mlp}").fair.match == Match(parameters=0.02, by="mlp")


@pytest.mark.fast
def test_each_of_several_terms_has_what_is_said_beside_them_unless_it_says_otherwise(tmp_path):
    under = "{as it is: {}, by width: {match: {parameters: 1%, by: width}}, steps: {budget: steps}}"
    found = space(tmp_path, fair=f"{{budget: flops, under: {under}}}").fair
    assert dict(found.terms) == {
        "as it is": Terms(budget="flops", match="none"),
        "by width": Terms(budget="flops", match=WIDTH),
        "steps": Terms(budget="steps", match="none"),
    }


@pytest.mark.fast
def test_steps_and_tokens_without_a_match_leave_every_block_as_it_is():
    assert [
        budget for budget in ("steps", "tokens", "flops", "wallclock") if Terms(budget=budget, match="none").plain
    ] == [
        "steps",
        "tokens",
    ]
    assert not Terms(budget="steps", match=WIDTH).plain


@pytest.mark.fast
def test_settings_to_tune_are_listed_by_name(tmp_path):
    found = space(tmp_path, fair="{tune: {seeds: 2, lr: [1e-3, 1]}}").fair.tune
    assert isinstance(found, Tune)
    assert {field.name: field.values for field in found.fields} == {"lr": (1e-3, 1.0)}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("fair", "said"),
    [
        ("{budget: flops, under: {a: {}, b: {budget: steps}}}", None),
        ("{budget: flops, under: {a: {budget: wallclock}, b: {budget: steps}}}", "fair.budget has no effect"),
        ("{budget: steps, under: {a: {budget: wallclock}, b: {budget: flops}}}", None),
        ("{under: {a: {budget: steps}, b: {budget: tokens}}}", None),
        ("{under: {a: {budget: steps}, b: {budget: steps}}}", "'b' and 'a' are the same terms"),
        ("{under: {' ': {budget: steps}}}", "terms need a name"),
    ],
)
def test_only_what_is_said_in_vain_is_a_mistake(tmp_path, fair, said):
    if said is None:
        assert space(tmp_path, fair=fair).fair.terms
        return
    with pytest.raises(InputError, match=said):
        space(tmp_path, fair=fair)


@pytest.mark.fast
@pytest.mark.parametrize("fair", ["{under: {}}", '{"under": {}}'])
def test_terms_that_are_none_are_no_answer(tmp_path, fair):
    with pytest.raises(InputError, match=r"fair\.under names no terms: it has no effect"):
        space(tmp_path, fair=fair)
    assert not space(tmp_path, fair=None).fair.under, "the twin: as the grammar has it"
    assert space(tmp_path, fair="{budget: flops, under: {}}").fair.budget == "flops"


@pytest.mark.fast
def test_so_many_trials_may_tune_one_block_and_no_more(tmp_path):
    def listed(seeds):
        values = ", ".join(f"{k}e-4" for k in range(1, 17))
        return space(tmp_path, fair=f"{{tune: {{lr: [{values}], weight_decay: [0, 0.1], seeds: {seeds}}}}}")

    assert listed(8).fair.tune.seeds == 8  # 256
    with pytest.raises(InputError, match=r"288 trials per block \(16 of lr × 2 of weight_decay × 9 seeds\)"):
        listed(9)
