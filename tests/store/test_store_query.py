"""SQL sees what runs, changes nothing, reaches nothing, and says what is wrong with it."""

from __future__ import annotations

import pytest
from store_fixtures import DOCUMENTS, contents, course, fill, number, opened, plan, rows_at, trial

from ablate.errors import InputError, RefusedError
from ablate.store import open_trial
from ablate.store.query import query
from ablate.train.events import Outcome, Row


@pytest.fixture
def running(tmp_path):
    """One space done and refreshed; of a second, one trial sealed since, one running, the rest to come."""
    fill(tmp_path)
    with opened(tmp_path) as results:
        results.record_plan(plan(seeds=(0, 1, 2), space="wider"), DOCUMENTS)
        results.begin(trial(seed=2))
        results.append("a10002", course("a10002"))
        results.begin(trial("b2", 2))
        results.append("b20002", rows_at("b20002", 0))
        yield tmp_path, results


@pytest.mark.full
def test_trials_that_run_or_were_just_sealed_are_seen(running):
    folder, results = running
    seen = "SELECT trial_id, status, eval_loss FROM final WHERE space = 'wider' AND seed = 2 ORDER BY trial_id"
    assert query(folder, seen).rows == (
        ("a10002", "finished", number("a10002", 40, "eval_loss")),
        ("b20002", "unfinished", None),
        ("c30002", "planned", None),
    )
    live = "SELECT step, value FROM metrics WHERE trial_id = 'b20002' AND metric = 'train_loss' ORDER BY step"
    assert query(folder, live).rows == ((0, number("b20002", 0, "train_loss")),)
    results.append("b20002", rows_at("b20002", 10))
    assert len(query(folder, live).rows) == 2
    old = query(folder, "SELECT count(*) FROM final WHERE space = 'small' AND status = 'finished'")
    assert old.rows == ((5,),), "what the file knows is seen as well"


@pytest.mark.full
def test_seen_while_running_is_what_is_stored_afterwards(running):
    folder, results = running
    results.append("b20002", course("b20002")[len(rows_at("b20002", 0)) :])
    results.begin(trial("c3", 2))
    results.append("c30002", course("c30002"))
    but_clocks = "SELECT COLUMNS(lambda c: c <> 'first_seen')"
    laid_over = {name: query(folder, f"{but_clocks} FROM {name} ORDER BY ALL").rows for name in contents(folder)}
    results.refresh()
    for name, rows in contents(folder).items():
        assert [tuple(map(repr, row)) for row in laid_over[name]] == rows, name


def test_without_a_database_the_journal_is_read(tmp_path):
    fill(tmp_path)
    expected = query(tmp_path, "FROM leaderboard ORDER BY ALL")
    (tmp_path / "ablate.duckdb").unlink()
    assert query(tmp_path, "FROM leaderboard ORDER BY ALL") == expected
    assert not (tmp_path / "ablate.duckdb").exists()


@pytest.mark.full
def test_a_trial_that_is_trained_again_shows_its_new_rows_alone(tmp_path):
    fill(tmp_path)
    rows = "SELECT step, metric, value FROM metrics WHERE trial_id = 'a10000'"
    others = query(tmp_path, "SELECT count(*) FROM metrics WHERE trial_id <> 'a10000'")
    with opened(tmp_path) as results:
        results.begin(trial())
        assert query(tmp_path, rows).rows == ()
        results.append("a10000", [Row(0, "kurtosis", "layers.1", 9.0)])
        assert query(tmp_path, rows).rows == ((0, "kurtosis", 9.0),)
        assert query(tmp_path, "SELECT name, value FROM summaries WHERE trial_id = 'a10000'").rows == (
            ("peak_kurtosis", 9.0),
        )
        assert query(tmp_path, "SELECT count(*) FROM timings WHERE trial_id = 'a10000'").rows == ((0,),)
        assert query(tmp_path, "SELECT count(*) FROM metrics WHERE trial_id <> 'a10000'") == others


@pytest.mark.full
@pytest.mark.parametrize("forgotten", [(), ("plans.jsonl",), ("plans.jsonl", "outcomes.jsonl")])
def test_what_was_deleted_by_hand_is_not_shown(tmp_path, forgotten):
    fill(tmp_path)
    (tmp_path / "trials" / "a10000.parquet").unlink()
    for name in forgotten:
        (tmp_path / name).unlink()
    assert query(tmp_path, "SELECT status FROM trials WHERE trial_id = 'a10000'").rows == (("planned",),)
    assert query(tmp_path, "SELECT count(*) FROM metrics WHERE trial_id = 'a10000'").rows == ((0,),)


def test_a_damaged_sealed_file_is_left_out_and_named(tmp_path):
    fill(tmp_path)
    (tmp_path / "ablate.duckdb").unlink()
    (tmp_path / "trials" / "b20000.parquet").write_bytes(b"PAR1 no more")
    said = []
    answer = query(tmp_path, "SELECT trial_id, status, eval_loss FROM final ORDER BY trial_id", say=said.append)
    assert len(said) == 1 and "trial b20000 is left out" in said[0]
    assert answer.rows == tuple(
        (id, "diverged" if id == "c30001" else "finished", None if id == "c30001" else number(id, 40, "eval_loss"))
        if id != "b20000"
        else (id, "damaged", None)
        for id in sorted(one.id for one in plan().trials)
    )


@pytest.mark.full
def test_values_are_given_by_name(running):
    folder, _ = running
    count = "SELECT count(*) FROM final WHERE $space IS NULL OR space = $space"
    assert query(folder, count, parameters={"space": "small"}).rows == ((6,),)
    assert query(folder, count, parameters={"space": None}).rows == ((15,),)
    with pytest.raises(InputError, match="space"):
        query(folder, count)


def test_a_half_written_line_is_not_seen_and_not_touched(running):
    folder, results = running
    results._open["b20002"].sync()
    path = open_trial.path_of(folder, "b20002")
    whole = path.read_bytes()
    with path.open("ab") as file:
        file.write(b'0badc0de ["row",1,"train_lo')
    assert query(folder, "SELECT max(step) FROM metrics WHERE trial_id = 'b20002'").rows == ((0,),)
    assert path.read_bytes().startswith(whole) and path.stat().st_size > len(whole)


@pytest.mark.sampled(1, gate=6)
@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO metrics VALUES ('a', 0, 'x', '', 1)",
        "DELETE FROM metrics",
        "CREATE TABLE mine AS SELECT 1",
        "DROP VIEW final",
        "SELECT 1; DELETE FROM trials",
        "SET threads = 1",
        "ATTACH '/tmp/other.duckdb'",
        "COPY (SELECT 1) TO '/tmp/stolen.csv'",
    ],
)
def test_sql_cannot_write(running, live, sql):
    folder, results = running
    if not live:
        results.seal("b20002", Outcome("finished", 40))
        results.refresh()
    before = contents(folder)
    with pytest.raises(InputError, match="is not allowed in read-only SQL"):
        query(folder, sql)
    assert contents(folder) == before


@pytest.mark.sampled(1)
@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize("source", ["read_csv('{}')", "read_text('{}')", "'{}'", "read_blob('{}')", "glob('{}*')"])
def test_sql_cannot_read_files(running, live, source):
    folder, results = running
    secret = folder.parent / "secret.csv"
    secret.write_text("a,b\n1,2\n")
    if not live:
        results.seal("b20002", Outcome("finished", 40))
        results.refresh()
    with pytest.raises(InputError, match="SQL: "):
        query(folder, f"SELECT * FROM {source.format(secret)}")


@pytest.mark.full
def test_variables_of_this_process_are_not_tables(running):
    folder, _ = running
    with pytest.raises(InputError, match="running does not exist"):
        query(folder, "SELECT * FROM running")


@pytest.mark.full
def test_a_mistake_is_said_in_duckdbs_words(running):
    folder, _ = running
    with pytest.raises(InputError, match="FROM finals") as mistaken:
        query(folder, "SELECT * FROM finals")
    assert 'Did you mean "final' in str(mistaken.value)
    with pytest.raises(InputError, match="syntax error"):
        query(folder, "SELEC 1")
    with pytest.raises(InputError, match="no SQL statement"):
        query(folder, " ")


def test_a_value_the_sql_has_no_name_for_is_said(tmp_path):
    fill(tmp_path)
    for sql, way_out in (("SELECT 1", "leave the value out"), ("SELECT $seed, $lr", r"it has \$lr, \$seed")):
        with pytest.raises(InputError, match=rf"^this SQL has no \$x\n  = {way_out}$"):
            query(tmp_path, sql, parameters={"x": 1})
    assert query(tmp_path, "SELECT 0; SELECT $X", parameters={"x": 1}).rows == ((1,),)


def test_a_folder_without_results_is_said(tmp_path):
    with pytest.raises(InputError, match=r"no results in .*\n.*--results"):
        query(tmp_path, "SELECT 1")


@pytest.mark.full
def test_comments_are_seen_while_running(running):
    folder, _ = running
    said = (
        "SELECT comment FROM duckdb_columns() WHERE schema_name = 'main' AND table_name = '{}' AND column_name = '{}'"
    )
    for table, column in (("metrics", "address"), ("final", "peak_kurtosis")):
        rows = query(folder, said.format(table, column)).rows
        assert rows and all(comment for (comment,) in rows)


@pytest.mark.full
def test_writing_on_request_lasts_and_needs_the_folder(tmp_path):
    fill(tmp_path)
    query(
        tmp_path,
        "CREATE VIEW mine AS SELECT count(*) AS n FROM final; CREATE TABLE notes AS SELECT 'x' AS note",
        writable=True,
    )
    assert query(tmp_path, "FROM mine").rows == ((6,),)
    with opened(tmp_path) as results:
        with pytest.raises(RefusedError, match="already has it open"):
            query(tmp_path, "DROP VIEW mine", writable=True)
        results.record_plan(plan(seeds=(0, 1, 2)), DOCUMENTS)
        assert query(tmp_path, "FROM mine").rows == ((9,),), "a view of one's own also sees what is not stored yet"
        assert query(tmp_path, "FROM notes").rows == (("x",),)
        results.refresh()
    assert query(tmp_path, "FROM mine").rows == ((9,),)
    with pytest.raises(InputError):
        query(tmp_path, "DROP VIEW mine; SELECT * FROM nowhere", writable=True)
    assert query(tmp_path, "FROM mine").rows == ((9,),), "a failed change changes nothing"
