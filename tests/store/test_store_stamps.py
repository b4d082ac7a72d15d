"""The sides that a claim compares, in a kept plan of every design, and the date that the store gives it."""

import json
from dataclasses import replace

import numpy as np
import pytest
from claim_worlds import Ran, carry_out, claim, day
from designed_fixtures import designed
from store_fixtures import opened
from tiny_spaces import write_world

import ablate
from ablate.session.reporting import report
from ablate.session.verifying import verify
from ablate.store.documents import Documents, plan_document
from ablate.store.durable import compact
from ablate.store.predictions import ContrastSides, Stamps, compared_by
from ablate.store.query import query
from ablate.store.snapshot import Snapshot
from ablate.verdict.contrasts import contrasts
from ablate.verdict.experiment import experiment_of

HOT = claim()
LADDER = "{ladder: {compare: [pre_ln, op], sizes: [{model.width: 32}, {model.width: 64}, {model.width: 128}]}}"


def kept(plan):
    return json.loads(compact(plan_document(plan, Documents(source=""))))


@pytest.mark.parametrize("design", ["compare", "path", "leave_one_out", "factorial", "fractional"])
def test_the_sides_of_every_comparison_are_those_that_it_subtracts_and_adds(design):
    plan = designed(design)
    document, levels, told = kept(plan), dict(plan.factors).get(""), 0
    for comparison, question in zip(plan.comparisons, contrasts(experiment_of(plan)), strict=True):
        named = plan.variant(comparison.after).name if comparison.kind == "baseline" else comparison.change
        (found,) = compared_by(document, claim(of=named))
        if sum(named in _names(other, plan) for other in plan.comparisons) > 1:
            continue  # of several with one name it is the first
        told += 1
        if comparison.after:
            assert found == ContrastSides(frozenset([comparison.before]), frozenset([comparison.after]))
        elif comparison.weights:
            assert found.plus == {variant for variant, weight in comparison.weights if weight > 0}
            assert found.minus == {variant for variant, weight in comparison.weights if weight < 0}
        else:
            places = [levels.edits.index(edit) for edit in question.edits]
            signs = {variant: np.prod([of[place] for place in places]) for variant, of in levels.runs}
            assert found.plus == {variant for variant, sign in signs.items() if sign > 0}
            assert found.minus == {variant for variant, sign in signs.items() if sign < 0}
        assert found.known == ("every" if comparison.kind == "interaction" else "each")
    assert told >= 2


def _names(comparison, plan):
    return (comparison.change, *(plan.variant(comparison.after).names if comparison.kind == "baseline" else ()))


def test_a_trend_over_levels_compares_the_lower_with_the_higher_ones():
    plan = designed("{factorial: {from: pre_ln, vary: {model.layers: [4, 8, 16]}}}")
    (found,) = compared_by(kept(plan), claim(of="model.layers: trend"))
    runs = dict(dict(plan.factors)[""].runs)
    assert (len(found.minus), len(found.plus)) == (1, 1)
    assert (runs[next(iter(found.minus))], runs[next(iter(found.plus))]) == ((0,), (2,))


def test_a_trend_over_sizes_is_known_once_every_size_is():
    plan = designed(LADDER)
    (found,) = compared_by(kept(plan), claim(of="op over sizes"))
    assert (len(found.minus), len(found.plus), found.known) == (3, 3, "every")


def test_an_interaction_is_known_later_than_its_edits(tmp_path):
    """With the baseline and one edit known, the edit's effect is known, and the interaction is not."""
    plan = designed("factorial")
    names = {tuple(levels): variant for variant, levels in dict(plan.factors)[""].runs}
    assert plan.variants[0].id == names[-1, -1, -1]
    interaction = next(c.change for c in plan.comparisons if c.kind == "interaction")
    main = next(c.change for c in plan.comparisons if c.kind == "main")
    document = kept(plan)
    stamps = Stamps(Snapshot(tmp_path))
    ended = [names[-1, -1, -1], *(variant for levels, variant in names.items() if levels.count(1) == 1)]
    found = {variant: _Known(at) for at, variant in enumerate(ended)}
    stamps.__dict__["_results"] = found
    assert stamps._known(document, compared_by(document, claim(of=main))) is not None
    assert stamps._known(document, compared_by(document, claim(of=interaction))) is None
    stamps.__dict__["_results"] = {variant: _Known(at) for at, variant in enumerate(names.values())}
    assert stamps._known(document, compared_by(document, claim(of=interaction))).at == len(names) - 1


class _Known:
    def __init__(self, at):
        self.at, self.space = float(at), "here"


def test_the_first_attempt_counts_also_after_another(tmp_path, monkeypatch):
    """Training everything again after a claim does not make it early."""
    first = Ran(day=1)
    carry_out(tmp_path, [first], monkeypatch)
    monkeypatch.setattr("time.time", lambda: day(5))
    with opened(tmp_path) as results:
        results.begin_anew(first.plan.trials)
    summary = carry_out(tmp_path, [Ran(day=6, claims=[HOT])], monkeypatch)
    (expected,) = summary.expectations
    assert min(ending.ended for ending in Snapshot(tmp_path).endings.values()) > day(6)
    assert (expected.stamp.stamped, expected.stamp.known_at < day(2)) == ("after results", True)


def test_a_plan_without_a_date_states_nothing(tmp_path, monkeypatch):
    carry_out(tmp_path, [Ran(day=1, claims=[HOT])], monkeypatch)
    now = Snapshot(tmp_path)
    (plan,) = now.plans.of_space["heat"]
    (dated,) = Stamps(now).of(plan.document)
    now.plans = replace(now.plans, of_space={"heat": (replace(plan, first_seen=None),)})
    (undated,) = Stamps(now).of(plan.document)
    assert (dated.stamped, dated.plan) == ("before results", plan.id)
    assert (undated.stamped, undated.at, undated.plan) == ("after results", None, "")


def test_sql_says_what_the_screen_says(tmp_path, monkeypatch):
    runs = [Ran(day=1, claims=[HOT]), Ran(day=2, claims=[HOT, claim("equivalent", of="cold")], seeds=4)]
    summary = carry_out(tmp_path, runs, monkeypatch)
    statement = (
        "SELECT position, about, metric, expected, verdict, outcome, stamped, stated_at, stated_plan, stated_space,"
        " known_at, known_in, changes, was FROM claims WHERE current ORDER BY position"
    )
    for row, told in zip(query(tmp_path, statement).rows, summary.expectations, strict=True):
        stamp = told.stamp
        assert row[1:6] == (told.of, told.metric, list(told.verdicts), told.effect.verdict, told.outcome)
        seen = (stamp.stamped, stamp.at, stamp.plan, stamp.space, stamp.known_at, stamp.known_in)
        assert row[6:] == (*seen, list(stamp.changes), list(stamp.was))
    early, late = summary.expectations
    assert (early.stamp.stamped, late.stamp.stamped) == ("before results", "after results")
    assert early.stamp.changes == ("seeds: 3 → 4",)
    assert query(tmp_path, "SELECT count(*) FROM claims WHERE NOT current").rows == ((1,),)


@pytest.mark.full
def test_a_plan_is_kept_with_its_date_before_any_of_its_trials_begins(tmp_path):
    space = write_world(tmp_path, steps=4)
    claims = (
        "expect: [{claim: it is better, of: op, metric: eval_loss, verdict: better}, {claim: as forecast,"
        " correlation: forecast.gradient, metric: eval_loss, verdict: positive}]"
    )
    space.write_text(space.read_text().replace("scale: log}}}", "scale: log}}, " + claims + "}"))
    run = ablate.run(ablate.load_space(space), results=tmp_path / "results", mirror=False, executor="inline")
    now = Snapshot(tmp_path / "results")
    (plan,) = now.plans.of_space["tiny"]
    assert len(now.endings) == 8
    assert plan.first_seen < min(ending.began for ending in now.endings.values())
    for expected in run.summary.expectations:
        assert (expected.stamp.stamped, expected.stamp.plan) == ("before results", plan.id)
    correlation = run.summary.expectations[1].correlation
    assert (correlation.n, correlation.rows, correlation.note) == (2, 4, "")
    page = report(ablate.load_space(space), results=tmp_path / "results")
    assert f"(plan {plan.id[:8]})" in page.markdown.read_text(encoding="utf-8")
    assert page.summary.expectations[1].correlation == correlation
    answers = {check.check: check.answer for check in verify(tmp_path / "results").checks}
    assert "wrong" not in answers.values() and answers["verdicts"] == "right"
