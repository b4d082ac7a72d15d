"""Designs: which models are trained, which pairs are compared, what is folded or left out."""

from itertools import pairwise
from pathlib import Path

import pytest
from builders import CATALOGUE
from reading import SPACES, copy_grammar
from space_fixtures import space

from ablate.block.normal_form import fingerprint, normalise
from ablate.errors import InputError
from ablate.plan.build import build_plan
from ablate.plan.plan import Comparison, Plan
from ablate.space.load import load_space
from ablate.space.space import Space


def plan(found: Space, vocab_size: int = 256) -> Plan:
    return build_plan(found, vocab_size=vocab_size, corpus="corpus")


def refused(folder: Path, *settings: str, **sections: str | None) -> str:
    with pytest.raises(InputError) as mistake:
        plan(space(folder, *settings, **sections))
    return str(mistake.value)


def told_of(found: Plan) -> list[str]:
    """Its notes, but for the rate that was tuned for none."""
    return [note for note in found.notes if not note.startswith("equal terms: ")]


def edits(found: Plan) -> list[Comparison]:
    return [comparison for comparison in found.comparisons if comparison.kind == "edit"]


@pytest.mark.fast
def test_a_path_holds_each_half_way_model_once_stabilisers_first(tmp_path: Path) -> None:
    found = plan(space(tmp_path))
    names = ["+qk_norm", "residual.gain=1/sqrt(2*depth)", "-layer_norm"]
    assert [variant.edits for variant in found.variants] == [tuple(names[:n]) for n in range(4)]
    assert [variant.name for variant in found.variants] == ["pre_ln", "pre_ln+1", "pre_ln+2", "op"]
    assert len({variant.id for variant in found.variants}) == 4
    assert [edit.change for edit in edits(found)] == names
    ids = [variant.id for variant in found.variants]
    assert [(edit.before, edit.after) for edit in edits(found)] == list(pairwise(ids))
    assert found.baseline == ids[0]
    against = [c for c in found.comparisons if c.kind == "baseline"]
    assert [(c.before, c.after) for c in against] == [(ids[0], other) for other in ids[1:]]
    assert told_of(found) == []


@pytest.mark.fast
def test_trials_are_every_variant_with_every_seed_pairs_first(tmp_path: Path) -> None:
    found = plan(space(tmp_path, "seeds=[7, 3]"))
    ids = [variant.id for variant in found.variants]
    assert [(trial.seed, trial.variant) for trial in found.trials] == [(seed, id) for seed in (7, 3) for id in ids]
    assert len({trial.id for trial in found.trials}) == 8
    assert {trial.work.corpus for trial in found.trials} == {"corpus"}
    for trial in found.trials:
        assert trial.work.architecture.block == found.variant(trial.variant).block
        assert trial.work.architecture.sizes.vocab_size == 256
    with pytest.raises(StopIteration):
        found.variant("none")


@pytest.mark.fast
def test_an_order_comes_first_and_the_rest_follows(tmp_path: Path) -> None:
    found = plan(space(tmp_path, design="{path: {from: pre_ln, to: op, order: [-layer_norm]}}"))
    assert [edit.change for edit in edits(found)] == ["-layer_norm", "+qk_norm", "residual.gain=1/sqrt(2*depth)"]


@pytest.mark.fast
def test_split_edits_are_steps_of_their_own(tmp_path: Path) -> None:
    found = plan(space(tmp_path, design="{path: {from: pre_ln, to: op, split: true}}"))
    assert len(found.variants) == 6
    one = plan(space(tmp_path, design="{path: {from: pre_ln, to: op, split: [-layer_norm]}}"))
    assert [edit.change for edit in edits(one)][2:] == ["-layer_norm@attention_norm", "-layer_norm@mlp_norm"]


@pytest.mark.fast
def test_leave_one_out_starts_from_the_full_treatment(tmp_path: Path) -> None:
    found = plan(space(tmp_path, design="{leave_one_out: {from: pre_ln, to: op}}"))
    full = next(variant for variant in found.variants if variant.name == "op")
    assert [variant.name for variant in found.variants][:2] == ["pre_ln", "op"]
    assert len(found.variants) == 5
    assert all(edit.after == full.id for edit in edits(found))
    for edit in edits(found):
        without = found.variant(edit.before)
        assert without.name == f"op without {edit.change}"
        assert set(full.edits) - set(without.edits) == {edit.change}


@pytest.mark.fast
def test_compare_asks_about_no_edit(tmp_path: Path) -> None:
    found = plan(space(tmp_path, design="{compare: [op, pre_ln, post_ln]}"))
    assert [variant.name for variant in found.variants] == ["op", "pre_ln", "post_ln"]
    assert edits(found) == []
    assert {c.before for c in found.comparisons} == {found.variants[1].id} == {found.baseline}


@pytest.mark.fast
def test_the_baseline_is_trained_where_the_design_has_it_not(tmp_path: Path) -> None:
    found = plan(space(tmp_path, judge="{against: post_ln, metrics: {eval_loss: {}}}"))
    assert found.variants[0].name == "post_ln"
    assert found.baseline == found.variants[0].id
    assert len(found.variants) == 5
    assert len(edits(found)) == 3


@pytest.mark.fast
def test_blocks_that_are_the_same_are_trained_once_and_said(tmp_path: Path) -> None:
    bare = "[layer_norm, attention, residual: {skip: 0, branch: [mlp]}]"
    own = f"{{bare: {bare}, wrapped: [residual: {{skip: 0, branch: [layer_norm, attention]}}, mlp]}}"
    found = plan(space(tmp_path, blocks=own, design="{compare: [pre_ln, bare, wrapped]}"))
    assert [variant.names for variant in found.variants] == [("pre_ln",), ("bare", "wrapped")]
    assert told_of(found) == ["the same model, trained once: bare, wrapped"]
    assert len(found.trials) == 4


@pytest.mark.fast
def test_blocks_that_are_the_same_at_these_sizes_are_trained_once(tmp_path: Path) -> None:
    """1/sqrt(2·depth) is 0.5 at depth 2, and at no other."""
    own = "{half: [residual: {gain: 0.5, branch: [mlp]}], deep: [residual: {gain: 1/sqrt(2*depth), branch: [mlp]}]}"
    sections = {"blocks": own, "design": "{compare: [pre_ln, half, deep]}"}
    assert len(plan(space(tmp_path, "model.layers=2", **sections)).variants) == 2
    assert len(plan(space(tmp_path, "model.layers=3", **sections)).variants) == 3


@pytest.mark.fast
def test_an_edit_that_changes_nothing_at_these_sizes_is_no_question(tmp_path: Path) -> None:
    own = "{half: [residual: {gain: 0.5, branch: [attention: {position: rope}]}],"
    own += " deep: [residual: {gain: 1/sqrt(2*depth), branch: [attention]}]}"
    sections = {"blocks": own, "design": "{path: {from: half, to: deep}}"}
    found = plan(space(tmp_path, "model.layers=2", **sections))
    assert [edit.change for edit in edits(found)] == ["attention.position=none"]
    assert any("the same model, trained once" in note for note in found.notes)
    assert len(edits(plan(space(tmp_path, "model.layers=3", **sections)))) == 2


CONSTRAINED = """constraints:
  - {when: {attention.entropy: qk_norm}, require: {attention_norm: none}, because: one norm is enough}
"""


def constrained(folder: Path) -> str:
    path = copy_grammar(folder, "constrained.yaml")
    text = path.read_text()
    assert "\nconstraints:\n" in text
    path.write_text(text.replace("constraints:\n", CONSTRAINED, 1))
    return path.name


@pytest.mark.fast
def test_a_half_way_model_that_a_constraint_refuses_is_left_out_and_said(tmp_path: Path) -> None:
    found = plan(space(tmp_path, grammar=constrained(tmp_path)))
    assert [variant.name for variant in found.variants] == ["pre_ln", "op"]
    (edit,) = edits(found)
    assert edit.change == "+qk_norm residual.gain=1/sqrt(2*depth) -layer_norm"
    assert len(told_of(found)) == 2
    assert all("one norm is enough" in note and note.startswith("left out: ") for note in told_of(found))
    other = plan(
        space(tmp_path, grammar="constrained.yaml", design="{path: {from: pre_ln, to: op, order: [-layer_norm]}}")
    )
    assert len(other.variants) == 4
    assert told_of(other) == []


@pytest.mark.fast
def test_leaving_one_out_may_be_refused_too(tmp_path: Path) -> None:
    found = plan(space(tmp_path, grammar=constrained(tmp_path), design="{leave_one_out: {from: pre_ln, to: op}}"))
    assert found.notes[0] == "left out: op without -layer_norm (one norm is enough)"
    assert found.notes[1].startswith("whether the edits add up is not tested")
    assert [edit.change for edit in edits(found)] == ["+qk_norm", "residual.gain=1/sqrt(2*depth)"]


@pytest.mark.parametrize(
    ("settings", "sections", "said"),
    [
        (
            [],
            {"design": "{path: {from: op, to: op}}"},
            "op and op are the same block here: there is nothing to compare",
        ),
        (
            [],
            {
                "blocks": "{again: [residual: {branch: [layer_norm, attention]}, residual: [layer_norm, mlp]]}",
                "design": "{leave_one_out: {from: pre_ln, to: again}}",
            },
            "pre_ln and again are the same block here",
        ),
        ([], {"design": "{compare: [op, op]}"}, "all blocks of this design are the same model"),
        (
            ["model.layers=2"],
            {
                "blocks": "{a: [residual: {gain: 0.5, branch: mlp}], b: [residual: {gain: 1/depth, branch: mlp}]}",
                "design": "{path: {from: a, to: b}}",
            },
            "all blocks of this design are the same model at these sizes",
        ),
        (
            [],
            {"design": "{path: {from: pre_ln, to: op, order: [-rms_norm]}}"},
            "order names '-rms_norm', which is not an edit",
        ),
        ([], {"design": "{path: {from: pre_ln, to: op, split: [+qk_nrom]}}"}, "did you mean '+qk_norm'?"),
        (["block.mlp.hidden=2.3x"], {}, "mlp.hidden is 2.3 times the model's width of 32"),
        (["model.width=12", "block.attention.position=rope"], {}, "rope rotates pairs of channels, but a head has 3"),
        (["block.*_residual.skip=1/(layer-1)"], {}, "which has no value in layer 1 of 4: it divides by zero"),
        (["block.mlp.input_scale=sqrt(1-layer)"], {}, "which has no value in layer 2 of 4"),
    ],
)
def test_what_cannot_be_planned(
    tmp_path: Path, settings: list[str], sections: dict[str, str | None], said: str
) -> None:
    text = refused(tmp_path, *settings, **sections)
    assert said in text
    assert text.count("error: ") == 1
    assert "\n --> " in text or "\n  --> " in text


@pytest.mark.fast
def test_variants_are_in_normal_form_and_sized(tmp_path: Path) -> None:
    found = space(tmp_path)
    for variant in plan(found).variants:
        assert variant.block == normalise(variant.block, found.grammar.catalogue)
        assert variant.id == fingerprint(variant.block, found.grammar.catalogue)
    first, *_, last = plan(found).variants
    # Untied embedding and head; four attention and two MLP matrices a layer; scale and bias of two LayerNorms.
    width, layers, vocab = 32, 4, 256
    matrices = layers * (4 * width**2 + 2 * width * 4 * width) + 2 * vocab * width
    assert first.parameters == matrices + layers * 2 * 2 * width
    assert last.parameters == matrices + layers * 2 * (width // 4)  # QK-norm: a gain for queries and one for keys


@pytest.mark.sampled(5, gate="all")
@pytest.mark.parametrize("path", SPACES, ids=lambda path: path.stem)
def test_shipped_spaces_have_plans(path: Path) -> None:
    """Every variant at every seed, A/A arms at their own, but for what is to be measured or tuned first."""
    read = load_space(path, CATALOGUE)
    found = plan(read)
    assert found.trials
    assert {trial.variant for trial in found.trials} <= {variant.id for variant in found.variants}
    for variant in found.variants:
        seeds = {trial.seed for trial in found.trials if trial.variant == variant.id}
        if variant.setting.open or read.fair.tune != "none":
            assert found.open
        elif variant.setting.salt:
            assert read.noise is not None and seeds == set(range(read.noise.seeds))
        else:
            assert seeds >= set(found.seeds)
