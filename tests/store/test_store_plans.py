"""Rows belong to a plan: two spaces, or one space asked with two settings, never hide each other."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import duckdb
import pytest
from attacks import flip
from store_fixtures import DOCUMENTS, contents, course, fill, number, opened, plan, trial
from test_store_verdicts import RULES
from typer.testing import CliRunner

from ablate.cli.app import app
from ablate.session.judging import document
from ablate.store import checksummed_lines, ledger, serialise, verdicts
from ablate.store.cookbook import find
from ablate.store.query import query
from ablate.store.repair import from_database, repair
from ablate.store.trial_status import plan_counts
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
        results.record_verdicts(document(summary, asked))
        results.refresh()
    return serialise.plan_id(asked.space, asked=serialise.digest(dict(documents.resolved)))


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
    resolved = checksummed_lines.compact(OTHER.resolved)
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


def test_a_plan_that_grows_stays_one(tmp_path):
    with opened(tmp_path) as results:
        for seeds in ((0,), (0, 1)):
            results.record_plan(replace(plan(seeds), open=len(seeds) == 1), DOCUMENTS)
            results.refresh()
    assert ask(tmp_path, "SELECT seeds, trials, open FROM plans") == (([0, 1], 6, False),)
    assert plan_counts(tmp_path) == {"small": 1}
    kinds = [record[0] for record in checksummed_lines.read(tmp_path / ledger.PLANS).records]
    assert (kinds.count("plan"), kinds.count("seen")) == (2, 1)


def test_a_plan_is_kept_whole_with_when_it_was_first_seen(tmp_path):
    before = time.time()
    fill(tmp_path)
    ((text, digest, variants, trials, seen),) = ask(
        tmp_path, "SELECT document, plan_digest, variants, trials, first_seen FROM plans"
    )
    kept = ledger.kept_plans(checksummed_lines.read(tmp_path / ledger.PLANS)).plans["small"]
    assert (digest, json.loads(text)) == (kept[0], dict(kept[1])) and text == ledger.text_of(kept[1])
    assert serialise.digest(json.loads(text)) == digest
    assert (variants, trials) == (3, 6) and before <= seen <= time.time()


@pytest.mark.full
def test_every_plan_of_a_lost_record_comes_back(twice):
    folder, first, second = twice
    before = contents(folder, but=("timings", "costs"))
    (folder / ledger.PLANS).unlink()
    found = from_database.records(folder, [], ["small"])
    assert [serialise.plan_id("small", asked=serialise.digest(plan["resolved"])) for _, _, plan in found] == [
        first,
        second,
    ]
    with opened(folder, say=lambda said: None) as results:
        results.refresh()
    after = contents(folder, but=("timings", "costs"))
    assert {name: after[name] for name in ("judged", "plan_trials")} == {
        name: before[name] for name in ("judged", "plan_trials")
    }


def without(path, *lost):
    """Take the lines out whose records begin so."""
    begin = tuple(checksummed_lines.compact(list(words))[:-1].encode() for words in lost)
    bodies = checksummed_lines.read(path).bodies
    left = [body for body in bodies if not body.startswith(begin)]
    path.write_bytes(b"".join(map(checksummed_lines.framed, left)))
    assert len(left) < len(bodies)


def harmed(path, number):
    """Change a bit in the middle of a line."""
    ends = (0, *checksummed_lines.read(path).ends)
    flip(path, (ends[number - 1] + ends[number]) // 2)


def digest_of(folder, plan_id):
    ((digest,),) = ask(folder, f"SELECT plan_digest FROM plans WHERE plan = '{plan_id}'")
    return digest


@pytest.mark.full
@pytest.mark.parametrize("harm", ["gone", "damaged"])
@pytest.mark.parametrize("by", ["doctor", "a run"])
def test_an_earlier_plan_that_the_journal_has_lost_comes_back_as_an_earlier_one(twice, harm, by):
    folder, first, second = twice
    path, before, said = folder / ledger.PLANS, contents(folder, but=("timings", "costs")), []
    digest = digest_of(folder, first)
    if harm == "gone":
        without(path, ["plan", digest])
    else:
        (number,) = (number for number, _, other in ledger.plan_lines(checksummed_lines.read(path)) if other == digest)
        harmed(path, number)
    if by == "doctor":
        (found,) = (f for f in repair(folder, dry_run=True).findings if f.kind == "specification")
        assert (found.what, found.remedy) == ("lacks an earlier plan of small", "recovered from ablate.duckdb")
        done = repair(folder, dry_run=False, say=said.append)
        assert (done.exit_code, done.left, said) == (0, (), [])
        assert {found.severity for found in done.findings} == {"repaired"}
        assert not [found for found in done.findings if found.kind == "database"]
    else:
        with opened(folder, say=said.append) as results:
            results.refresh()
        assert said[-1] == f"{path} lacked 1 plan; recovered from ablate.duckdb"
    known = ledger.kept_plans(checksummed_lines.read(path))
    assert list(known.every("small")) == [first, second] and known.first_seen.keys() == {first, second}
    assert contents(folder, but=("timings", "costs")) == before


@pytest.mark.full
def test_the_last_plan_comes_back_as_the_last_though_an_earlier_one_is_there(twice):
    folder, first, second = twice
    path, before = folder / ledger.PLANS, contents(folder, but=("timings", "costs"))
    without(path, ["plan", digest_of(folder, second)])
    (found,) = (f for f in repair(folder, dry_run=True).findings if f.kind == "specification")
    assert found.what == "lacks the plan of small"
    assert repair(folder, dry_run=False).exit_code == 0
    assert list(ledger.kept_plans(checksummed_lines.read(path)).every("small")) == [first, second]
    assert contents(folder, but=("timings", "costs")) == before


@pytest.mark.full
def test_a_plan_that_was_asked_since_stays_the_last_when_lost_ones_come_back(twice):
    folder, first, second = twice
    third = replace(DOCUMENTS, resolved={"space": "small", "seeds": [5]})
    digests = [digest_of(folder, first), digest_of(folder, second)]
    with opened(folder) as results:
        results.record_plan(plan((0,)), third)
    without(folder / ledger.PLANS, *(["plan", digest] for digest in digests))
    (found,) = (f for f in repair(folder, dry_run=True).findings if f.kind == "specification")
    assert found.what == "lacks 2 earlier plans of small"
    assert repair(folder, dry_run=False).exit_code == 0
    every = ledger.kept_plans(checksummed_lines.read(folder / ledger.PLANS)).every("small")
    assert set(every) > {first, second} and list(every)[-1] not in (first, second)
    assert ask(folder, "SELECT resolved FROM spaces") == ((checksummed_lines.compact(third.resolved),),)


@pytest.mark.full
def test_a_plan_that_had_grown_comes_back_whole(tmp_path):
    with opened(tmp_path) as results:
        for seeds in ((0,), (0, 1)):
            results.record_plan(replace(plan(seeds), open=len(seeds) == 1), DOCUMENTS)
        results.refresh()
    ((digest,),) = ask(tmp_path, "SELECT plan_digest FROM plans")
    without(tmp_path / ledger.PLANS, ["plan", digest])
    assert repair(tmp_path, dry_run=False).exit_code == 0
    assert ask(tmp_path, "SELECT seeds, plan_digest FROM plans") == (([0, 1], digest),)


@pytest.mark.full
def test_a_lost_plan_that_the_database_has_otherwise_than_it_was_kept_is_said_to_be_lost(twice):
    folder, first, _ = twice
    digest = digest_of(folder, first)
    without(folder / ledger.PLANS, ["plan", digest])
    with duckdb.connect(folder / "ablate.duckdb") as connection:
        connection.execute(f"UPDATE plans SET document = '{{}}' WHERE plan = '{first}'")
    (found,) = (f for f in repair(folder, dry_run=True).findings if f.kind == "specification")
    assert found.severity == "lost" and "ablate.duckdb has a different text of it" in found.what
    assert "comes back when small is run with the settings of that plan" in found.remedy
    assert repair(folder, dry_run=False, say=lambda said: None).exit_code == 1


@pytest.mark.full
@pytest.mark.parametrize("harm", ["gone", "damaged", "all"])
def test_when_a_plan_was_first_asked_comes_back(twice, harm):
    folder, *_ = twice
    path, seen = folder / ledger.PLANS, ask(folder, "SELECT plan, first_seen FROM plans ORDER BY plan")
    kinds = [record[0] for record in checksummed_lines.read(path).records]
    if harm == "gone":
        without(path, ["seen"])
    elif harm == "all":
        path.unlink()
    else:
        harmed(path, kinds.index("seen") + 1)
    done = repair(folder, dry_run=False)
    assert (done.exit_code, {found.severity for found in done.findings}) == (0, {"repaired"})
    assert not [found for found in done.findings if found.kind == "database"]
    assert tuple(sorted(ledger.kept_plans(checksummed_lines.read(path)).first_seen.items())) == seen
    assert ask(folder, "SELECT plan, first_seen FROM plans ORDER BY plan") == seen


@pytest.mark.full
@pytest.mark.parametrize("harm", ["gone", "damaged"])
def test_lost_verdicts_of_an_earlier_plan_are_said_to_be_lost(twice, harm):
    folder, first, second = twice
    path = folder / verdicts.FILE
    if harm == "gone":
        ((mark,),) = ask(folder, "SELECT judged_digest FROM plans WHERE NOT current")
        without(path, ["judged", mark])
    else:
        harmed(path, 1)
    done = repair(folder, dry_run=False, say=lambda said: None)
    assert done.exit_code == 1
    (lost,) = (found for found in done.findings if found.kind == "verdicts")
    assert lost.what == f"no longer has the verdicts of small under an earlier plan, {first}"
    assert "an `ablate run` with the settings of that plan judges it again" in lost.remedy
    assert all(found.severity == "lost" for found in done.findings if found.where == path)
    (database,) = (found for found in done.findings if found.kind == "database")
    assert database.what == "has verdicts of small that are no longer in the journal"
    with duckdb.connect(folder / "damaged" / "ablate.duckdb", read_only=True) as connection:
        kept = connection.execute(f"SELECT count(*) FROM judged WHERE plan = '{first}'").fetchone()
    assert kept == (8,), "what it had is kept"
    assert repair(folder, dry_run=True).to_repair == ()
    run(folder, plan((0, 1)), DOCUMENTS)
    assert set(verdicts.read(folder)["small"]) == {first, second}


@pytest.mark.full
def test_a_run_is_told_of_lost_verdicts_of_an_earlier_plan(twice):
    folder, first, _ = twice
    ((mark,),) = ask(folder, "SELECT judged_digest FROM plans WHERE NOT current")
    without(folder / verdicts.FILE, ["judged", mark])
    said = []
    for _ in range(2):
        with opened(folder, say=said.append) as results:
            results.refresh()
    (told,) = said
    assert f"the verdicts of small under an earlier plan, {first}: an `ablate run`" in told


@pytest.mark.full
def test_a_damaged_line_of_verdicts_that_were_judged_since_loses_nothing(twice):
    folder, *_ = twice
    path = folder / verdicts.FILE
    records = checksummed_lines.read(path).records
    older = ["judged", "0" * 16, {**records[0][2], "confidence": 0.9}]
    path.write_bytes(b"".join(map(checksummed_lines.encode, [older, *records])))
    harmed(path, 1)
    (found,) = repair(folder, dry_run=True).findings
    assert found.severity == "repaired" and "the latest verdicts of every plan are in other lines" in found.remedy
    (folder / "ablate.duckdb").unlink()
    (found,) = (found for found in repair(folder, dry_run=True).findings if found.where == path)
    assert found.severity == "lost" and "is not known" in found.remedy, "nobody says what stood there"


@pytest.mark.full
def test_plans_of_an_earlier_version_are_read_without_their_time(twice):
    folder, first, second = twice
    path = folder / ledger.PLANS
    records = [record for record in checksummed_lines.read(path).records if record[0] != "seen"]
    path.write_bytes(b"".join(map(checksummed_lines.encode, records)))
    (folder / "ablate.duckdb").unlink()
    assert ask(folder, "SELECT plan, current, first_seen FROM plans ORDER BY current") == (
        (first, False, None),
        (second, True, None),
    )


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
    answer = query(folder, find("plans").sql, parameters={"space": None})
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
    answer = query(folder, find("plans").sql, parameters={"space": "small"})
    assert [row[-1] for row in answer.rows] == [None, "recipe.lr: 0.5 (now not there), seeds[2]: 2 (now not there)"]


@pytest.mark.full
def test_plans_say_of_every_setting_that_differs_what_it_was_and_is(tmp_path):
    first = {"space": "small", "seeds": [0, 1], "recipe": {"lr": 0.1, "clip": None, "warm": []}, "note": {}}
    last = {"space": "small", "seeds": [0], "recipe": {"lr": 0.5, "clip": 1.0, "warm": [3]}, "note": "it's so"}
    for resolved in (first, last):
        run(tmp_path, plan((0, 1)), replace(DOCUMENTS, resolved=resolved))
    answer = query(tmp_path, find("plans").sql, parameters={"space": None})
    assert [row[-1] for row in answer.rows] == [
        None,
        'note: {} (now "it\'s so"), recipe.clip: null (now 1.0), recipe.lr: 0.1 (now 0.5), '
        "recipe.warm: [] (now not there), recipe.warm[0]: not there (now 3), seeds[1]: 1 (now not there)",
    ]


@pytest.mark.full
def test_columns(tmp_path):
    """The query of the cookbook: tables, views and columns with what they mean, also while a run is writing."""
    fill(tmp_path)
    found = find("columns")
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
