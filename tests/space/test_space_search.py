"""What a search says, and where what it leaves out comes from."""

from pathlib import Path

import pytest
from builders import CATALOGUE

from ablate.errors import InputError
from ablate.space.design import Pruner, Search
from ablate.space.documents import Choice
from ablate.space.load import load_space
from ablate.space.space import Space

GRAMMAR = Path(__file__).parent.parent / "errors" / "grammars" / "small.yaml"


def space(folder: Path, design: str, *settings: str, profile: str | None = None) -> Space:
    text = f"""\
space: small
question: Which block loses least?
grammar: {GRAMMAR}
model:   {{layers: 4, width: 32, heads: 4, context: 16, init: {{normal: 0.02}}}}
recipe:  {{steps: 20, batch: 4, optimizer: {{adamw: {{lr: 1e-2}}}}}}
design:  {design}
seeds:   2
measure: {{every: 5, probes: [kurtosis], evaluation: {{every: 10, windows: 8}}}}
judge:   {{against: pre_ln, metrics: {{eval_loss: {{margin: 1%}}}}}}
profiles:
  long: {{design: {{search: {{budget: {{hours: 8}}}}}}}}
  path: {{design: {{path: {{from: pre_ln, to: op}}}}}}
"""
    (folder / "space.yaml").write_text(text, encoding="utf-8")
    return load_space(folder / "space.yaml", CATALOGUE, profile=profile, settings=settings)


WRITTEN = "{search: {from: pre_ln, objective: {eval_loss: min, peak_kurtosis: min}, budget: {trials: 60}}}"


def searched(found: Space) -> Search:
    assert found.design.search is not None
    return found.design.search


@pytest.mark.fast
def test_what_is_left_out_comes_from_the_grammar(tmp_path: Path) -> None:
    found = space(tmp_path, WRITTEN)
    assert (found.design.kind, found.design.blocks, set(found.blocks)) == ("search", ("pre_ln",), {"pre_ln"})
    search = searched(found)
    assert search.objective == {"eval_loss": "min", "peak_kurtosis": "min"}
    assert (search.sampler, search.parallel, search.seed) == (Choice("tpe"), 1, 0)
    assert (search.pruner, search.confirm, search.beforehand.veto, search.beforehand.order) == (
        "none",
        "none",
        {},
        None,
    )
    assert (search.budget.kind, search.budget.trials, search.budget.hours) == ("trials", 60, None)


@pytest.mark.fast
def test_what_is_said_lies_on_top(tmp_path: Path) -> None:
    found = space(tmp_path, WRITTEN, "design.search.sampler=evolution", "design.search.parallel=4", profile="long")
    search = searched(found)
    assert (search.sampler, search.parallel, search.seed) == (Choice("evolution"), 4, 0)
    assert (search.budget.kind, search.budget.hours, search.budget.trials) == ("hours", 8.0, None)


@pytest.mark.fast
def test_another_design_takes_nothing_of_a_search(tmp_path: Path) -> None:
    assert space(tmp_path, WRITTEN, profile="path").design.search is None
    assert space(tmp_path, "{compare: [pre_ln, op]}").design.kind == "compare"


@pytest.mark.fast
def test_a_grammar_that_says_nothing_leaves_nothing_to_be_assumed(tmp_path: Path) -> None:
    bare = tmp_path / "bare.yaml"
    lines = GRAMMAR.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith("  design: {search: ")]
    assert len(kept) == len(lines) - 1
    bare.write_text("".join(kept), encoding="utf-8")
    missing = "'sampler', 'pruner', 'beforehand', 'confirm', 'parallel', 'seed'"
    with pytest.raises(InputError, match=rf"missing keys {missing} in design\.search"):
        space(tmp_path, WRITTEN, "grammar=bare.yaml")


@pytest.mark.fast
@pytest.mark.parametrize("budget", ["{trials: null}", "{trials: 3, flops: null}"])
def test_a_budget_of_nothing(tmp_path: Path, budget: str) -> None:
    with pytest.raises(InputError, match="a budget must have exactly one kind"):
        space(tmp_path, WRITTEN.replace("{trials: 60}", budget))


@pytest.mark.fast
def test_one_kind_of_pruner_takes_the_place_of_another(tmp_path: Path) -> None:
    hyperband = "design.search.pruner={hyperband: {first: 25%, factor: 2}}"
    asha = "design.search.pruner={asha: {first: 50%, factor: 3}}"
    pruner = searched(space(tmp_path, WRITTEN, hyperband, asha)).pruner
    assert isinstance(pruner, Pruner)
    assert (pruner.kind, pruner.rungs.first, pruner.rungs.factor) == ("asha", 0.5, 3)
    assert searched(space(tmp_path, WRITTEN, hyperband, "design.search.pruner=none")).pruner == "none"


@pytest.mark.fast
@pytest.mark.parametrize(("first", "fits"), [("24%", False), ("25%", True), ("94%", True)])
def test_a_rung_needs_an_evaluation_before_it(tmp_path: Path, first: str, fits: bool) -> None:
    settings = (f"design.search.pruner={{asha: {{first: {first}, factor: 2}}}}", "measure.evaluation.every=5")
    if fits:
        assert searched(space(tmp_path, WRITTEN, *settings)).pruner != "none"
        return
    with pytest.raises(InputError, match=r"before the first evaluation, at step 5\n(.*\n)*.*first: 25%"):
        space(tmp_path, WRITTEN, *settings)


@pytest.mark.fast
def test_a_budget_in_trials_is_for_the_reference_and_one_block(tmp_path: Path) -> None:
    assert searched(space(tmp_path, WRITTEN, "design.search.budget={trials: 4}")).budget.trials == 4
    with pytest.raises(InputError, match="leaves none for proposals"):
        space(tmp_path, WRITTEN, "design.search.budget={trials: 3}")
    assert searched(space(tmp_path, WRITTEN, "design.search.budget={trials: 3}", "seeds=1")).budget.trials == 3


@pytest.mark.fast
def test_no_more_are_confirmed_than_are_trained(tmp_path: Path) -> None:
    confirm = "design.search.confirm={blocks: 3, seeds: 2}"
    assert searched(space(tmp_path, WRITTEN, confirm, "design.search.budget={trials: 8}")).confirm != "none"
    with pytest.raises(InputError, match="3 blocks are to be confirmed, but at most 2 are trained"):
        space(tmp_path, WRITTEN, confirm, "design.search.budget={trials: 7}")
    assert searched(space(tmp_path, WRITTEN, confirm, "design.search.budget={hours: 0.001}")).confirm != "none"


@pytest.mark.fast
def test_cmaes_has_one_objective(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match="cmaes supports one objective, and this search has 2: eval_loss, peak_kurtosis"
    ):
        space(tmp_path, WRITTEN, "design.search.sampler=cmaes")
    assert searched(space(tmp_path, WRITTEN.replace(", peak_kurtosis: min", ""), "design.search.sampler=cmaes"))


@pytest.mark.fast
def test_what_is_broken_elsewhere_is_said_there_alone(tmp_path: Path) -> None:
    settings = ("design.search.pruner={asha: {first: 1%, factor: 2}}", "recipe.steps=none")
    with pytest.raises(InputError) as refused:
        space(tmp_path, WRITTEN, *settings)
    assert str(refused.value).count("error: ") == 1
    assert "recipe.steps" in str(refused.value)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("address", "value"), [("mlp_norm.eps", "1e-6"), ("attention_norm.scale", "false")])
def test_an_override_may_be_for_what_is_derived_alone(tmp_path: Path, address: str, value: str) -> None:
    """`bare` has no norms, but what the grammar derives has."""
    bare = "blocks={bare: [residual: [attention], residual: [mlp]]}"
    settings = (bare, f"block={{{address}: {value}}}", "judge.against=bare")
    found = space(tmp_path, WRITTEN.replace("pre_ln", "bare"), *settings)
    assert [override.address.text for override in found.overrides] == [address]
    with pytest.raises(InputError, match="has no effect here: no block of this design has a part"):
        space(tmp_path, "{compare: [bare, also]}", bare[:-1] + ", also: [residual: [mlp]]}", *settings[1:])


@pytest.mark.fast
def test_an_override_that_nothing_derived_is_changed_by(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nor any of 1,000 drawn from the grammar, has a part 'mpl'"):
        space(tmp_path, WRITTEN, "block={mpl.hidden: 2x}")
    with pytest.raises(InputError, match="and each of 1,000 drawn from the grammar, already has this value"):
        space(tmp_path, WRITTEN, "block={mlp.hidden: 4x}")


@pytest.mark.fast
def test_repetition_is_measured_where_a_derivation_names_it(tmp_path: Path) -> None:
    text = GRAMMAR.read_text(encoding="utf-8")
    rule = "  norm: [none, layer_norm, rms_norm]\n"
    gain = "  gain: [1, sqrt(1-repetition)]\n"
    assert rule in text
    derives = text.replace(rule, rule + gain).replace(
        "residual: [$norm, mlp]", "residual: {gain: $gain, branch: [mlp]}"
    )
    (tmp_path / "derives.yaml").write_text(derives, encoding="utf-8")
    assert not space(tmp_path, WRITTEN).names_repetition
    assert space(tmp_path, WRITTEN, "grammar=derives.yaml").names_repetition
    assert not space(tmp_path, "{compare: [pre_ln, op]}", "grammar=derives.yaml").names_repetition
    assert space(tmp_path, WRITTEN, "block={mlp_residual.gain: 1-repetition}").names_repetition
    with_norm = "block={attention_norm.eps: 1e-6}"
    assert not space(tmp_path, WRITTEN, with_norm).names_repetition


def test_a_search_names_the_start_that_it_derives_from(tmp_path: Path) -> None:
    text = GRAMMAR.read_text(encoding="utf-8")
    assert text.count("start: block") == 1
    (tmp_path / "grammar.yaml").write_text(
        text.replace("start: block", "start: [block, other]").replace(
            "rules:", "rules:\n  other: [[mlp], [attention]]"
        ),
        encoding="utf-8",
    )
    settings = "grammar=grammar.yaml"
    plain = space(tmp_path, WRITTEN, settings)
    assert searched(plain).start is None and plain.grammar.count == plain.grammar.starting("block").count
    other = space(tmp_path, WRITTEN, settings, "design.search.start=other")
    assert other.grammar.count == 2 and searched(other).start == "other"
    with pytest.raises(InputError, match="has no start 'othr'"):
        space(tmp_path, WRITTEN, settings, "design.search.start=othr")
