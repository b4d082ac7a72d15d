"""How often a question was judged is kept by its seeds: once each, with its verdicts, through crashes and losses."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from altered_trials import altered
from scipy import stats
from store_fixtures import DOCUMENTS, VARIANTS, opened, plan, trial

from ablate.report import footnotes, wording
from ablate.session.accounts import account_of
from ablate.session.judging import judged
from ablate.space.judge import Judge, Judged
from ablate.store import files
from ablate.store.projection import DATABASE
from ablate.store.query import query
from ablate.store.repair import repair
from ablate.store.snapshot import Snapshot
from ablate.train.events import Outcome, Row
from ablate.verdict.judge import judge
from ablate.verdict.summary import Summary

FIVE, EIGHT = tuple(range(5)), tuple(range(8))
OP = list(VARIANTS)[2]
RULES = Judge(
    metrics={"eval_loss": Judged(margin="none", scale="linear", better="lower")}, against="pre_ln", confidence=0.95
)
NEITHER = RULES.metrics["eval_loss"].model_copy(update={"better": "none"})
NOISE = (0.011, -0.012, 0.003, -0.004, 0.002, 0.013, -0.014, 0.001)


def asked(seeds, space="small"):
    """pre_ln against half and op, at these seeds; of half nothing is to be found, op is plainly better."""
    whole = plan(seeds, space)
    return replace(whole, comparisons=whole.comparisons[2:], proposals=())


def trained(folder, seeds):
    """The trials of the seeds, those of op 0.1 below those of pre_ln."""
    with opened(folder) as results:
        results.record_plan(asked(seeds), DOCUMENTS)
        for seed in seeds:
            for place, variant in enumerate(VARIANTS):
                one = trial(variant, seed)
                if one.id in results.outcomes():
                    continue
                results.begin(one)
                value = 2.0 + 0.05 * math.sin(seed) - 0.1 * (place == 2) + place * NOISE[seed]
                results.append(one.id, [Row(40, "eval_loss", "", value), Outcome("finished", 40)])


def judged_at(folder, seeds, rules=RULES, space="small", **opening) -> Summary:
    """What a run of these seeds ends with."""
    with opened(folder, **opening) as results:
        results.record_plan(asked(seeds, space), DOCUMENTS)
        return judged(asked(seeds, space), rules, results)


def level_of(summary: Summary) -> tuple[int, float]:
    (one,) = summary.judgements
    return one.number, round(one.level, 6)


def entries(folder):
    """What each kept judgement says of questions, in order."""
    return [question for judgement in Snapshot(folder).judgements for question in judgement.content["questions"]]


@pytest.fixture
def folder(tmp_path):
    trained(tmp_path, EIGHT)
    return tmp_path


def test_the_second_judgement_is_held_at_four_fifths_of_what_the_first_has_left(folder):
    assert level_of(judged_at(folder, FIVE)) == (1, 0.04)
    assert level_of(judged_at(folder, EIGHT)) == (2, 0.008)
    assert level_of(judged_at(folder, (0, 1, 2, 3, 4, 5, 6))) == (3, 0.0016)


@pytest.mark.full
def test_the_same_seeds_again_are_no_other_judgement_in_whatever_order_and_space(folder):
    first = judged_at(folder, FIVE)
    assert level_of(judged_at(folder, EIGHT))[0] == 2
    before = entries(folder)
    assert judged_at(folder, FIVE).effects == first.effects
    assert level_of(judged_at(folder, (4, 2, 0, 1, 3))) == (1, 0.04)
    assert level_of(judged_at(folder, EIGHT, space="asked_again")) == (2, 0.008)
    assert judged_at(folder, EIGHT, space="asked_again").effects
    assert entries(folder)[:-1] == before and entries(folder)[-1]["space"] == "asked_again"
    found = query(folder, "SELECT space, number, len(seeds) FROM questions ORDER BY space, number")
    assert found.rows == (("asked_again", 2, 8), ("small", 1, 5), ("small", 2, 8))


@pytest.mark.full
def test_what_was_found_stands_with_its_numbers(folder):
    half, op = judged_at(folder, FIVE).effects
    assert (half.verdict, op.verdict, op.judgement, op.level) == ("undecided", "better", 1, pytest.approx(0.04))
    _, later = judged_at(folder, EIGHT).effects
    assert (later.verdict, later.n, later.judgement) == ("better", 5, 1)
    assert later.p == op.p and later.p_adjusted == op.p_adjusted
    assert "found at 5 seeds, judged for the first time, at 4 %; at the 8 seeds seen now: " in later.note


LATER = tuple(range(5, 20))


def trained_otherwise(folder, difference):
    """The trials of later seeds, those of op so much above those of pre_ln."""
    with opened(folder) as results:
        for seed in LATER:
            for place, variant in enumerate(VARIANTS):
                one = trial(variant, seed)
                results.begin(one)
                value = 2.0 + difference * (place == 2) + 0.001 * math.sin(seed * (place + 1))
                results.append(one.id, [Row(40, "eval_loss", "", value), Outcome("finished", 40)])


@pytest.mark.full
def test_it_does_not_stand_against_an_interval_without_it(tmp_path):
    trained(tmp_path, FIVE)
    judged_at(tmp_path, FIVE)
    trained_otherwise(tmp_path, 0.2)
    _, op = judged_at(tmp_path, LATER).effects
    assert op.verdict == "undecided" and "a difference was found at 5 seeds" in op.note and "no longer at" in op.note


@pytest.mark.sampled(1)
@pytest.mark.parametrize("difference", [0.5, -0.5])
def test_nor_does_an_equivalence_against_one_beyond_its_margin(tmp_path, difference):
    trained(tmp_path, FIVE)
    assert judged_at(tmp_path, FIVE, ruled(margin=0.3)).effects[1].verdict == "equivalent"
    trained_otherwise(tmp_path, difference)
    _, op = judged_at(tmp_path, LATER, ruled(margin=0.3)).effects
    assert op.verdict == "undecided" and "equivalence was found at 5 seeds" in op.note and "no longer at" in op.note


def test_the_level_is_what_verdicts_are_made_by(folder):
    """op against pre_ln at seeds that tell it at 4 % and not at 0.8 %: judged first, and judged second."""
    three = (0, 1, 2)
    first = judged_at(folder, three)
    p = first.effects[1].p_adjusted
    d = [2 * NOISE[seed] - 0.1 for seed in three]
    assert p == pytest.approx(2 * stats.ttest_1samp(d, 0).pvalue) and 0.008 < p < 0.04
    assert first.effects[1].verdict == "better"


@pytest.mark.full
def test_judged_second_the_same_numbers_decide_less(folder):
    judged_at(folder, (6, 7))
    second = judged_at(folder, (0, 1, 2))
    assert level_of(second) == (2, 0.008) and second.effects[1].verdict == "undecided"
    assert any("judged a second time, at 0.8 %" in note for note in second.notes)


@pytest.mark.full
def test_half_a_run_is_not_judged_and_spends_nothing(tmp_path):
    trained(tmp_path, FIVE)
    with opened(tmp_path) as results:
        results.record_plan(asked(EIGHT), DOCUMENTS)
        summary = judged(asked(EIGHT), RULES, results)
    assert {effect.verdict for effect in summary.effects} == {"undecided"}
    assert summary.effects[1].p < 0.01 and summary.effects[1].p_adjusted is None
    assert any("no verdicts yet: 9 of 24 trials have not ended" in note for note in summary.notes)
    assert Snapshot(tmp_path).questions == {}
    assert level_of(judged_at(tmp_path, FIVE)) == (1, 0.04)


@pytest.mark.full
def test_who_only_reads_gives_no_verdict_that_does_not_count(folder):
    judged_at(folder, (6, 7))
    with opened(folder) as results:
        finals = results.finals([one.id for one in asked(FIVE).trials])

    def read() -> Summary:
        return judge(
            asked(FIVE), RULES, finals, account_of(asked(FIVE), finals, rules=RULES, folder=folder, reading=True)
        )

    assert read().effects[1].verdict == "undecided" and read().effects[1].p < 0.001
    assert any("these seeds are not in the record of questions" in note for note in read().notes)
    assert len(entries(folder)) == 1
    judged_at(folder, FIVE)
    assert read().effects[1].verdict == "better"


def test_one_seed_is_no_judgement(folder):
    judged_at(folder, (0,))
    assert Snapshot(folder).questions == {}


def ruled(**changed):
    return RULES.model_copy(update={"metrics": {"eval_loss": RULES.metrics["eval_loss"].model_copy(update=changed)}})


@pytest.mark.full
def test_another_margin_or_confidence_is_no_other_question(folder):
    """Who tries one margin after another at the same seeds judges again; on another scale it is another metric."""
    judged_at(folder, FIVE)
    assert level_of(judged_at(folder, FIVE, ruled(margin=0.5))) == (2, 0.008)
    assert level_of(judged_at(folder, FIVE)) == (1, 0.04)
    assert level_of(judged_at(folder, EIGHT, RULES.model_copy(update={"confidence": 0.9}))) == (3, 0.0032)
    assert level_of(judged_at(folder, FIVE, ruled(scale="log"))) == (1, 0.04)


@pytest.mark.full
def test_an_equivalence_stands_within_its_own_margin_alone(folder):
    half, op = judged_at(folder, FIVE, ruled(margin=0.3)).effects
    assert half.verdict == op.verdict == "equivalent" and op.differs
    again = judged_at(folder, (0, 1, 2), ruled(margin=0.3)).effects
    assert [(e.verdict, e.judgement) for e in again] == [("equivalent", 1)] * 2
    narrower = judged_at(folder, (0, 1, 2), ruled(margin=0.001)).effects
    assert [(e.verdict, e.judgement) for e in narrower] == [("undecided", 3)] * 2
    last = judged_at(folder, EIGHT, ruled(margin=0.3)).effects
    assert [(e.verdict, e.judgement) for e in last] == [("equivalent", 1)] * 2


@pytest.mark.full
def test_a_difference_stands_through_a_margin_within_which_it_is_too_small(folder):
    assert judged_at(folder, (0, 1, 2)).effects[1].verdict == "better"
    wide = judged_at(folder, (0, 1, 2), ruled(margin=0.5)).effects[1]
    assert (wide.verdict, wide.differs, wide.judgement) == ("equivalent", True, 2)
    again = judged_at(folder, (0, 1, 2, 3)).effects[1]
    assert (again.verdict, again.judgement) == ("better", 1)
    assert judged_at(folder, FIVE, ruled(margin=0.5)).effects[1].differs


@pytest.mark.full
def test_noise_beside_it_makes_no_other_question(folder):
    """An A/A arm is never judged: with it the same is asked."""
    judged_at(folder, FIVE)
    whole = asked(EIGHT)
    arm = replace(whole.variants[0], id="noise", names=("A/A",))
    salted = tuple(replace(t, id=f"{t.id}s", variant="noise", salt=1) for t in whole.trials if t.seed < 2)
    beside = replace(whole, variants=(*whole.variants, arm), trials=(*whole.trials, *salted))
    with opened(folder) as results:
        finals = results.finals([one.id for one in whole.trials])
    (held,) = account_of(beside, finals, rules=RULES, folder=folder).values()
    assert held.number == 2


@pytest.mark.full
def test_a_judgement_that_is_lost_for_good_is_missed_and_no_more(folder):
    judged_at(folder, FIVE)
    judged_at(folder, EIGHT)
    first, _ = Snapshot(folder).judgements
    for name in (first.name, DATABASE):
        (folder / name).unlink()
    said = []
    assert judged_at(folder, (0, 1, 2), say=said.append).effects[1].verdict == "better"
    assert said[0].startswith(f"lost: {first.name} is gone; the next `ablate run` of its space, or `ablate judge`")
    assert judged_at(folder, (0, 1, 2)).effects[1].verdict == "better", "and it is told once"


def judged_as(folder, plan) -> Summary:
    with opened(folder) as results:
        results.record_plan(plan, DOCUMENTS)
        return judged(plan, RULES, results)


def measured(seeds, **changed):
    """The same trainings, measured otherwise."""
    whole = asked(seeds)
    trials = tuple(altered(t, measure=t.work.measure.model_copy(update=changed)) for t in whole.trials)
    return replace(whole, trials=trials)


@pytest.mark.full
def test_a_probe_more_or_another_version_asks_nothing_new(folder):
    judged_at(folder, FIVE)
    one = asked(FIVE).trials[0].work.measure
    assert level_of(judged_as(folder, measured(FIVE, probes=()))) == (1, 0.04)
    oftener = one.evaluation.model_copy(update={"every": one.evaluation.every + 1})
    assert level_of(judged_as(folder, measured(FIVE, every=one.every + 1, evaluation=oftener))) == (1, 0.04)
    threads = replace(asked(FIVE), trials=tuple(altered(t, threads=7) for t in asked(FIVE).trials))
    assert level_of(judged_as(folder, threads)) == (1, 0.04)
    wider = one.evaluation.model_copy(update={"windows": one.evaluation.windows + 1})
    assert level_of(judged_as(folder, measured(FIVE, evaluation=wider))) == (2, 0.008)  # a second look at these seeds


@pytest.mark.full
def test_a_result_that_was_not_there_makes_another_judgement(tmp_path):
    """Five seeds, one of them a bug: judged at four; trained after all, at five, for the second time."""
    trained(tmp_path, FIVE[:4])
    with opened(tmp_path) as results:
        results.record_plan(asked(FIVE), DOCUMENTS)
        for variant in VARIANTS:
            one = trial(variant, 4)
            results.begin(one)
            results.append(one.id, [Outcome("bug", 3)] if variant == OP else ended(2.0))
    first = judged_at(tmp_path, FIVE)
    assert level_of(first) == (1, 0.04) and first.effects[1].n == 4
    assert level_of(judged_at(tmp_path, FIVE)) == (1, 0.04)
    assert query(tmp_path, "SELECT number, without_result FROM questions").rows == ((1, 1),)
    with opened(tmp_path) as results:
        results.begin(trial(OP, 4))
        results.append(trial(OP, 4).id, ended(1.9))
    assert level_of(judged_at(tmp_path, FIVE)) == (2, 0.008)
    assert level_of(judged_at(tmp_path, FIVE)) == (2, 0.008)


def ended(value: float):
    return [Row(40, "eval_loss", "", value), Outcome("finished", 40)]


@pytest.mark.full
def test_what_stands_says_so_once(folder):
    judged_at(folder, FIVE)
    for seeds in ((0, 1, 2), (0, 1, 2, 3), EIGHT):
        note = judged_at(folder, seeds).effects[1].note
        assert note.count("found at") == note.count("seen now") == 1
        assert f"at the {len(seeds)} seeds seen now" in note


@pytest.mark.full
def test_looks_spend_all_that_is_left(folder):
    auto = replace(asked(EIGHT), looks=(5, 8))
    with opened(folder) as results:
        results.record_plan(auto, DOCUMENTS)
        first = judged(auto, RULES, results)
        assert level_of(first) == (1, 0.05)
        again = judged(replace(auto, seeds=FIVE), RULES, results)  # an earlier look of the same
        assert level_of(again) == (1, 0.05)
    after = judged_at(folder, (0, 1, 2, 3))
    assert level_of(after) == (2, 0.0) and after.effects[0].verdict == "undecided"
    assert after.effects[1].verdict == "better"  # as the looks have found
    assert (
        after.effects[1].note.startswith("found at 5 seeds; at all 8: ") or "found at 5 seeds" in after.effects[1].note
    )
    assert any("no α is left for this question" in note for note in after.notes)
    assert wording.phrase(after.effects[0], after.metrics[0]) == "eval loss undecided (no α is left)"
    assert any("p < 0, which is impossible: no α is left" in line for line in footnotes.definitions(after, {}))


@pytest.mark.full
def test_looks_after_fixed_seeds_have_the_fifth_that_they_left(folder):
    judged_at(folder, (0, 1))
    auto = replace(asked(EIGHT), looks=(5, 8))
    with opened(folder) as results:
        results.record_plan(auto, DOCUMENTS)
        assert level_of(judged(auto, RULES, results)) == (2, 0.01)


def test_it_is_in_sql(folder):
    judged_at(folder, FIVE)
    judged_at(folder, EIGHT)
    found = query(
        folder, "SELECT number, seeds, level, left_of_alpha, better, undecided FROM questions ORDER BY number"
    )
    assert [(n, len(seeds), round(level, 6), round(left, 6), b, u) for n, seeds, level, left, b, u in found.rows] == [
        (1, 5, 0.04, 0.01, 1, 1),
        (2, 8, 0.008, 0.002, 1, 1),
    ]
    verdict = query(
        folder, "SELECT verdict, judgement, round(level, 6) FROM verdicts WHERE space = 'small' ORDER BY position"
    )
    assert verdict.rows == (("undecided", 2, 0.008), ("better", 1, 0.04))


def test_what_is_only_higher_or_lower_is_counted_as_such(folder):
    judged_at(folder, FIVE, Judge(**{**RULES.model_dump(), "metrics": {"eval_loss": NEITHER}}))
    found = query(folder, "SELECT better, worse, higher, lower, undecided, comparisons FROM questions")
    assert found.rows == ((0, 0, 0, 1, 1, 2),)
    said = query(folder, "SELECT verdict FROM effects WHERE space = 'small' ORDER BY verdict")
    assert said.rows == (("lower",), ("undecided",))
    assert query(folder, "SELECT DISTINCT better FROM judged").rows == (("none",),)


def test_verdicts_and_what_they_count_are_one_file(folder):
    """So that there are no verdicts that do not count."""
    judged_at(folder, FIVE)
    (kept,) = Snapshot(folder).judgements
    assert len(kept.content["questions"]) == 1 and len(kept.content["verdicts"]["effects"]) == 2
    judged_at(folder, FIVE)
    assert Snapshot(folder).judgements == (kept,)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("harm", [None, b"", b"{}"], ids=["gone", "emptied", "changed"])
@pytest.mark.parametrize("which", [0, 1])
def test_a_lost_file_loses_no_judgement(folder, which, harm):
    judged_at(folder, FIVE)
    judged_at(folder, EIGHT)
    path = folder / Snapshot(folder).judgements[which].name
    whole = path.read_bytes()
    path.unlink() if harm is None else path.write_bytes(harm)
    assert [(f.kind, f.severity, f.where) for f in repair(folder, dry_run=True).findings] == [
        ("verdicts", "repaired", path)
    ]
    said = []
    assert level_of(judged_at(folder, (0, 1, 2), say=said.append)) == (3, 0.0016)
    assert said[0].endswith("; recovered from ablate.duckdb") and path.read_bytes() == whole


@pytest.mark.full
@pytest.mark.parametrize(("moment", "kept"), [("write_whole", 1), ("bear_witness", 2)])
def test_a_run_killed_while_it_keeps_a_judgement_has_made_it_or_not(folder, monkeypatch, moment, kept):
    judged_at(folder, FIVE)
    with opened(folder) as results:
        results.record_plan(asked(EIGHT), DOCUMENTS)

    def killed(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(files, moment, killed)
    with pytest.raises(KeyboardInterrupt):
        judged_at(folder, EIGHT)
    monkeypatch.undo()
    assert len(entries(folder)) == kept
    assert level_of(judged_at(folder, EIGHT)) == (2, 0.008)
    assert len(entries(folder)) == 2
