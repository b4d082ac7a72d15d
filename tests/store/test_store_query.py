"""SQL sees what runs, changes nothing, reaches nothing, and says what is wrong with it."""

from __future__ import annotations

import io

import pytest
from attacks import file_of, half_way
from rich.console import Console
from store_fixtures import DOCUMENTS, contents, course, fill, number, opened, plan, rows_at, trial

from ablate.cli import main
from ablate.errors import InputError, RefusedError
from ablate.report.screens.query import Answered
from ablate.store import journal
from ablate.store.query import ALONE, cookbook_query, query, query_each
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
    but_clocks = "SELECT COLUMNS(lambda c: c NOT IN ('first_seen', 'judged_at'))"
    laid_over = {name: query(folder, f"{but_clocks} FROM {name} ORDER BY ALL").rows for name in contents(folder)}
    results.refresh()
    for name, rows in contents(folder).items():
        assert [tuple(map(repr, row)) for row in laid_over[name]] == rows, name


def test_without_a_database_the_files_are_read(tmp_path):
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
@pytest.mark.parametrize("database", [True, False])
@pytest.mark.parametrize("forgotten", [(), ("plans",), ("plans", "witness")])
def test_of_what_was_deleted_by_hand_no_number_is_shown_and_what_is_known_of_it_is_said(tmp_path, forgotten, database):
    half_way(tmp_path)
    gone = [tmp_path / "trials" / "a10000.parquet", *(file_of(tmp_path, kind) for kind in forgotten)]
    for path in gone if database else (*gone, tmp_path / "ablate.duckdb"):
        path.unlink()
    said = []
    of_trial = "SELECT any_value(status), count(value) FROM trials LEFT JOIN metrics USING (trial_id) GROUP BY trial_id"
    of_trial = f"{of_trial} HAVING trial_id = 'a10000'"
    assert query(tmp_path, of_trial, say=said.append).rows == (("missing", 0),), "the judgement still names it"
    assert "lost: trials/a10000.parquet is gone; `ablate doctor" in said[-1]
    assert len(said) == (2 if forgotten == ("plans",) else 1)


def test_a_damaged_sealed_file_is_left_out_and_named(tmp_path):
    fill(tmp_path)
    (tmp_path / "ablate.duckdb").unlink()
    (tmp_path / "trials" / "b20000.parquet").write_bytes(b"PAR1 no more")
    said = []
    answer = query(tmp_path, "SELECT trial_id, status, eval_loss FROM final ORDER BY trial_id", say=said.append)
    assert len(said) == 1 and "lost: trials/b20000.parquet cannot be read: " in said[0]
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
    path = journal.path_of(folder, "b20002")
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
    ],
)
def test_sql_cannot_write(running, live, sql):
    folder, results = running
    if not live:
        results.seal("b20002", Outcome("finished", 40))
        results.refresh()
    before = contents(folder)
    with pytest.raises(InputError, match=r"is not allowed in read-only SQL\n  = allow it with --write"):
        query_each(folder, sql)
    assert contents(folder) == before


@pytest.mark.parametrize("writable", [False, True])
def test_what_is_never_allowed_is_not_said_to_be_allowed_with_write(tmp_path, writable):
    fill(tmp_path)
    before = contents(tmp_path)
    for kind, sql in (
        ("ATTACH", "ATTACH '/tmp/other.duckdb'"),
        ("ATTACH", "CREATE TABLE mine AS SELECT 1 AS a; ATTACH ':memory:' AS other"),
        ("COPY", "COPY (SELECT 1) TO '/tmp/stolen.csv'"),
        ("COPY", "COPY metrics FROM '/tmp/mine.csv'"),
        ("EXPORT", "EXPORT DATABASE '/tmp/mine'"),
        ("LOAD", "INSTALL httpfs"),
        ("LOAD", "LOAD httpfs"),
        ("SET", "SET threads = 1"),
        ("SET", "PRAGMA threads = 1"),
        ("UPDATE EXTENSIONS", "UPDATE EXTENSIONS"),
    ):
        with pytest.raises(InputError) as refused:
            query_each(tmp_path, sql, writable=writable)
        assert str(refused.value) == f"{kind} is not allowed\n  = {ALONE}"
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE mine AS SELECT 1 AS a; INSERT INTO mine VALUES (2); UPDATE mine SET a = 3; DELETE FROM mine",
        "CREATE TABLE mine (a INTEGER); ALTER TABLE mine ADD COLUMN b INTEGER; DROP TABLE mine; VACUUM; ANALYZE",
        "BEGIN; CREATE MACRO twice(a) AS 2 * a; COMMIT; PREPARE p AS SELECT twice(1); EXECUTE p",
        "MERGE INTO trials USING (SELECT 'a' AS trial_id) one USING (trial_id) WHEN MATCHED THEN DELETE",
    ],
)
def test_what_is_said_to_be_allowed_with_write_is(tmp_path, sql):
    fill(tmp_path)
    with pytest.raises(InputError, match=r"allow it with --write"):
        query_each(tmp_path, sql)
    query_each(tmp_path, sql, writable=True)


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
    answers = query_each(tmp_path, "SELECT 0; SELECT $X; SELECT $x + 1, $y", parameters={"x": 1, "y": "z"})
    assert [answer.rows for answer in answers] == [((0,),), ((1,),), ((2, "z"),)]


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
    query_each(
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
        query_each(tmp_path, "DROP VIEW mine; SELECT * FROM nowhere", writable=True)
    assert query(tmp_path, "FROM mine").rows == ((9,),), "a failed change changes nothing"


def test_each_statement_has_its_result_and_where_one_is_asked_for_several_are_refused(tmp_path):
    fill(tmp_path)
    several = "SELECT 1 AS a; -- between\nSELECT 2 AS b, 3 AS c; PIVOT trials ON seed USING count(*) GROUP BY status;"
    first, second, pivot = query_each(tmp_path, several)
    assert (first.columns, first.rows, second.columns, second.rows) == (("a",), ((1,),), ("b", "c"), ((2, 3),))
    alone = query(tmp_path, several.rpartition("; ")[2])  # in any order
    assert pivot.columns == alone.columns and sorted(pivot.rows) == sorted(alone.rows) != []
    created, read = query_each(tmp_path, "CREATE TABLE mine AS SELECT 4 AS a; FROM mine", writable=True)
    assert created.rows in ((), ((1,),)) and read.rows == ((4,),)
    before = contents(tmp_path)
    for writable, sql in ((False, "SELECT 1; SELECT 2"), (True, "INSERT INTO mine VALUES (5); FROM mine")):
        with pytest.raises(InputError, match=r"^this SQL has 2 statements, and the answer is one table\n  = give one"):
            query(tmp_path, sql, writable=writable)
    assert contents(tmp_path) == before and query(tmp_path, "FROM mine").rows == ((4,),)


@pytest.mark.parametrize("name", ["recipe_differences", "mixed_versions"])
def test_where_all_is_equal_that_is_said_in_place_of_an_empty_table(tmp_path, monkeypatch, capsys, name):
    fill(tmp_path)
    said = cookbook_query(name).no_rows

    def shown(*words):
        monkeypatch.setattr("sys.argv", ["ablate", "sql", f"@{name}", "--results", str(tmp_path), *words])
        with pytest.raises(SystemExit) as left:
            main()
        assert not left.value.code
        return capsys.readouterr().out

    assert shown() == f"{said}\n"
    assert shown("--json") == "[]\n" and shown("--format", "csv").count("\n") == 1
    screen = Console(file=io.StringIO(), width=80)
    screen.print(Answered(("path",), [("recipe.steps",)], no_rows=said))
    assert said not in screen.file.getvalue() and "recipe.steps" in screen.file.getvalue()
