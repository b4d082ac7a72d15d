"""Rows belong to a plan: two spaces, or one space asked with two settings, never hide each other."""

from __future__ import annotations

import time
from dataclasses import replace

import duckdb
import pytest
from store_fixtures import DOCUMENTS, contents, course, fill, number, opened, plan, trial
from test_store_verdicts import RULES
from typer.testing import CliRunner

from ablate.cli.app import app
from ablate.session.judging import verdict_document
from ablate.store import durable, files
from ablate.store.documents import digest, plan_document, plan_id, trial_document
from ablate.store.projection import DATABASE
from ablate.store.query import cookbook_query, query
from ablate.store.records import packed, unpacked
from ablate.store.repair import repair
from ablate.store.snapshot import Snapshot
from ablate.verdict.judge import judge

OTHER = replace(DOCUMENTS, resolved={"space": "small", "seeds": [0, 1, 2], "recipe": {"lr": 0.5}})
"""The same space as it is resolved with other settings."""


def ask(folder, statement, *, say=None):
    """Rows; what is said is an error unless the test takes it."""
    said = []
    rows = query(folder, statement, say=said.append if say is None else say).rows
    assert say is not None or not said, said
    return rows


def run(folder, asked, documents):
    """Run a plan, judge it and keep all of it; its id."""
    with opened(folder) as results:
        results.record_plan(asked, documents)
        known = results.outcomes()
        for one in asked.trials:
            if one.id not in known:
                results.begin(one)
                results.append(one.id, course(one.id))
        results.refresh()
        summary = judge(asked, RULES, results.finals([one.id for one in asked.trials]))
        results.record_judgement(asked.space, verdict_document(summary, asked), [])
        results.refresh()
    return plan_id(asked.space, asked=digest(dict(documents.resolved)))


@pytest.fixture
def twice(tmp_path):
    """One space asked with two settings: the seeds 0 and 1, then 1 and 2, so that the trials of seed 1 are shared."""
    first = run(tmp_path, plan((0, 1)), DOCUMENTS)
    second = run(tmp_path, plan((1, 2)), OTHER)
    return tmp_path, first, second


@pytest.mark.full
def test_two_runs_of_a_space_with_other_settings_hide_nothing_of_each_other(twice):
    folder, first, second = twice
    seen = ask(folder, "SELECT plan, current, count(*), min(seed), max(seed) FROM final GROUP BY ALL ORDER BY current")
    assert seen == ((first, False, 6, 0, 1), (second, True, 6, 1, 2))
    shared = ask(folder, "SELECT plan FROM final WHERE trial_id = 'a10001' ORDER BY current")
    assert shared == ((first,), (second,)), "a trial that both ask for has a row in each"
    for id, seeds in ((first, (0, 1)), (second, (1, 2))):
        losses = [number(f"b2{seed:04x}", 40, "eval_loss") for seed in seeds]
        ((n, mean),) = ask(
            folder, f"SELECT n, eval_loss_mean FROM leaderboard WHERE plan = '{id}' AND variant = 'half'"
        )
        assert (n, mean) == (2, pytest.approx(sum(losses) / 2, rel=1e-12))
        for view, rows in (("pairs", 4), ("edit_pairs", 4), ("edits", 2), ("costs", 3), ("standings", 1)):
            assert ask(folder, f"SELECT count(*) FROM {view} WHERE plan = '{id}'") == ((rows,),), view
        assert ask(folder, f"SELECT max(n) FROM curves WHERE plan = '{id}'") == ((2,),)


@pytest.mark.full
def test_both_have_their_verdicts(twice):
    folder, first, second = twice
    for view in ("judged", "effects", "verdicts"):
        found = ask(folder, f"SELECT plan, current, count(*) FROM {view} GROUP BY ALL ORDER BY current")
        assert found == ((first, False, 8), (second, True, 8)), view
    estimates = "SELECT estimate FROM effects WHERE {} AND change = '+qk_norm' AND metric = 'eval_loss'"
    loss = {id: number(id, 40, "eval_loss") for id in ("a10001", "b20001", "a10002", "b20002")}
    ((estimate,),) = ask(folder, estimates.format("current"))
    assert estimate == pytest.approx((loss["b20001"] - loss["a10001"] + loss["b20002"] - loss["a10002"]) / 2)
    assert ask(folder, estimates.format("NOT current")) != ((estimate,),)


@pytest.mark.full
def test_what_is_of_a_space_is_of_the_plan_that_it_was_last_asked_as(twice):
    folder, _, second = twice
    resolved = durable.compact(OTHER.resolved)
    assert ask(folder, "SELECT plan, seeds, resolved FROM spaces") == ((second, [1, 2], resolved),)
    joined = "FROM memberships m JOIN variants v USING (space, variant_id) JOIN spaces s USING (space)"
    assert ask(folder, f"SELECT count(*), count(DISTINCT trial_id) {joined} WHERE s.space = 'small'") == ((6, 6),)
    for view, rows in (("comparisons", 4), ("proposals", 2), ("definitions", 1)):
        assert ask(folder, f"SELECT count(*) FROM {view}") == ((rows,),), view
        assert ask(folder, f"SELECT count(*) FROM plan_{view}") == ((2 * rows,),), view


@pytest.mark.full
def test_two_spaces_with_a_shared_trial_have_it_both(tmp_path):
    run(tmp_path, plan((0, 1)), DOCUMENTS)
    run(tmp_path, plan((1,), space="other"), replace(DOCUMENTS, resolved={"space": "other"}))
    seen = ask(tmp_path, "SELECT space, count(*) FROM final WHERE current GROUP BY ALL ORDER BY ALL")
    assert (
        seen
        == (("other", 3), ("small", 6))
        == ask(tmp_path, "SELECT space, count(*) FROM final GROUP BY ALL ORDER BY ALL")
    )
    assert ask(tmp_path, "SELECT space FROM leaderboard WHERE variant = 'op' ORDER BY ALL") == (("other",), ("small",))
    assert ask(tmp_path, "SELECT count(*) FROM plans WHERE current") == ((2,),)


@pytest.mark.full
def test_asked_again_as_before_it_is_the_same_plan_and_the_current_one(twice):
    folder, first, second = twice
    run(folder, plan((0, 1)), DOCUMENTS)
    assert ask(folder, "SELECT plan, current FROM plans ORDER BY first_seen") == ((first, True), (second, False))
    assert ask(folder, "SELECT DISTINCT plan FROM verdicts WHERE current") == ((first,),)


def grown(folder):
    """A plan that is asked for with one seed, then with two; the bytes of its first file, by name."""
    with opened(folder) as results:
        results.record_plan(replace(plan((0,)), open=True), DOCUMENTS)
        (name,) = files.names(folder, "plans")
        before = {name: (folder / name).read_bytes()}
        results.record_plan(plan((0, 1)), DOCUMENTS)
        results.refresh()
    return before


def test_a_plan_that_grows_stays_one(tmp_path):
    (before,) = grown(tmp_path)
    assert ask(tmp_path, "SELECT seeds, trials, open FROM plans") == (([0, 1], 6, False),)
    assert {space: len(plans) for space, plans in Snapshot(tmp_path).plans.of_space.items()} == {"small": 1}
    (name,) = files.names(tmp_path, "plans")
    assert name != before and name.partition(".")[0] == before.partition(".")[0]
    assert [one for one in files.read_witness(tmp_path).written if one.startswith("plans/")] == [name]


@pytest.mark.parametrize("by", ["doctor", "a run"])
def test_a_run_killed_before_it_deletes_what_a_plan_has_grown_from_leaves_one_plan(tmp_path, by):
    ((name, content),) = grown(tmp_path).items()
    (now,) = files.names(tmp_path, "plans")
    (tmp_path / name).write_bytes(content)
    found = Snapshot(tmp_path)
    assert (found.plans.current("small").file, found.replaced, found.unlisted, found.lost) == (now, (name,), (), {})
    if by == "doctor":
        assert repair(tmp_path, dry_run=False).exit_code == 0
    else:
        with opened(tmp_path):
            pass
    assert files.names(tmp_path, "plans") == [now]


def test_a_plan_is_kept_whole_with_when_it_was_first_seen(tmp_path):
    before = time.time()
    fill(tmp_path)
    ((id, variants, trials, seen),) = ask(tmp_path, "SELECT plan, variants, trials, first_seen FROM plans")
    kept = Snapshot(tmp_path).plans.current("small")
    told = plan_document(plan(), DOCUMENTS)
    assert kept.digest == digest(told) and kept.document["source"] == DOCUMENTS.source
    assert (id, variants, trials, seen) == (kept.id, 3, 6, kept.first_seen) and before <= seen <= time.time()


def test_what_a_trial_was_specified_as_is_read_as_it_was_written(tmp_path):
    """From its plan, where each value is written once, and from its own file, for a trial of no plan that is left."""
    fill(tmp_path)
    told = {one.id: durable.compact(trial_document(one)) for one in plan().trials}
    found = Snapshot(tmp_path)
    assert {id: durable.compact(one) for id, one in found.plans.specifications.items()} == told
    (tmp_path / found.plans.current("small").file).unlink()
    assert {id: durable.compact(Snapshot(tmp_path).specification(id)) for id in told} == told
    assert Snapshot(tmp_path).specification("nowhere") == {}


def test_what_one_specification_has_and_another_lacks_stays_so():
    told = [{"trial": "a", "x": [1], "y": None}, {"trial": "b", "y": 0.5}, {"trial": "c", "x": [1], "y": 1.0}]
    kept = packed(told)
    assert kept["values"]["x"] == [[1]]
    assert list(unpacked(kept)) == [(one["trial"], one) for one in told]
    assert list(unpacked(packed([]))) == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize("harm", [None, b"", b"{}"], ids=["gone", "emptied", "changed"])
@pytest.mark.parametrize("by", ["doctor", "a run"])
@pytest.mark.parametrize("which", ["first", "last", "both"])
def test_a_lost_plan_comes_back_from_the_database_in_its_place(twice, which, by, harm):
    folder, first, second = twice
    before, said = contents(folder, but=("timings", "costs")), []
    plans = Snapshot(folder).plans.of_space["small"]
    assert [one.id for one in plans] == [first, second]
    lost = [folder / one.file for one in {"first": plans[:1], "last": plans[1:], "both": plans}[which]]
    for path in lost:
        path.unlink() if harm is None else path.write_bytes(harm)
    if by == "doctor":
        found = repair(folder, dry_run=True).to_repair
        assert {(one.kind, one.where) for one in found} == {("specification", path) for path in lost}
        done = repair(folder, dry_run=False, say=said.append)
        assert (done.exit_code, done.left, said) == (0, (), [])
    else:
        with opened(folder, say=said.append) as results:
            results.refresh()
        assert len(said) == len(lost) and all(told.endswith("recovered from ablate.duckdb") for told in said)
    assert Snapshot(folder).plans.of_space["small"] == plans
    assert contents(folder, but=("timings", "costs")) == before


@pytest.mark.full
def test_a_lost_plan_that_the_database_has_otherwise_than_it_was_kept_is_said_to_be_lost_once(twice):
    folder, first, _ = twice
    name = Snapshot(folder).plans.of_space["small"][0].file
    (folder / name).unlink()
    with duckdb.connect(folder / DATABASE) as connection:
        connection.execute(f"UPDATE files SET content = '{{}}'::BLOB WHERE name = '{name}'")
    done = repair(folder, dry_run=False, say=lambda said: None)
    assert [(found.kind, found.what) for found in done.lost] == [("specification", "is gone")] and done.exit_code == 1
    assert done.lost[0].remedy == "the next `ablate run` of its space brings it back"
    assert repair(folder, dry_run=True).lost == ()
    run(folder, plan((0, 1)), DOCUMENTS)
    assert Snapshot(folder).plans.current("small").id == first


@pytest.mark.full
@pytest.mark.parametrize("by", ["doctor", "a run"])
def test_lost_verdicts_of_an_earlier_plan_are_said_to_be_lost_once(twice, by):
    folder, first, second = twice
    name, said = Snapshot(folder).verdicts[first].name, []
    for path in (name, DATABASE):
        (folder / path).unlink()
    if by == "doctor":
        done = repair(folder, dry_run=False, say=pytest.fail)
        (lost,) = done.lost
        assert (done.exit_code, lost.kind, lost.where) == (1, "verdicts", folder / name)
        assert "the next `ablate run` of its space, or `ablate judge` of its table, judges it again" in lost.remedy
    else:
        with opened(folder, say=said.append) as results:
            results.refresh()
        assert said[0].startswith(f"lost: {name} is gone; ")
    assert repair(folder, dry_run=True).exit_code == 0
    run(folder, plan((0, 1)), DOCUMENTS)
    assert Snapshot(folder).verdicts.keys() == {first, second}


@pytest.mark.full
def test_a_plan_asked_while_no_one_looked_is_seen_afterwards(twice):
    """The latest plan is as the database has it; what came between is new all the same."""
    folder, _, second = twice
    third = replace(DOCUMENTS, resolved={"space": "small", "seeds": [5]})
    with opened(folder) as results:
        results.record_plan(plan((0,)), third)
        results.record_plan(plan((1, 2)), OTHER)
        results.refresh()
    assert ask(folder, "SELECT count(*), count(*) FILTER (current) FROM plans") == ((3, 1),)
    assert ask(folder, "SELECT plan FROM plans WHERE current") == ((second,),)
    with opened(folder) as results:
        assert not results.refresh()


@pytest.mark.full
def test_sql_that_does_not_tell_plans_apart_is_told_that_there_are_several(twice):
    folder, *_ = twice
    said = []
    for quiet in ("SELECT * FROM final WHERE current", "SELECT plan FROM verdicts", "FROM variants", "FROM metrics"):
        ask(folder, quiet, say=said.append)
    assert said == []
    ask(folder, "SELECT * FROM Leaderboard", say=said.append)
    (told,) = said
    assert told.startswith("space small has 2 plans") and "WHERE current" in told


def test_one_plan_says_nothing(tmp_path):
    fill(tmp_path)
    assert len(ask(tmp_path, "FROM leaderboard")) == 3


@pytest.mark.full
def test_status_says_how_many_plans_there_are(twice, tmp_path_factory):
    folder, *_ = twice
    said = CliRunner().invoke(app, ["status", "--results", str(folder)], catch_exceptions=False)
    assert "small was run as 2 plans; the last is shown: `ablate sql @plans` lists all" in said.output
    other = tmp_path_factory.mktemp("one")
    fill(other)
    assert "plans" not in CliRunner().invoke(app, ["status", "--results", str(other)]).output


@pytest.mark.full
def test_plans(twice):
    """The query of the cookbook: what each has otherwise than the last, and what the last has there."""
    folder, first, second = twice
    answer = query(folder, cookbook_query("plans").sql, parameters={"space": None})
    rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
    assert [(row["plan"], row["current"], row["trials"], row["ended"], row["judged"]) for row in rows] == [
        (second, True, 6, 6, True),
        (first, False, 6, 6, True),
    ]
    assert [row["otherwise"] for row in rows] == [
        None,
        "recipe.lr: not there (now 0.5), seeds[2]: not there (now 2)",
    ]
    run(folder, plan((0, 1)), DOCUMENTS)
    answer = query(folder, cookbook_query("plans").sql, parameters={"space": "small"})
    assert [row[-1] for row in answer.rows] == [None, "recipe.lr: 0.5 (now not there), seeds[2]: 2 (now not there)"]


@pytest.mark.full
def test_plans_say_of_every_setting_that_differs_what_it_was_and_is(tmp_path):
    first = {"space": "small", "seeds": [0, 1], "recipe": {"lr": 0.1, "clip": None, "warm": []}, "note": {}}
    last = {"space": "small", "seeds": [0], "recipe": {"lr": 0.5, "clip": 1.0, "warm": [3]}, "note": "it's so"}
    for resolved in (first, last):
        run(tmp_path, plan((0, 1)), replace(DOCUMENTS, resolved=resolved))
    answer = query(tmp_path, cookbook_query("plans").sql, parameters={"space": None})
    assert [row[-1] for row in answer.rows] == [
        None,
        'note: {} (now "it\'s so"), recipe.clip: null (now 1.0), recipe.lr: 0.1 (now 0.5), '
        "recipe.warm: [] (now not there), recipe.warm[0]: not there (now 3), seeds[1]: 1 (now not there)",
    ]


@pytest.mark.full
def test_columns(tmp_path):
    """The query of the cookbook: tables, views and columns with what they mean, also while a run is writing."""
    fill(tmp_path)
    found = cookbook_query("columns")
    stored = query(tmp_path, found.sql, parameters=found.given({})).rows
    with opened(tmp_path) as results:
        results.begin(trial(id="new"))
        assert query(tmp_path, found.sql, parameters=found.given({})).rows == stored
    assert all(meaning for *_, meaning in stored) and len({row[:2] for row in stored}) == len(stored)
    with duckdb.connect(tmp_path / "ablate.duckdb", read_only=True) as connection:
        ((columns,),) = connection.execute("SELECT count(*) FROM duckdb_columns() WHERE NOT internal").fetchall()
    assert len([row for row in stored if row[1]]) == columns
    ours = query(tmp_path, found.sql, parameters=found.given({"table": "final"})).rows
    assert ours[0][:2] == ("final", None) and ours[1][:2] == ("final", "space")


def test_a_driver_killed_between_a_grown_plan_and_the_witness_has_lost_none(tmp_path, monkeypatch):
    """The later file is there and not listed: the next driver deletes the earlier one, and grows the plan further."""
    grown = [plan(seeds=(*range(n),)) for n in (1, 2, 3)]
    with opened(tmp_path) as results:
        results.record_plan(grown[0], DOCUMENTS)
    with opened(tmp_path) as results, monkeypatch.context() as patch:
        patch.setattr(files, "bear_witness", killed)
        with pytest.raises(Killed):
            results.record_plan(grown[1], DOCUMENTS)
    assert len(files.names(tmp_path, "plans")) == 2
    with opened(tmp_path) as results:
        results.record_plan(grown[2], DOCUMENTS)
    now = Snapshot(tmp_path)
    assert (len(files.names(tmp_path, "plans")), now.lost, now.unlisted) == (1, {}, ())


class Killed(BaseException):
    """The end of a process, as far as what it had not yet done is concerned."""


def killed(*_: object, **__: object) -> None:
    raise Killed
