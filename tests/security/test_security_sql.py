"""`ablate sql` reads these results, and with --write changes their database: no other file, no network, no setting."""

from __future__ import annotations

import os
import subprocess
import sys

import duckdb
import pytest
from store_fixtures import DOCUMENTS, course, fill, opened, plan, trial

from ablate import api
from ablate.errors import InputError

SECRET = "the-secret-of-this-file"


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Results that are whole, and others with a trial just sealed, over which a database in memory is laid."""
    world = tmp_path_factory.mktemp("world")
    for name in ("whole", "live"):
        (world / name).mkdir()
        fill(world / name)
    with opened(world / "live") as results:
        results.record_plan(plan(seeds=(0, 1, 2)), DOCUMENTS)
        results.begin(trial(seed=2))
        results.append("a10002", course("a10002"))
    (world / "secret.csv").write_text(f"a\n{SECRET}\n")
    (world / "whole" / "link.csv").symlink_to(world / "secret.csv")
    (world / "live" / "link.csv").symlink_to(world / "secret.csv")
    duckdb.connect(world / "other.duckdb").execute(f"CREATE TABLE t AS SELECT '{SECRET}' AS a").close()
    return world


def files(world):
    """Every file below, with its bytes; those of the databases apart, which a write may change."""
    return {path: path.read_bytes() for path in world.rglob("*") if path.is_file() and path.suffix != ".lock"}


READS = (
    "FROM '{w}/secret.csv'",
    "FROM '/etc/passwd'",
    "FROM read_csv('{w}/secret.csv')",
    "FROM read_csv('{r}/link.csv')",
    "FROM read_csv('/etc/passwd')",
    "FROM read_text('{w}/secret.csv')",
    "FROM read_text('{r}/witness.jsonl')",
    "FROM read_blob('{w}/secret.csv')",
    "FROM read_json('{r}/witness.jsonl')",
    "FROM read_parquet('{r}/trials/*.parquet')",
    "FROM parquet_metadata('{r}/trials/a10000.parquet')",
    "FROM sniff_csv('{w}/secret.csv')",
    "FROM glob('/etc/*')",
    "FROM glob('{w}/*')",
    "FROM read_duckdb('{w}/other.duckdb')",
    "FROM query('FROM read_text(''{w}/secret.csv'')')",
    "FROM query_table('{w}/secret.csv')",
    "FROM read_csv('http://127.0.0.1:1/x.csv')",
    "FROM 'https://example.org/x.parquet'",
    "FROM 's3://bucket/x.parquet'",
    "FROM read_text('/proc/self/environ')",
    "FROM read_csv('/dev/stdin')",
    "FROM duckdb_secrets()",
    "FROM duckdb_extensions()",
    "SELECT getenv('HOME')",
    "FROM sqlite_scan('{w}/other.duckdb', 't')",
    "FROM postgres_scan('host=127.0.0.1', 'a', 'b')",
    "SELECT load_aws_credentials()",
    "CALL start_ui()",
)
WRITES = (
    "COPY (SELECT 1) TO '{w}/out.csv'",
    "COPY metrics TO '{r}/out.parquet'",
    "COPY (SELECT 1) TO '{r}/witness.jsonl'",
    "COPY (SELECT 1) TO '/dev/stdout'",
    "COPY metrics FROM '{w}/secret.csv'",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{w}/out.csv'",
    "EXPORT DATABASE '{w}/exported'",
    "IMPORT DATABASE '{w}'",
    "PRAGMA import_database('{w}')",
    "ATTACH '{w}/other.duckdb' AS other",
    "ATTACH '{w}/new.duckdb' AS other",
    "ATTACH '{w}/other.duckdb' AS other (READ_ONLY); FROM other.t",
    "INSTALL httpfs",
    "LOAD httpfs",
    "LOAD '{w}/x.duckdb_extension'",
    "UPDATE EXTENSIONS",
    "SET enable_external_access = true",
    "SET lock_configuration = false",
    "RESET lock_configuration",
    "SET allowed_directories = ['{w}']",
    "SET temp_directory = '{w}/t'",
    "SET home_directory = '{w}'",
    "SET secret_directory = '{w}'",
    "SET extension_directory = '{w}'",
    "SET custom_extension_repository = 'http://127.0.0.1:1'",
    "SET autoinstall_known_extensions = true",
    "SET allow_unsigned_extensions = true",
    "SET log_query_path = '{w}/queries.log'",
    "SET profiling_output = '{w}/profile.json'",
    "PRAGMA enable_profiling = 'json'",
    "PRAGMA profile_output = '{w}/profile.json'",
    "CALL enable_logging(storage = 'file', storage_path = '{w}/log')",
    "CREATE SECRET s (TYPE s3)",
    "CREATE PERSISTENT SECRET s (TYPE http)",
    "CREATE MACRO m() AS TABLE FROM read_text('{w}/secret.csv'); FROM m()",
    "CREATE VIEW v AS FROM read_csv('{w}/secret.csv')",
)


def refused(world, name, sql, *, writable):
    sql = sql.format(w=world, r=world / name)
    before = files(world)
    with pytest.raises(InputError) as refusal:
        api.ask(sql, results=world / name, writable=writable)
    after = files(world)
    if not writable:
        assert after == before
    assert {path for path in after if path not in before} == set()
    changed = {path for path in before if after[path] != before[path]}
    assert changed <= {world / name / "ablate.duckdb"}
    assert SECRET not in str(refusal.value)
    return str(refusal.value)


@pytest.mark.sampled(4, gate="all")
@pytest.mark.parametrize("sql", READS)
@pytest.mark.parametrize("name", ["whole", "live"])
def test_sql_reads_no_other_file(world, name, sql):
    refused(world, name, sql, writable=False)


@pytest.mark.sampled(4, gate="all")
@pytest.mark.parametrize("sql", WRITES)
@pytest.mark.parametrize("name", ["whole", "live"])
def test_sql_without_write_changes_nothing(world, name, sql):
    refused(world, name, sql, writable=False)


@pytest.mark.sampled(5, gate="all")
@pytest.mark.parametrize("sql", [*READS, *WRITES])
def test_sql_with_write_reaches_no_other_file(world, sql):
    refused(world, "whole", sql, writable=True)


def test_what_is_refused_would_work_elsewhere(world):
    """The twin: DuckDB by itself does what these texts ask for."""
    with duckdb.connect() as connection:
        assert connection.execute(f"FROM read_csv('{world}/secret.csv')").fetchall() == [(SECRET,)]
        assert connection.execute(f"ATTACH '{world}/other.duckdb' AS o (READ_ONLY); FROM o.t").fetchall() == [(SECRET,)]
        connection.execute(f"SET log_query_path = '{world}/../queries.log'")


def test_with_write_the_database_alone_changes(world):
    before = files(world)
    api.ask("CREATE TABLE notes AS SELECT 1 AS a; BEGIN; CHECKPOINT; COMMIT", results=world / "whole", writable=True)
    after = files(world)
    assert {path for path in after if after[path] != before.get(path)} == {world / "whole" / "ablate.duckdb"}
    assert before.keys() == after.keys()
    assert api.ask("FROM notes", results=world / "whole")[0].rows == ((1,),)
    api.ask("DROP TABLE notes", results=world / "whole", writable=True)


def test_a_database_that_is_a_link_is_replaced_and_its_target_stays(tmp_path):
    results = tmp_path / "results"
    results.mkdir()
    fill(results)
    target = tmp_path / "elsewhere.duckdb"
    (results / "ablate.duckdb").rename(target)
    (results / "ablate.duckdb").symlink_to(target)
    before = target.read_bytes()
    api.ask("CREATE TABLE notes AS SELECT 1 AS a", results=results, writable=True)
    assert target.read_bytes() == before
    assert not (results / "ablate.duckdb").is_symlink()


VIEW_OF_A_FILE = "CREATE VIEW theirs AS FROM read_csv('{}/secret.csv')"


@pytest.fixture
def received(tmp_path):
    """Results of somebody else, with views of their own, and with more than their database has."""
    fill(tmp_path)
    (tmp_path / "secret.csv").write_text(f"{SECRET}\nx\n")
    (tmp_path / "gone.csv").write_text("a\n1\n")
    with duckdb.connect(tmp_path / "ablate.duckdb") as connection:
        connection.execute(VIEW_OF_A_FILE.format(tmp_path))
        connection.execute(f"CREATE VIEW stale AS FROM read_csv('{tmp_path}/gone.csv')")
        connection.execute(
            'CREATE VIEW last AS SELECT 1 AS one; CREATE VIEW good AS FROM last; CREATE VIEW "b\x1b[31m" AS FROM stale'
        )
    (tmp_path / "gone.csv").unlink()
    (tmp_path / "secret.csv").write_text("changed\nx\n")
    with opened(tmp_path) as results:
        results.record_plan(plan(seeds=(0, 1, 2)), DOCUMENTS)
        yield tmp_path


@pytest.mark.full
def test_a_view_that_somebody_else_has_stored_reads_no_file(received):
    said = []
    assert api.ask("FROM good", results=received, say=said.append)[0].rows == ((1,),)
    columns = "SELECT column_name FROM duckdb_columns() WHERE table_name = 'theirs'"
    known = api.ask(columns, results=received, say=said.append)[0].rows
    assert known == ((SECRET,),), "as it was stored, and not as the file has it now"
    for view in ("theirs", "stale", '"b\x1b[31m"'):
        with pytest.raises(InputError, match="disabled by configuration") as refused:
            api.ask(f"FROM {view}", results=received, say=said.append)
        assert "changed" not in str(refused.value) and "\x1b" not in str(refused.value)
    assert said == []


def test_making_that_view_would_read_the_file(tmp_path):
    """The twin: its columns are those of the file, so it is opened when the view is made."""
    (tmp_path / "secret.csv").write_text(f"{SECRET}\nx\n")
    with duckdb.connect() as connection:
        connection.execute(VIEW_OF_A_FILE.format(tmp_path))
        named = connection.execute("SELECT column_name FROM duckdb_columns() WHERE table_name = 'theirs'")
        assert named.fetchall() == [(SECRET,)]


def test_variables_of_the_process_are_no_tables(world):
    stolen = api.ask  # a name that DuckDB could find in the frames of its caller
    assert stolen
    with pytest.raises(InputError, match="stolen does not exist"):
        api.ask("FROM stolen", results=world / "whole")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "sql",
    [
        "FROM read_text('/etc/passwd')",
        *(
            pytest.param(sql, marks=pytest.mark.full)
            for sql in ("COPY (SELECT 1) TO 'out.csv'", "UPDATE EXTENSIONS", "SELECT '\x1b[2J', nothing")
        ),
    ],
)
@pytest.mark.parametrize("write", [[], ["--write"]])
def test_the_command_line_refuses_with_2_and_a_clear_line(world, sql, write):
    done = subprocess.run(
        [sys.executable, "-c", "from ablate.cli import main; main()", "sql", sql, "--results", "whole", *write],
        capture_output=True,
        text=True,
        cwd=world,
        env={**os.environ, "COLUMNS": "100"},
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ") and "Traceback" not in done.stderr and "\x1b" not in done.stderr
    if "passwd" in sql or (write and "COPY" in sql):
        assert "\n  = `ablate sql` works on these results alone" in done.stderr


@pytest.mark.full
def test_what_results_hold_does_not_drive_the_terminal(world):
    sql = "SELECT chr(27) || '[2J' AS \"a\x1b[31m\", '[/b]' AS markup, chr(8238) || 'x' AS turned"
    for form in ("table", "json"):
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                "from ablate.cli import main; main()",
                "sql",
                sql,
                "--results",
                "whole",
                "--format",
                form,
            ],
            capture_output=True,
            text=True,
            cwd=world,
        )
        assert done.returncode == 0, done.stderr
        assert "\x1b" not in done.stdout and "\u202e" not in done.stdout and "[/b]" in done.stdout
