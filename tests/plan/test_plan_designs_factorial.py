"""Designs that combine edits: which runs, which effects, what is mixed, and what becomes of runs that cannot be."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from builders import CATALOGUE
from hypothesis import given, settings
from hypothesis import strategies as st
from random_blocks import changed, examples, nodes, pairs
from space_fixtures import space
from test_plan_designs import CONSTRAINED, constrained, plan, refused

from ablate.block.diff import diff, path_order
from ablate.block.expression import Block, Sequence
from ablate.block.normal_form import fingerprint
from ablate.plan.designs import DesignLayout, factorial, lay_out
from ablate.plan.designs.design_matrix import TOLERANCE
from ablate.plan.models import Models
from ablate.plan.plan import Comparison, Factors, Plan
from ablate.source.problems import Problems
from ablate.space.design import AddOneIn, Design, DOptimal, Factorial, Fractional, LeaveOneOut, PlackettBurman

NAMES = ("+qk_norm", "residual.gain=1/sqrt(2*depth)", "-layer_norm")


def of_kind(found: Plan, kind: str) -> list[Comparison]:
    return [comparison for comparison in found.comparisons if comparison.kind == kind]


def factors_of(found: Plan) -> Factors:
    ((terms, factors),) = found.factors
    assert terms == ""
    return factors


def levels_of(factors: Factors) -> np.ndarray:
    return np.array([levels for _, levels in factors.runs], dtype=float)


def bias(factors: Factors, effect: tuple[str, ...]) -> dict[tuple[str, ...], float]:
    """By least squares what each effect of one to three edits that is not estimated, were it 1, adds to an estimate."""
    levels = levels_of(factors)

    def column(edits: tuple[str, ...]) -> np.ndarray:
        return levels[:, [factors.edits.index(edit) for edit in edits]].prod(axis=1)

    x = np.stack([np.ones(len(levels)), *map(column, factors.effects)], axis=1)
    found = {}
    for size in (1, 2, 3):
        for other in combinations(factors.edits, size):
            if other not in factors.effects:
                fitted = np.linalg.pinv(x) @ (column(other) / 2**size)
                found[other] = 2 ** len(effect) * float(fitted[1 + factors.effects.index(effect)])
    return {other: times for other, times in found.items() if abs(times) > 1e-9}


@pytest.mark.fast
def test_a_factorial_trains_every_combination_and_asks_about_edits_and_pairs(tmp_path: Path) -> None:
    found = plan(space(tmp_path, design="{factorial: {from: pre_ln, to: op}}"))
    factors = factors_of(found)
    assert factors.edits == NAMES
    assert len({id for id, _ in factors.runs}) == len(found.variants) == 8
    for id, levels in factors.runs:
        assert found.variant(id).edits == tuple(e for e, level in zip(NAMES, levels, strict=True) if level == 1)
    names = {levels: found.variant(id).name for id, levels in factors.runs}
    assert names[-1, -1, -1] == "pre_ln" and names[1, 1, 1] == "op"
    assert names[1, -1, 1] == "pre_ln+AC"
    assert tuple(note for note in found.notes if not note.startswith("equal terms: ")) == (
        "A is +qk_norm; B is residual.gain=1/sqrt(2*depth); C is -layer_norm",
        "every combination of 3 edits, 8 runs",
        "each effect of a factorial is tested against its own variation over seeds: fewer than 6 seeds find little "
        "(seeds: 8, or seeds: auto)",
    )
    a, b, c = NAMES
    assert factors.effects == ((a,), (b,), (c,), (a, b), (a, c), (b, c))
    assert factors.aliases == () and factors.resolution == "" and factors.how in found.notes
    asked = [*of_kind(found, "main"), *of_kind(found, "interaction")]
    assert [one.change for one in asked] == [" × ".join(effect) for effect in factors.effects]
    assert all((one.before, one.after, one.weights) == ("", "", ()) for one in asked)
    (whole,) = of_kind(found, "baseline")
    assert (found.variant(whole.before).name, found.variant(whole.after).name) == ("pre_ln", "op")
    assert of_kind(found, "edit") == []


@pytest.mark.fast
def test_pairs_are_not_asked_about_where_it_says_so(tmp_path: Path) -> None:
    found = plan(space(tmp_path, design="{factorial: {from: pre_ln, to: op, interactions: none}}"))
    assert factors_of(found).effects == tuple((name,) for name in NAMES)
    assert of_kind(found, "interaction") == []
    assert factors_of(found).aliases == ()


@pytest.mark.fast
def test_short_names_are_names_of_runs(tmp_path: Path) -> None:
    own = "{bare: [residual: [attention], residual: [layer_norm, mlp]]}"
    design = "{factorial: {from: bare, to: pre_rms}}"
    judge = "{against: bare, metrics: {eval_loss: {}}}"
    found = plan(space(tmp_path, blocks=own, design=design, judge=judge))
    assert [variant.name for variant in found.variants] == [
        "bare",
        "bare +rms_norm",
        "bare layer_norm->rms_norm",
        "pre_rms",
    ]


@pytest.mark.parametrize(
    ("ends", "resolution", "edits", "runs", "found_to_be", "extra"),
    [
        ("from: pre_ln, to: op, split: true", "III", 5, 8, "III", 1),
        ("from: pre_ln, to: op, split: true", "V", 5, 16, "V", 1),
        ("from: pre_ln, to: sas", "IV", 9, 32, "IV", 0),
    ],
)
def test_a_fraction_says_its_resolution_generators_and_aliases(
    tmp_path: Path, ends: str, resolution: str, edits: int, runs: int, found_to_be: str, extra: int
) -> None:
    design = f"{{fractional: {{{ends}, resolution: {resolution}, interactions: pairs}}}}"
    found = plan(space(tmp_path, design=design))
    factors = factors_of(found)
    assert len(factors.edits) == edits and len(factors.runs) == runs
    assert factors.resolution == found_to_be
    assert f"{runs} of the {2**edits} combinations of {edits} edits, resolution {found_to_be}" in factors.how
    assert " is present where an " in factors.how
    # The baseline is trained even where it is none of the runs
    assert len(found.variants) == runs + extra
    assert any("trained in addition to these runs" in note for note in found.notes) == bool(extra)
    mains = {alias.term for alias in factors.aliases if len(alias.term) == 1}
    assert bool(mains) == (resolution == "III")
    assert bool(factors.aliases) == (resolution != "V")
    assert all(alias.times == (0.5 if len(alias.term) == 1 else 1) for alias in factors.aliases)
    both = [*factors.effects, *(alias.other for alias in factors.aliases)]
    pairs_seen = {term for term in both if len(term) == 2}
    assert len(pairs_seen) == edits * (edits - 1) // 2, "each pair is estimated, or in an estimate"
    assert len(of_kind(found, "baseline")) == 1
    x = levels_of(factors)
    np.testing.assert_array_equal(x.T @ x, runs * np.eye(edits))


@pytest.mark.fast
def test_a_fraction_that_there_is_not_is_the_whole(tmp_path: Path) -> None:
    found = plan(space(tmp_path, design="{fractional: {from: pre_ln, to: op, resolution: V}}"))
    assert len(found.variants) == 8
    assert factors_of(found).resolution == ""
    assert factors_of(found).how == "no fraction of 3 edits has resolution V: every combination, 8 runs"


@pytest.mark.fast
def test_a_fraction_better_than_asked_says_so(tmp_path: Path) -> None:
    own = "{four: [residual: {gain: 0.5, branch: [attention: {entropy: {qk_norm: rms_norm}}]}, residual: [mlp]]}"
    design = "{fractional: {from: pre_ln, to: four, split: [-layer_norm], resolution: III}}"
    found = plan(space(tmp_path, blocks=own, design=design))
    factors = factors_of(found)
    assert (len(factors.edits), len(factors.runs), factors.resolution) == (4, 8, "IV")
    assert "resolution IV, better than the requested III" in factors.how
    # A fraction whose words are all even has both ends
    assert len(found.variants) == 8


@pytest.mark.fast
def test_plackett_and_burman(tmp_path: Path) -> None:
    found = plan(space(tmp_path, design="{plackett_burman: {from: pre_ln, to: sas}}"))
    factors = factors_of(found)
    assert (len(factors.edits), len(factors.runs), factors.resolution) == (9, 12, "")
    assert factors.how == (
        "Plackett and Burman's 12 runs for 9 edits: each pair's effect is partly confounded with that of every "
        "other edit"
    )
    by_pairs = [alias.times for alias in factors.aliases if len(alias.other) == 2]
    assert len(by_pairs) == 252 and {round(abs(times), 9) for times in by_pairs} == {round(1 / 6, 9)}
    assert {alias.other: alias.times for alias in factors.aliases if alias.term == factors.edits[:1]} == {
        other: pytest.approx(times) for other, times in bias(factors, factors.edits[:1]).items()
    }
    x = levels_of(factors)
    np.testing.assert_array_equal(x.T @ x, 12 * np.eye(9))


@pytest.mark.fast
def test_d_optimal_runs_are_as_many_as_asked_with_the_ends(tmp_path: Path) -> None:
    found = plan(space(tmp_path, design="{d_optimal: {from: pre_ln, to: op, split: true, runs: 10}}"))
    assert len(found.variants) == len(factors_of(found).runs) == 10
    assert {"pre_ln", "op"} <= {variant.name for variant in found.variants}
    assert len(factors_of(found).effects) == 5


@pytest.mark.fast
def test_a_constraint_leaves_a_factorial_that_is_not_orthogonal(tmp_path: Path) -> None:
    design = "{factorial: {from: pre_ln, to: op}}"
    found = plan(space(tmp_path, grammar=constrained(tmp_path), design=design))
    factors = factors_of(found)
    assert len(factors.runs) == len(found.variants) == 6
    assert factors.effects == (*((name,) for name in NAMES), NAMES[:2], NAMES[1:])
    assert "left out: A, AB (one norm is enough)" in found.notes
    assert any(note.startswith("not estimated: AC: in these runs it is confounded with A, C") for note in found.notes)
    assert "6 of the 8 combinations" in factors.how and "D-efficiency" in factors.how
    # QK-norm is seen only where the norms are gone: its effect there is the mean one plus half the interaction
    a, _, c = NAMES
    times = {(alias.term, alias.other): alias.times for alias in factors.aliases}
    assert times[(a,), (a, c)] == pytest.approx(0.5)
    # and what all three do together is in others, since the runs are no longer orthogonal to it.
    assert {other for _, other in times} == {(a, c), NAMES}
    assert times == {
        (effect, other): pytest.approx(size)
        for effect in factors.effects
        for other, size in bias(factors, effect).items()
    }


@pytest.mark.fast
def test_a_fraction_avoids_what_is_refused_by_turning_round(tmp_path: Path) -> None:
    """QK-norm alone is refused, which is in the half with all edits; the other half has the pairs and Pre-LN."""
    rule = CONSTRAINED.replace(
        "{attention.entropy: qk_norm}", "{attention.entropy: qk_norm, attention_residual.gain: 1}"
    )
    path = tmp_path / constrained(tmp_path)
    path.write_text(path.read_text().replace(CONSTRAINED, rule))
    found = plan(space(tmp_path, grammar=path.name, design="{fractional: {from: pre_ln, to: op, resolution: III}}"))
    factors = factors_of(found)
    assert (
        factors.resolution == "III" and "C = -AB (C is present where an odd number of A, B are present)" in factors.how
    )
    assert {alias.times for alias in factors.aliases} == {-0.5}
    assert {sum(level == 1 for level in levels) for _, levels in factors.runs} == {0, 2}
    x = levels_of(factors)
    np.testing.assert_array_equal(x.T @ x, 4 * np.eye(3))
    assert len(found.variants) == 4 and of_kind(found, "baseline") == []
    assert "op is not one of these runs: it is not compared with the baseline" in found.notes


@pytest.mark.parametrize("design", ["fractional: {resolution: III, ", "plackett_burman: {"])
def test_where_turning_does_not_help_runs_are_d_optimal(tmp_path: Path, design: str) -> None:
    grammar = constrained(tmp_path)
    found = plan(space(tmp_path, grammar=grammar, design=f"{{{design} from: pre_ln, to: op, split: true}}}}"))
    factors = factors_of(found)
    assert len(factors.runs) == 8
    assert "some of these are refused" in factors.how and "D-optimal among the 24" in factors.how
    assert factors.effects == tuple((name,) for name in factors.edits)
    assert len(factors.aliases) > 0 and not any(len(effect) > 1 for effect in factors.effects)
    assert not any("not estimated" in note for note in found.notes)
    where = factors.edits.index("-layer_norm@attention_norm")
    assert all(levels[0] == -1 or levels[where] == 1 for _, levels in factors.runs)


@pytest.mark.fast
def test_pairs_that_the_runs_asked_for_do_not_tell_are_named_where_others_take_their_place(tmp_path: Path) -> None:
    grammar = constrained(tmp_path)
    design = "{fractional: {from: pre_ln, to: op, split: true, resolution: III, interactions: pairs}}"
    found = plan(space(tmp_path, grammar=grammar, design=design))
    factors = factors_of(found)
    asked = {*combinations(factors.edits, 2)}
    gone = [note for note in found.notes if note.startswith("not estimated: ")]
    letters = dict(zip("ABCDE", factors.edits, strict=True))
    named = {tuple(letters[c] for c in word) for note in gone for word in note.split(": ")[1].split(", ")}
    assert named == asked - {*factors.effects} and len(named) >= 8
    assert any(note.endswith("the requested runs do not separate them from others") for note in gone)


@pytest.mark.fast
@pytest.mark.parametrize(("split", "resolution"), [("", "III"), (", split: true", "III")])
def test_a_small_screen_is_a_fraction_and_says_so(tmp_path: Path, split: str, resolution: str) -> None:
    """Up to seven edits Plackett and Burman's runs are regular: whole effects of pairs are in some, none in others."""
    found = plan(space(tmp_path, design=f"{{plackett_burman: {{from: pre_ln, to: op{split}}}}}"))
    factors = factors_of(found)
    assert factors.resolution == resolution
    assert f"resolution {resolution}: effects of edits are confounded with those of pairs" in factors.how
    assert {abs(alias.times) for alias in factors.aliases} == {0.5}


@pytest.mark.fast
def test_effects_of_three_of_very_many_edits_are_said_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = plan(space(tmp_path, design="{plackett_burman: {from: pre_ln, to: sas}}"))
    monkeypatch.setattr(factorial, "MAX_THREES", 8)
    many = plan(space(tmp_path, design="{plackett_burman: {from: pre_ln, to: sas}}"))
    said = "estimates also contain effects of three edits: with this many edits they are not listed"
    assert said in many.notes and said not in few.notes
    assert {len(alias.other) for alias in factors_of(many).aliases} == {2}
    assert {len(alias.other) for alias in factors_of(few).aliases} == {2, 3}


@pytest.mark.fast
def test_an_edit_that_changes_nothing_at_these_sizes_is_not_estimated(tmp_path: Path) -> None:
    """1/sqrt(2·depth) is 0.5 at depth 2."""
    own = "{half: [residual: {gain: 0.5, branch: [layer_norm, attention: {position: rope}]}],"
    own += " deep: [residual: {gain: 1/sqrt(2*depth), branch: [attention]}]}"
    judge = "{against: half, metrics: {eval_loss: {}}}"
    sections = {"blocks": own, "design": "{factorial: {from: half, to: deep}}", "judge": judge}
    found = plan(space(tmp_path, "model.layers=2", **sections))
    factors = factors_of(found)
    gain = next(name for name in factors.edits if "gain" in name)
    assert len(factors.edits) == 3 and len(factors.runs) == len(found.variants) == 4
    assert not any(gain in effect for effect in factors.effects)
    assert any(note.startswith("not estimated: A: in these runs it does not vary") for note in found.notes)
    assert any(note.startswith("the same model: none, A") for note in found.notes)
    assert {variant.name for variant in found.variants} >= {"half", "deep"}
    assert len(factors_of(plan(space(tmp_path, "model.layers=3", **sections))).runs) == 8


def test_an_edit_that_does_something_only_beside_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second edit is taken to do nothing without the first: the model is then known by the block without it."""
    found = space(tmp_path, design="{factorial: {from: pre_ln, to: op}}")
    difference = diff(found.blocks["pre_ln"], found.blocks["op"], CATALOGUE, defaults=found.grammar.defaults)
    a, b, c = NAMES
    same = {fingerprint(difference.apply((b, *others)), CATALOGUE): difference.apply(others) for others in ((), (c,))}
    identity = Models.identity

    def conditional(models: Models, block: Block, *setting: object) -> str:
        return identity(models, same.get(fingerprint(block, CATALOGUE), block), *setting)

    monkeypatch.setattr(Models, "identity", conditional)
    factors = factors_of(plan(found))
    assert [levels for _, levels in factors.runs] == [
        (-1, -1, -1),
        (1, -1, -1),
        (-1, -1, 1),
        (1, 1, -1),
        (1, -1, 1),
        (1, 1, 1),
    ]
    assert (a, b) not in factors.effects and (b, c) in factors.effects
    by_pairs = {(alias.term, alias.times) for alias in factors.aliases if len(alias.other) == 2}
    assert by_pairs == {((a,), -0.5), ((b,), 0.5)}


@pytest.mark.fast
def test_adding_each_edit_alone_and_all_together(tmp_path: Path) -> None:
    found = plan(space(tmp_path, design="{add_one_in: {from: pre_ln, to: op}}"))
    assert [variant.name for variant in found.variants] == [
        "pre_ln",
        *(f"pre_ln with {name}" for name in NAMES),
        "op",
    ]
    start, *singles, whole = (variant.id for variant in found.variants)
    assert [(c.before, c.after) for c in of_kind(found, "edit")] == [(start, single) for single in singles]
    (beyond,) = of_kind(found, "interaction")
    assert beyond.change == "all together, beyond their sum"
    assert dict(beyond.weights) == {start: 2, whole: 1, **dict.fromkeys(singles, -1)}
    assert [(c.before, c.after) for c in of_kind(found, "baseline")] == [(start, whole)]
    other = plan(
        space(
            tmp_path,
            design="{add_one_in: {from: pre_ln, to: op}}",
            judge="{against: post_ln, metrics: {eval_loss: {}}}",
        )
    )
    assert len(of_kind(other, "baseline")) == 5


@pytest.mark.fast
def test_what_all_do_is_held_against_the_sum_of_what_each_one_does_last(tmp_path: Path) -> None:
    found = plan(space(tmp_path, design="{leave_one_out: {from: pre_ln, to: op}}"))
    start, whole, *without = (variant.id for variant in found.variants)
    (beyond,) = of_kind(found, "interaction")
    assert dict(beyond.weights) == {start: -1, whole: -2, **dict.fromkeys(without, 1)}
    assert (beyond.before, beyond.after) == ("", "")


@pytest.mark.fast
@pytest.mark.parametrize("kind", ["add_one_in", "leave_one_out"])
def test_weights_ask_what_the_sum_of_contrasts_does(tmp_path: Path, kind: str) -> None:
    """Over outcomes that are any number for each variant: the whole difference, less those of the edits."""
    found = plan(space(tmp_path, design=f"{{{kind}: {{from: pre_ln, to: op, split: true}}}}"))
    outcome = {variant.id: 1.7**position for position, variant in enumerate(found.variants)}
    (beyond,) = of_kind(found, "interaction")
    ends = {variant.name: variant.id for variant in found.variants}
    whole = outcome[ends["op"]] - outcome[ends["pre_ln"]]
    parts = sum(outcome[c.after] - outcome[c.before] for c in of_kind(found, "edit"))
    assert sum(weight * outcome[id] for id, weight in beyond.weights) == pytest.approx(whole - parts)
    assert sum(weight for _, weight in beyond.weights) == 0


@pytest.mark.fast
def test_adding_one_in_may_be_refused(tmp_path: Path) -> None:
    found = plan(space(tmp_path, grammar=constrained(tmp_path), design="{add_one_in: {from: pre_ln, to: op}}"))
    assert found.notes[0] == "left out: pre_ln with +qk_norm (one norm is enough)"
    assert found.notes[1].startswith("whether the edits add up is not tested")
    assert of_kind(found, "interaction") == []


@pytest.mark.fast
def test_one_edit_left_out_has_no_sum(tmp_path: Path) -> None:
    found = plan(space(tmp_path, design="{leave_one_out: {from: pre_ln, to: pre_rms}}"))
    assert of_kind(found, "interaction") == []


DESIGNS = st.sampled_from(
    [
        lambda ends: Design(factorial=Factorial(**ends)),
        lambda ends: Design(fractional=Fractional(**ends, resolution="III")),
        lambda ends: Design(fractional=Fractional(**ends, resolution="V", interactions="pairs")),
        lambda ends: Design(plackett_burman=PlackettBurman(**ends)),
        lambda ends: Design(d_optimal=DOptimal(**ends, runs=6)),
        lambda ends: Design(add_one_in=AddOneIn(**ends)),
        lambda ends: Design(leave_one_out=LeaveOneOut(**ends)),
    ]
)


@st.composite
def apart(draw: st.DrawFn) -> tuple[Block, Block]:
    """Two blocks of as many parts, most of which differ in a field."""
    parts = draw(st.lists(nodes("part", 1), min_size=2, max_size=4))
    return Sequence(tuple(parts)), Sequence(tuple(draw(changed(part)) for part in parts))


def check_runs(layout: DesignLayout, before: Block, after: Block, split: bool, defaults: object) -> None:
    """Every arm is the start with a subset of the edits; runs of a factorial are different and their levels true."""
    difference = diff(before, after, CATALOGUE, split=split, defaults=defaults)
    order = [edit.name for edit in path_order(difference.edits)]
    for arm in layout.arms:
        assert set(arm.edits) <= set(order)
        applied = fingerprint(difference.apply(arm.edits), CATALOGUE)
        assert fingerprint(arm.block, CATALOGUE) == applied
    names = [arm.name for arm in layout.arms]
    assert len(set(names)) == len(names)
    for contrast in layout.contrasts:
        assert {name for name, _ in contrast.weights} <= set(names)
    factors = layout.factors
    if factors is None:
        return
    assert factors.edits == tuple(order)
    by_name = {arm.name: arm for arm in layout.arms}
    for name, levels in factors.runs:
        assert by_name[name].edits == tuple(e for e, level in zip(order, levels, strict=True) if level == 1)
    x = np.array([levels for _, levels in factors.runs], dtype=float)
    product = {effect: np.prod(x[:, [order.index(e) for e in effect]], axis=1) for effect in factors.effects}
    columns = np.stack([np.ones(len(x)), *product.values()], axis=1)
    assert np.linalg.matrix_rank(columns) == columns.shape[1], "every effect can be estimated"
    if len(x) == 2 ** len(order) or factors.resolution:
        assert np.abs(columns.T @ columns - len(x) * np.eye(columns.shape[1])).max() < TOLERANCE
    assert [c.change for c in layout.contrasts] == [" × ".join(effect) for effect in factors.effects]


@pytest.mark.full
@given(ends=apart() | pairs(), split=st.booleans(), design=DESIGNS)
@examples
def test_runs_are_subsets_of_the_edits_between_any_two_blocks(
    tmp_path_factory: pytest.TempPathFactory, ends: tuple[Block, Block], split: bool, design: object
) -> None:
    before, after = ends
    base = small(tmp_path_factory)
    asked = design({"from": "pre_ln", "to": "op", "split": split})  # type: ignore[operator]
    found = replace(base, blocks={"pre_ln": before, "op": after}, design=asked)
    problems = Problems()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(factorial, "MAX_POOL", 64)
        layout = lay_out(Models(found, 256, "corpus"), problems)
    assert (layout is None) == bool(len(problems))
    if layout is not None:
        check_runs(layout, before, after, split, found.grammar.defaults)


def small(factory: pytest.TempPathFactory) -> object:
    """A space read once."""
    if not SMALL:
        SMALL.append(space(factory.mktemp("small")))
    return SMALL[0]


SMALL: list[object] = []


@pytest.mark.fast
@pytest.mark.parametrize(
    ("design", "said"),
    [
        ("{factorial: {from: pre_ln, to: sas}}", "9 edits have 512 combinations, but at most 256 can be run"),
        ("{factorial: {from: pre_ln, to: sas}}", "a fraction of resolution IV has 32"),
        ("{factorial: {from: pre_ln, to: pre_rms}}", "there is only one edit from pre_ln to pre_rms: layer_norm->rms"),
        ("{add_one_in: {from: pre_ln, to: pre_rms}}", "there is only one edit from pre_ln to pre_rms"),
        ("{plackett_burman: {from: op, to: op}}", "op and op are the same block here"),
        ("{d_optimal: {from: pre_ln, to: op, runs: 3}}", "3 runs cannot estimate 3 effects and a mean"),
        ("{d_optimal: {from: pre_ln, to: op, runs: 3}}", "set runs: 4, or more"),
        ("{d_optimal: {from: pre_ln, to: op, runs: 6, interactions: pairs}}", "or interactions: none, for which 4"),
        (
            "{d_optimal: {from: pre_ln, to: op, runs: 9}}",
            "9 runs, but 8 distinct models exist among 8 combinations",
        ),
        ("{factorial: {from: pre_ln, to: op, split: [+qk_nrom]}}", "did you mean '+qk_norm'?"),
        ("{fractional: {from: pre_ln, to: op, resolution: VI}}", "resolution"),
    ],
)
def test_what_cannot_be_asked(tmp_path: Path, design: str, said: str) -> None:
    text = refused(tmp_path, design=design)
    assert said in text
    assert text.count("error: ") == 1
    assert " --> " in text


@pytest.mark.fast
def test_only_the_ends_are_left(tmp_path: Path) -> None:
    """A constraint that lets no half-way model be."""
    path = tmp_path / constrained(tmp_path)
    more = "  - {when: {attention_norm: none}, require: {attention.entropy: qk_norm}, because: something must norm}\n"
    path.write_text(path.read_text().replace(CONSTRAINED, CONSTRAINED + more))
    own = "{both: [residual: [attention: {entropy: {qk_norm: rms_norm}}], residual: [layer_norm, mlp]]}"
    for kind in ("factorial", "plackett_burman", "d_optimal"):
        runs = ", runs: 4" if kind == "d_optimal" else ""
        design = f"{{{kind}: {{from: pre_ln, to: both{runs}}}}}"
        text = refused(tmp_path, grammar=path.name, blocks=own, design=design)
        assert "of all combinations of these edits only pre_ln and both are left" in text
        assert "something must norm" in text and "compare: [pre_ln, both]" in text


@pytest.mark.fast
def test_no_model_is_different_at_these_sizes(tmp_path: Path) -> None:
    own = "{a: [residual: {gain: 0.5, branch: [attention]}, residual: {gain: 1/3, branch: [mlp]}],"
    own += " b: [residual: {gain: 1/depth, branch: [attention]}, residual: {gain: 2/(3*depth), branch: [mlp]}]}"
    judge = "{against: a, metrics: {eval_loss: {}}}"
    sections = {"blocks": own, "judge": judge, "design": "{d_optimal: {from: a, to: b, runs: 4, split: true}}"}
    text = refused(tmp_path, "model.layers=2", **sections)
    assert "the same model at these sizes" in text
    assert text.count("error: ") == 1


@pytest.mark.full
def test_the_same_space_has_the_same_plan(tmp_path: Path) -> None:
    design = "{d_optimal: {from: pre_ln, to: sas, runs: 16}}"
    assert plan(space(tmp_path, design=design)) == plan(space(tmp_path, design=design))


@pytest.mark.fast
def test_random_blocks_come_with_edits_to_combine() -> None:
    """So that the property above is about something."""
    counts = []

    @settings(examples, derandomize=True, max_examples=60)
    @given(ends=apart())
    def look(ends: tuple[Block, Block]) -> None:
        counts.append(len(diff(*ends, CATALOGUE, split=True).edits))

    look()
    assert sum(count >= 2 for count in counts) >= len(counts) / 2
    assert max(counts) >= 4
