"""The account of each comparison: what was judged is known again, however it is asked, and what it cost is added up."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from accounts import Folder, at, between, of, renamed
from altered_trials import altered
from designed_fixtures import FREE, designed, rules

from ablate.output.words import percent
from ablate.plan.plan import Plan
from ablate.report import footnotes
from ablate.session.accounts import account_of, asked_of, compared_in, judged_design
from ablate.space.judge import Expected, Judge
from ablate.store import documents
from ablate.store.bundle import _judgements
from ablate.store.documents import Documents
from ablate.store.projection import refresh
from ablate.store.query import query
from ablate.store.records import KeptDesign, KeptPlan, questions_in_order
from ablate.store.snapshot import Snapshot
from ablate.verdict.contrasts import comparison_id
from ablate.verdict.experiment import Final
from ablate.verdict.judge import judge
from ablate.verdict.summary import Judgement, StateCounts, Summary

FIVE, EIGHT = range(5), range(8)
LOG = FREE.model_copy(update={"scale": "log"})
UPWARDS = FREE.model_copy(update={"better": "higher"})
NEITHER = FREE.model_copy(update={"better": "none"})
BY_FOLDER = rules().model_copy(update={"budget": "folder"})


@pytest.fixture(scope="module")
def whole() -> Plan:
    return designed("{compare: [pre_ln, op, sas, sas_p]}", seeds=12)


def losses(plan: Plan, **shifts: float) -> dict[str, np.ndarray]:
    """Losses of 12 seeds with noise of sd 0.01 on a trial, those of some arms shifted."""
    random = np.random.default_rng(3)
    base = random.normal(2, 0.05, 12)
    names = {variant.id: variant.name for variant in plan.variants}
    return {id: base + random.normal(0, 0.01, 12) + shifts.get(name, 0.0) for id, name in names.items()}


@pytest.fixture
def folder(tmp_path, whole):
    return Folder(tmp_path, losses(whole, op=-0.1))


def judgement(summary: Summary) -> Judgement:
    (only,) = summary.judgements
    return only


def verdicts(summary: Summary) -> dict[str, str]:
    return {effect.change: effect.verdict for effect in summary.effects}


def ways(plan: Plan) -> dict[str, tuple[Plan, Judge]]:
    """The same question again, in other words."""
    return {
        "the same": (plan, rules()),
        "renamed and moved": (renamed(plan), rules()),
        "reordered": (of(plan, ["sas_p", "op", "sas"]), rules()),
        "other order of seeds": (at(plan, range(5)[::-1]), rules()),
        "other scale": (plan, rules(judged=LOG)),
        "a function of it": (plan, rules("perplexity")),
        "a family of the page": (plan, rules(family="page")),
        "an arm less": (of(plan, ["op", "sas"]), rules()),
        "an arm alone": (of(plan, ["op"]), rules()),
    }


@pytest.mark.parametrize("way", list(ways(designed("{compare: [pre_ln, op, sas, sas_p]}", seeds=1))))
def test_what_was_judged_is_settled_in_whatever_words(folder, whole, way):
    first = folder.ask(at(whole, FIVE))
    plan, ruled = ways(at(whole, FIVE))[way]
    again = folder.ask(plan, ruled)
    kept = verdicts(first)
    assert {name.removesuffix("_again"): verdict for name, verdict in verdicts(again).items()}.items() <= kept.items()
    assert kept["op"] == "better" and kept["sas"] == "undecided"
    assert judgement(again).so_far == pytest.approx(0.04) and judgement(again).number == 1
    other = way in ("other scale", "a function of it", "an arm less", "an arm alone")  # else the very same question
    assert judgement(again).states.settled == (len(again.effects) if other else 0)


def test_an_arm_left_alone_is_not_found_where_it_was_not(tmp_path, whole):
    """A difference with p between 4 %/3 and 4 %: found alone, in a folder of its own; not after it was one of three."""
    plan = at(whole, FIVE)
    for shift in np.linspace(-0.01, -0.03, 41):
        values = losses(whole, op=shift)
        fresh = Folder(tmp_path / f"alone{shift}", values)
        fresh.path.mkdir()
        alone = fresh.ask(of(plan, ["op"]))
        if alone.effects[0].verdict == "better" and alone.effects[0].p > 0.014:
            break
    folder = Folder(tmp_path, values)
    assert verdicts(folder.ask(plan))["op"] == "undecided"
    after = folder.ask(of(plan, ["op"]))
    assert after.effects[0].verdict == "undecided"
    (now,), (then,) = after.effects, alone.effects
    assert now.p == then.p and now.p_adjusted == pytest.approx(3 * then.p)
    assert "judged before, among 3: leaving arms out changes nothing" in after.notes


def test_the_other_direction_turns_the_verdict(folder, whole):
    plan = at(whole, FIVE)
    folder.ask(plan)
    assert verdicts(folder.ask(of(plan, ["op"]), rules(judged=UPWARDS))) == {"op": "worse"}


def test_what_was_better_while_lower_was_is_lower_where_neither_side_is(folder, whole):
    """Also the other way round, and at other seeds, at which the earlier finding stands."""
    plan = of(at(whole, FIVE), ["op"])
    folder.ask(plan)
    (settled,) = folder.ask(plan, rules(judged=NEITHER)).effects
    assert (settled.verdict, settled.judgement) == ("lower", 1) and settled.estimate < 0
    (stands,) = folder.ask(at(of(whole, ["op"]), EIGHT), rules(judged=NEITHER)).effects
    assert (stands.verdict, stands.judgement) == ("lower", 1) and "found at 5 seeds" in stands.note
    assert verdicts(folder.ask(plan)) == {"op": "better"}


class Lost(Folder):
    """A folder in which op diverges at all seeds but one."""

    def finals(self, plan):
        (op,) = (variant.id for variant in plan.variants if variant.name == "op")
        lost = {trial.id for trial in plan.trials if trial.variant == op and trial.seed}
        gone = Final(status="diverged", step=3, metrics={})
        return {id: gone if id in lost else final for id, final in super().finals(plan).items()}


def test_what_ranks_found_of_diverged_runs_is_undecided_where_these_have_no_side(tmp_path, whole):
    plan, folder = of(at(whole, EIGHT), ["op"]), Lost(tmp_path, losses(whole))
    assert verdicts(folder.ask(plan)) == {"op": "worse_by_rank"}
    (now,) = folder.ask(plan, rules(judged=NEITHER)).effects
    assert (now.verdict, now.p, now.ranked) == ("undecided", None, 8) and "ranked on another side then" in now.note
    assert verdicts(folder.ask(plan)) == {"op": "worse_by_rank"}


def test_on_another_scale_the_numbers_are_those_of_now_and_the_note_has_those_of_then(folder, whole):
    plan = at(whole, FIVE)
    folder.ask(plan)
    (op,) = (e for e in folder.ask(plan, rules(judged=LOG)).effects if e.change == "op")
    assert op.scale == "log" and op.estimate == pytest.approx(np.log(1.9 / 2), abs=0.01) and op.p_adjusted is None
    assert "judged on the linear scale, judged for the first time, at 4 %: -0." in op.note


def test_other_seeds_spend_the_next_share_over_the_largest_family(folder, whole):
    folder.ask(at(whole, FIVE))
    later = folder.ask(at(of(whole, ["sas"]), EIGHT))
    effect, one = later.effects[0], judgement(later)
    assert (one.number, one.tests, one.states) == (2, 3, StateCounts(again=1)) and one.level == pytest.approx(0.008)
    assert effect.p_adjusted == pytest.approx(min(1, 3 * effect.p)) and effect.level == pytest.approx(0.008)
    assert one.so_far == pytest.approx(0.04 + 0.008 / 3)
    assert later.notes[-1].startswith("judged a second time, at 0.8 % over all 3: earlier judgements had other seeds")


def test_new_arms_are_tested_over_all_so_far_and_earlier_verdicts_stand(folder, whole):
    plan = at(whole, FIVE)
    first = folder.ask(of(plan, ["op"]))
    grown = folder.ask(plan)
    one = judgement(grown)
    assert verdicts(grown)["op"] == verdicts(first)["op"] == "better"
    assert (one.states, one.tests) == (StateCounts(new=2, settled=1), 3)
    for effect in grown.effects[1:]:
        others = sorted(e.p for e in grown.effects[1:])
        factor = 3 if effect.p == others[0] else 2
        assert effect.p_adjusted == pytest.approx(min(1, max(3 * others[0], factor * effect.p)))
    assert one.so_far == pytest.approx(0.04 + 2 / 3 * 0.04)
    assert "2 of 3 are new, each at 4 % over all 3: any false verdict in this question so far in at most 6.67 %" in (
        grown.notes
    )
    assert folder.ask(plan).notes == grown.notes, "the same again is the same judgement"


def test_what_is_new_and_what_is_judged_again_are_corrected_apart(folder, whole):
    folder.ask(at(of(whole, ["sas"]), FIVE))
    both = folder.ask(at(of(whole, ["sas", "sas_p"]), EIGHT))
    levels = {effect.change: effect.level for effect in both.effects}
    assert levels == {"sas": pytest.approx(0.008), "sas_p": pytest.approx(0.04)}
    assert all(effect.p_adjusted == pytest.approx(min(1, 2 * effect.p)) for effect in both.effects)
    assert judgement(both).so_far == pytest.approx(0.04 + 0.008 / 2 + 0.04 / 2)
    (note,) = footnotes.warnings(both.notes)
    assert note.startswith("1 of 2 comparisons judged a second time, at 0.8 % over all 2")
    assert "; 1 of 2 is new, at 4 % over all 2: any false verdict in this question so far in at most 6.4 %" in note


def test_new_arms_alone_are_another_question(folder, whole):
    plan = at(whole, FIVE)
    rates = [judgement(folder.ask(of(plan, [arm]))) for arm in ("op", "sas", "sas_p")]
    assert [(one.tests, one.level, one.questions) for one in rates] == [
        (1, pytest.approx(0.04), questions) for questions in (1, 2, 3)
    ]
    assert rates[-1].among == pytest.approx(1 - 0.96**3)
    assert (
        f"asked 3 questions: at least one false verdict among them in up to {percent(1 - 0.96**3)}"
        in (folder.ask(of(plan, ["sas_p"])).notes[-1])
    )


def test_a_plan_of_two_questions_makes_them_one(folder, whole):
    plan = at(whole, FIVE)
    folder.ask(of(plan, ["op"]))
    folder.ask(of(plan, ["sas"]))
    one = judgement(folder.ask(plan))
    assert (one.tests, one.states, one.questions) == (3, StateCounts(new=1, settled=2), 1)
    assert one.so_far == pytest.approx(0.04 + 0.04 + 0.04 / 3)


def test_under_the_budget_of_the_folder_questions_that_share_a_training_have_one_account(folder, whole):
    plan = at(whole, FIVE)
    levels = [judgement(folder.ask(of(plan, [arm]), BY_FOLDER)).level for arm in ("op", "sas", "sas_p")]
    assert levels == [pytest.approx(0.04), pytest.approx(0.008), pytest.approx(0.0016)]
    assert judgement(folder.ask(of(plan, ["sas"]), BY_FOLDER)).level == pytest.approx(0.008), "the same is the same"
    grown = folder.ask(plan, BY_FOLDER)
    assert judgement(grown).states == StateCounts(settled=3), "what was judged is settled"
    assert judgement(grown).among <= 0.05 + 1e-9


def test_another_training_shares_nothing(folder, whole):
    """The same blocks under another rate: another question, which is not counted among those on these trainings."""
    plan = at(whole, FIVE)
    folder.ask(plan, BY_FOLDER)
    recipe = plan.trials[0].work.recipe
    longer = recipe.model_copy(update={"steps": recipe.steps + 1})
    other = replace(plan, trials=tuple(altered(t, id=f"{t.id}x", recipe=longer) for t in plan.trials))
    one = judgement(folder.ask(other, BY_FOLDER))
    assert (one.number, one.states, one.questions) == (1, StateCounts(new=3), 1) and one.level == pytest.approx(0.04)


def test_looks_go_on_in_other_company(folder, whole):
    auto = replace(at(whole, range(9)), looks=(4, 6, 9))
    folder.ask(of(auto, ["sas"]))
    grown = folder.ask(of(auto, ["sas", "sas_p"]))
    one = judgement(grown)
    assert (one.states, one.tests) == (StateCounts(new=1, continued=1), 2) and one.so_far == pytest.approx(
        0.05 + 0.05 / 2
    )
    assert "1 of 2 goes on with its interim analyses; 1 of 2 is new, at 5 % over all 2" in grown.notes[-1]


def test_looks_end_where_no_comparison_that_has_a_share_is_open(folder, whole):
    """sas has had all of its looks; op is decided at the first of its own."""
    auto = replace(at(whole, range(9)), looks=(4, 6, 9))
    assert folder.ask(of(auto, ["sas"])).looked == 9
    again = replace(at(whole, range(10)), looks=(5, 10))
    both = folder.ask(of(again, ["sas", "op"]))
    assert both.looked == 5 and verdicts(both) == {"sas": "undecided", "op": "better"}


def test_a_result_that_was_missing_reopens_its_own_comparison_alone(folder, whole):
    plan = at(whole, FIVE)
    lost = next(t.id for t in plan.trials if t.seed == 4 and t.variant == plan.comparisons[1].after)
    everything = folder.finals

    def but_one(asked: Plan):
        ends = everything(asked)
        return {id: {**end, "status": "bug", "metrics": {}} if id == lost else end for id, end in ends.items()}

    folder.finals = but_one
    folder.ask(plan)
    folder.finals = everything
    after = folder.ask(plan)
    assert [effect.judgement for effect in after.effects] == [1, 2, 1]
    assert judgement(after).states == StateCounts(again=1, settled=2)


DESIGNS = (
    "{path: {from: pre_ln, to: op}}",
    "{leave_one_out: {from: pre_ln, to: op}}",
    "{factorial: {from: pre_ln, to: op}}",
)


@pytest.mark.parametrize("design", DESIGNS)
def test_contrasts_of_any_design_are_known_under_other_names(tmp_path, design):
    """Edits get other names, too: those of a factorial are known by what they weigh its runs with."""
    plan = designed(design, seeds=5)
    random = np.random.default_rng(1)
    folder = Folder(tmp_path, {variant.id: random.normal(2, 0.01, 5) for variant in plan.variants})
    first = folder.ask(plan)
    other = renamed(plan)
    names = {edit: f"{edit}'" for _, factors in plan.factors for edit in factors.edits}
    swapped = tuple(
        (
            terms,
            replace(
                factors,
                edits=tuple(names[edit] for edit in factors.edits),
                effects=tuple(tuple(names[edit] for edit in effect) for effect in factors.effects),
            ),
        )
        for terms, factors in other.factors
    )
    changes = [
        " × ".join(f"{name}'" for name in c.change.removesuffix("_again").split(" × "))
        if c.kind in ("main", "interaction") and not c.weights and names
        else c.change
        for c in other.comparisons
    ]
    comparisons = tuple(replace(c, change=change) for c, change in zip(other.comparisons, changes, strict=True))
    again = folder.ask(replace(other, factors=swapped, comparisons=comparisons))
    assert judgement(again).so_far == judgement(first).so_far and judgement(again).questions == 1
    assert judgement(again).states.settled == (judgement(first).states.new if plan.factors else 0), (
        "else the same question"
    )


@pytest.mark.parametrize("design", [*DESIGNS, "{compare: [pre_ln, op]}"])
def test_a_kept_plan_has_the_same_keys(design):
    """Judgements of earlier versions are read through their plans, as these are kept."""
    plan = designed(design, seeds=2)
    document = documents.plan_document(plan, Documents(source=""))
    trials = [documents.trial_document(trial) for trial in plan.trials]
    now = {comparison_id(each): (made.key, made.sign) for each, made in judged_design(plan).compared.items()}
    kept = compared_in(KeptDesign(document), trials)  # type: ignore[arg-type]
    assert {comparison_id(each): (made.key, made.sign) for each, made in kept.items()} == now and len(now) > 0


def test_it_is_in_sql(folder, whole):
    folder.ask(at(of(whole, ["sas"]), FIVE))
    folder.ask(at(of(whole, ["sas", "sas_p"]), EIGHT))
    refresh(folder.path, say=print)
    rows = query(
        folder.path,
        "SELECT state, judgement, family, round(level, 6), round(left_of_alpha, 6) FROM accounts"
        " ORDER BY family, level",
    ).rows
    assert rows == (("new", 1, 1, 0.04, 0.01), ("again", 2, 2, 0.008, 0.002), ("new", 1, 2, 0.04, 0.01))
    asked = query(folder.path, "SELECT family, new, judged_before, round(so_far, 6), questions_asked FROM questions")
    assert sorted(asked.rows) == [(1, 1, 0, 0.04, 1), (2, 1, 1, 0.064, 1)]


def test_a_judgement_of_an_earlier_version_counts_through_its_plan(tmp_path, whole):
    """Its record has no accounts: three comparisons, judged once, are known by the plan that the folder keeps."""
    from store_fixtures import opened

    plan = at(whole, FIVE)
    folder = Folder(tmp_path, losses(whole, op=-0.1))
    with opened(tmp_path) as results:
        results.record_plan(plan, Documents(source="", resolved={"space": plan.space}))
        ends = folder.finals(plan)
        account = account_of(plan, ends, rules=rules(), folder=tmp_path)
        from ablate.session.judging import questions_of

        summary = judge(plan, rules(), ends, account)
        compared = {made.key: id for id, made in _by_id(plan).items()}
        old = [
            {key: value for key, value in question.items() if key not in ("accounts", "so_far", "among")}
            | {"effects": [{**e, "comparison": compared[e["comparison"]]} for e in question["effects"]]}
            for question in questions_of(summary, plan, rules(), account, ends)
        ]
        results.record_judgement(plan.space, None, old)
    assert all("accounts" not in question for question in questions_in_order(Snapshot(tmp_path).judgements))
    alone = folder.ask(renamed(of(plan, ["sas"])))
    assert judgement(alone).tests == 3 and judgement(alone).states == StateCounts(settled=1)
    later = folder.ask(at(of(whole, ["sas"]), EIGHT))
    assert (judgement(later).number, judgement(later).tests) == (2, 3)


def _by_id(plan: Plan):
    return {comparison_id(each): made for each, made in judged_design(plan).compared.items()}


def test_other_numbers_at_the_same_seeds_are_other_data(folder, whole):
    """Trained again to other numbers, or with a result that is lost: judged again, not for the first time."""
    plan = at(whole, FIVE)
    folder.ask(plan)
    folder.values = losses(whole, op=-0.1, sas=-0.1)
    again = folder.ask(plan)
    assert judgement(again).states == StateCounts(again=1, settled=2)
    assert {effect.change: effect.level for effect in again.effects}["sas"] == pytest.approx(0.008)
    lost = next(t.id for t in plan.trials if t.seed == 4 and t.variant == plan.comparisons[0].after)
    everything = folder.finals
    folder.finals = lambda asked: {  # type: ignore[method-assign]
        id: {**end, "status": "timeout", "metrics": {}} if id == lost else end for id, end in everything(asked).items()
    }
    third = folder.ask(plan)
    assert [effect.judgement for effect in third.effects if effect.change == "op"] == [1], "what was found stands"
    assert judgement(third).states == StateCounts(again=1, settled=2)


def test_a_verdict_at_a_lower_confidence_is_none_at_a_higher(tmp_path, whole):
    plan = at(whole, FIVE)
    loose = rules(confidence=0.6)
    for shift in np.linspace(0, -0.02, 41):
        folder = Folder(tmp_path / f"{shift:.4f}", losses(whole, op=shift))
        folder.path.mkdir()
        effect = folder.ask(of(plan, ["op"]), loose).effects[0]
        if effect.verdict == "better" and effect.p > 0.06:
            break
    strict = folder.ask(of(plan, ["op"])).effects[0]
    assert effect.verdict == "better" and strict.verdict == "undecided"
    assert (strict.judgement, strict.level) == (2, pytest.approx(0.008))


def test_the_ends_of_a_design_swapped_are_the_same_comparisons(tmp_path):
    """Main effects and whole sums change their sign, and what was found its direction."""
    there, back = (
        designed(f"{{factorial: {{from: {start}, to: {end}}}}}", seeds=12)
        for start, end in (("pre_ln", "op"), ("op", "pre_ln"))
    )
    assert {v.id for v in there.variants} == {v.id for v in back.variants}
    random = np.random.default_rng(2)
    folder = Folder(tmp_path, {variant.id: random.normal(2, 0.01, 12) for variant in there.variants})
    first = folder.ask(at(there, FIVE))
    later = folder.ask(at(back, EIGHT))
    compared = judgement(first).states.new - 1  # the whole step is compared with the baseline that way round alone
    assert judgement(later).states == StateCounts(again=compared), "none is new"
    swapped = folder.ask(at(back, FIVE))
    assert judgement(swapped).states == StateCounts(settled=compared)
    estimates = {effect.p: effect.estimate for effect in first.effects}
    signs = {np.sign(effect.estimate / estimates[effect.p]) for effect in swapped.effects}
    assert signs == {-1.0, 1.0}, "mains turn, interactions of two edits do not"
    for effect in swapped.effects:
        assert abs(effect.estimate) == pytest.approx(abs(estimates[effect.p]))


def test_what_has_no_share_left_takes_none_from_others(tmp_path, whole):
    """op was judged with looks, which leave nothing; sas at fixed seeds, which leave a fifth."""
    folder = Folder(tmp_path, losses(whole, op=-0.1))
    folder.ask(replace(at(of(whole, ["op"]), range(9)), looks=(4, 6, 9)))
    folder.ask(at(of(whole, ["sas"]), FIVE))
    both = folder.ask(at(of(whole, ["op", "sas"]), range(10)))
    (sas,) = (effect for effect in both.effects if effect.change == "sas")
    assert sas.p_adjusted == pytest.approx(min(1, 2 * sas.p)) and sas.adjusted_low is not None


def test_under_the_budget_of_the_folder_begun_looks_go_on_at_what_they_had(folder, whole):
    auto = replace(at(whole, range(9)), looks=(4, 6, 9))
    folder.ask(of(auto, ["sas"]), BY_FOLDER)
    both = folder.ask(of(auto, ["sas", "sas_p"]), BY_FOLDER)
    assert {effect.change: effect.level for effect in both.effects} == {"sas": pytest.approx(0.05), "sas_p": 0.0}


def test_the_screen_bounds_what_may_be_false_by_all_that_was_asked(folder, whole):
    plan = at(whole, FIVE)
    first = folder.ask(of(plan, ["op"]))
    assert first.false_at_most == pytest.approx(0.05)
    grown = folder.ask(plan)
    assert grown.false_at_most == pytest.approx(0.04 + 2 / 3 * 0.04 + 0.01)
    (line,) = (line for line in footnotes.definitions(grown, {}) if line.startswith("better, worse:"))
    assert "the chance that any of them is false is at most 7.67 %, of which 1 % is reserved" in line
    assert any("all verdicts hold together with 92.3 % confidence" in line for line in footnotes.definitions(grown, {}))


def test_what_was_judged_before_is_not_said_to_wait(folder, whole):
    plan = at(whole, FIVE)
    folder.ask(of(plan, ["op"]))
    known = {trial.id for trial in of(plan, ["op"]).trials}
    ends = {id: end for id, end in folder.finals(plan).items() if id in known}
    summary = judge(plan, rules(), ends, account_of(plan, ends, rules=rules(), folder=folder.path, reading=True))
    assert verdicts(summary) == {"op": "better", "sas": "undecided", "sas_p": "undecided"}
    (note,) = footnotes.warnings(summary.notes)
    assert note.startswith("no verdict yet on 2 of 3 comparisons: 10 of 20 trials have not ended")
    assert note.endswith("; what was judged before stands")


def test_a_mixed_judgement_says_how_often_each_part_was_judged(folder, whole):
    """sas for the third time, sas_p for the first; more seeds would be the fourth and the second."""
    for seeds in (FIVE, range(6)):
        folder.ask(at(of(whole, ["sas"]), seeds))
    both = folder.ask(at(of(whole, ["sas", "sas_p"]), range(7)))
    assert both.notes[-1].startswith("1 of 2 comparisons judged a third time, at 0.16 % over all 2: ")
    (line,) = (line for line in footnotes.definitions(both, {}) if line.startswith("+k seeds"))
    assert "judged a fourth time, at 0.032 % and a second time, at 0.8 % over 2 comparisons" in line


def test_what_has_nothing_left_beside_what_is_new_says_which(folder, whole):
    folder.ask(replace(at(of(whole, ["sas"]), range(9)), looks=(4, 6, 9)))
    both = folder.ask(at(of(whole, ["sas", "sas_p"]), EIGHT))
    assert both.notes[-1].startswith(
        "1 of 2 comparisons judged a second time, at 0 %: no α is left for these, so earlier findings stand and none is"
    )
    assert "; 1 of 2 is new, at 4 % over all 2: " in both.notes[-1]


def test_seeds_that_are_only_planned_are_other_data(folder, whole):
    """A plan is told how it will be judged before its new trials are run."""
    folder.ask(at(whole, FIVE))
    more, known = at(whole, EIGHT), {trial.id for trial in at(whole, FIVE).trials}
    ends = {id: end for id, end in folder.finals(more).items() if id in known}
    (held,) = account_of(more, ends, rules=rules(), folder=folder.path, reading=True).values()
    assert {account.state for account in held.accounts.values()} == {"again"}


def test_what_is_left_is_of_what_is_tested(folder, whole):
    """sas for the third time beside op, which is settled and has more left: 0.04 of 5 % was left, a fifth of it is."""
    folder.ask(at(of(whole, ["op"]), range(7)))
    for seeds in (FIVE, range(6)):
        folder.ask(at(of(whole, ["sas"]), seeds))
    one = judgement(folder.ask(at(of(whole, ["op", "sas"]), range(7))))
    assert one.states == StateCounts(again=1, settled=1) and one.again_number == 3
    assert (one.level, one.left) == (pytest.approx(0.0016), pytest.approx(0.0004))
    assert one.next_level == pytest.approx(0.00032)


def test_no_judgement_takes_the_place_of_another_at_the_same_seeds(folder, whole):
    """op at six seeds, one of them without a result, beside sas for the third time; then with it. Both count."""
    for seeds in (FIVE, range(7)):
        folder.ask(at(of(whole, ["sas"]), seeds))
    both = at(of(whole, ["sas", "op"]), range(6))
    lost = next(t.id for t in both.trials if t.seed == 5 and t.variant == both.comparisons[1].after)
    everything = folder.finals
    folder.finals = lambda asked: {  # type: ignore[method-assign]
        id: {**end, "status": "bug", "metrics": {}} if id == lost else end for id, end in everything(asked).items()
    }
    folder.ask(both)
    folder.finals = everything  # type: ignore[method-assign]
    after = judgement(folder.ask(both))
    assert after.states == StateCounts(again=1, settled=1)
    once, twice, thrice = 0.04, 0.04 + 0.008, 0.0016 / 2  # of sas at five and seven seeds, alone, and at six
    assert after.so_far == pytest.approx(twice + thrice + once / 2 + 0.008 / 2)
    assert judgement(folder.ask(both)).so_far == after.so_far
    assert len(asked_of(Snapshot(folder.path)).questions) == 4


def test_leaving_arms_out_tests_no_correlation_anew(folder, whole):
    claim = {"claim": "they go together", "correlation": "other", "metric": "eval_loss", "verdict": "positive"}
    ruled = rules("eval_loss", "other").model_copy(update={"expect": (Expected.model_validate(claim),)})
    plan = at(whole, FIVE)
    (first,) = folder.ask(plan, ruled).expectations
    (fewer,) = folder.ask(of(plan, ["op", "sas"]), ruled).expectations
    (more,) = folder.ask(at(whole, EIGHT), ruled).expectations
    assert (first.correlation.level, first.correlation.rows) == (pytest.approx(0.04), 4)
    assert (fewer.correlation.level, fewer.correlation.p, fewer.correlation.rows) == (0.0, None, 3)
    assert more.correlation.level == pytest.approx(0.008)


def test_a_bundle_has_what_shares_a_training_also_through_others(folder, whole):
    """pre_ln with op, op with sas, sas with sas_p, and another two that have nothing to do with these."""
    plan = at(whole, FIVE)
    recipe = plan.trials[0].work.recipe
    longer = recipe.model_copy(update={"steps": recipe.steps + 1})
    apart = replace(plan, space="apart", trials=tuple(altered(t, id=f"{t.id}x", recipe=longer) for t in plan.trials))
    chain = [between(plan, *pair) for pair in (("pre_ln", "op"), ("op", "sas"), ("sas", "sas_p"))]
    for asked in (*chain, apart):
        folder.ask(asked)
    now = Snapshot(folder.path)
    document = documents.plan_document(chain[0], Documents(source=""))
    kept = KeptPlan("", 0, chain[0].space, None, document)  # type: ignore[arg-type]
    asked_in = {question["space"] for _, text in _judgements(now, kept) for question in json.loads(text)["questions"]}
    assert asked_in == {asked.space for asked in chain}


def test_a_metric_and_a_function_of_it_are_counted_once(folder, whole):
    """Judged side by side, later with an arm more, and under one account of the folder."""
    plan = at(whole, FIVE)
    both = rules("eval_loss", "perplexity")
    first = folder.ask(of(plan, ["op", "sas"]), both)
    grown = folder.ask(plan, both)
    assert [one.so_far for one in (*first.judgements, *grown.judgements)] == pytest.approx(
        [0.04, 0.04, 0.04 + 0.04 / 3, 0.04 + 0.04 / 3]
    )
    later = folder.ask(at(of(whole, ["op"]), EIGHT), both.model_copy(update={"budget": "folder"}))
    assert [one.number for one in later.judgements] == [3, 3], "behind two judgements"
