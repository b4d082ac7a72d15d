"""Learning rates tuned for none of the blocks compared: told beside what is equal, and whether that is declared."""

import pytest
from space_fixtures import space

from ablate.plan.build import build_plan
from ablate.verdict.fairness_audit import unequal

LEAD = "equal terms: "
DEFAULT = "equal steps by default; learning rate 0.01, tuned for neither; "
WAY = "fair: {tune: {lr: [0.003, 0.01, 0.03], seeds: 2}} tunes it for each"
COMPARE = "{compare: [pre_ln, sas_p]}"


def told(tmp_path, **sections):
    asked = space(tmp_path, **{"design": COMPARE, **sections})
    plan = build_plan(asked, vocab_size=256, corpus="corpus")
    return [note.removeprefix(LEAD) for note in plan.notes if note.startswith(LEAD)]


def test_a_rate_that_is_tuned_for_neither_is_told_with_the_way_to_tune_it(tmp_path):
    assert told(tmp_path) == [DEFAULT + WAY]


@pytest.mark.parametrize(
    ("fair", "equal"),
    [
        ("{budget: steps}", "equal steps (declared)"),
        ("{budget: flops}", "equal training FLOPs (declared)"),
        ("{match: {parameters: 5%, by: mlp}}", "equal steps by default, parameters within 5 % by mlp (declared)"),
        ("{under: {one: {}, other: {budget: flops}}}", "one and other (declared)"),
    ],
)
def test_what_is_equal_is_declared_only_where_the_space_says_so(tmp_path, fair, equal):
    (line,) = told(tmp_path, fair=fair)
    whom = "none of them" if "under" in fair else "neither"
    assert line == f"{equal}; learning rate 0.01, tuned for {whom}; {WAY}"


@pytest.mark.parametrize("fair", [None, "{budget: steps}"])
def test_the_page_calls_steps_declared_where_they_were(tmp_path, fair):
    asked = space(tmp_path, design=COMPARE, fair=fair)
    plan = build_plan(asked, vocab_size=256, corpus="corpus")
    (audit,) = unequal(plan, asked)
    assert audit.declared == ("" if fair is None else "equal steps")


@pytest.mark.parametrize("field", ["lr", "recipe.optimizer.adamw.lr"])
def test_rates_that_are_tuned_are_not_told_but_others_do_not_count(tmp_path, field):
    assert told(tmp_path, fair=f"{{tune: {{{field}: [1e-3, 1e-2], seeds: 1}}}}") == []
    (line,) = told(tmp_path, fair="{tune: {weight_decay: [0, 0.1], seeds: 1}}")
    assert line == DEFAULT + WAY
    (line,) = told(tmp_path, fair=f"{{tune: {{{field}: [1e-3], weight_decay: [0, 0.1], seeds: 1}}}}")
    assert line == DEFAULT + WAY, "a single value is no choice"


MUON = "{muon: {block: pre_ln, set: {recipe.optimizer: {muon: {lr: 0.02}}}}}"


def test_each_optimiser_has_its_rate_and_one_that_is_tuned_is_left_out(tmp_path):
    (line,) = told(tmp_path, variants=MUON, design="{compare: [pre_ln, muon]}")
    assert line == (
        "equal steps by default; learning rates 0.01 and 0.02, tuned for neither; fair: {tune: {"
        "recipe.optimizer.adamw.lr: [0.003, 0.01, 0.03], recipe.optimizer.muon.lr: [0.007, 0.02, 0.06], seeds: 2}} "
        "tunes it for each"
    )
    fair = "{tune: {recipe.optimizer.adamw.lr: [1e-3, 1e-2], seeds: 1}}"
    (line,) = told(tmp_path, variants=MUON, design="{compare: [pre_ln, muon]}", fair=fair)
    assert "learning rate 0.02, not tuned for muon; " in line


def test_one_grid_is_around_all_rates_of_an_optimiser(tmp_path):
    other = "{slow: {block: pre_ln, set: {recipe.optimizer: {adamw: {lr: 0.001, weight_decay: 0}}}}}"
    (line,) = told(tmp_path, variants=other, design="{compare: [pre_ln, slow]}")
    assert "learning rates 0.001 and 0.01" in line and "lr: [0.0003, 0.001, 0.01, 0.03]" in line


def test_where_the_rate_is_what_is_asked_it_is_no_term(tmp_path):
    variants = "{fast: {block: pre_ln, set: {recipe.optimizer.adamw.lr: 0.03}}}"
    assert told(tmp_path, variants=variants, design="{compare: [pre_ln, fast]}") == []
    (line,) = told(tmp_path, variants=variants, design="{compare: [pre_ln, fast, op, sas_p]}")
    assert "tuned for none of them" in line
    vary = "{factorial: {from: pre_ln, to: op, vary: {recipe.optimizer.adamw.lr: [1e-3, 1e-2]}}}"
    assert told(tmp_path, design=vary) == []


def test_a_search_is_told_to_search_the_rate_too(tmp_path):
    search = "{search: {from: pre_ln, objective: {eval_loss: min}, sampler: random, budget: {trials: 4}%s}}"
    (line,) = told(tmp_path, design=search % "")
    way = "vary: {recipe.optimizer.adamw.lr: {from: 0.003, to: 0.03, scale: log}} searches it beside the blocks"
    assert line == f"equal steps by default; learning rate 0.01, tuned for no block; {way}"
    found = search % ", vary: {recipe.optimizer.adamw.lr: {from: 3e-3, to: 3e-2, scale: log}}"
    assert told(tmp_path, design=found) == []
