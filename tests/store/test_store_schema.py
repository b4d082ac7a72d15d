"""The tables are declared once, in `tables.sql`: what DuckDB, Arrow and pandas have follows from it."""

from __future__ import annotations

import math
from dataclasses import fields

import duckdb
import pyarrow
import pytest
from store_fixtures import fill, opened
from test_store_verdicts import judged

from ablate.session import run_result
from ablate.store import projection, schema
from ablate.store.query import query
from ablate.store.schema import TABLES, ColumnSchema, TableSchema, effect_fields, parse
from ablate.verdict.summary import Effect

DECLARED = """-- Of this text.

-- One row for each thing,
-- the user's own
CREATE TABLE things (
    name VARCHAR NOT NULL,  -- What it is called, as in 'this'
    sizes BIGINT[],  -- Its sizes; NULL for none
);
"""


def test_a_table_is_what_its_text_says():
    (table,) = parse(DECLARED)
    assert table == TableSchema(
        "things",
        "One row for each thing, the user's own",
        (
            ColumnSchema("name", "VARCHAR", True, "What it is called, as in 'this'"),
            ColumnSchema("sizes", "BIGINT[]", False, "Its sizes; NULL for none"),
        ),
    )
    columns = [("name", pyarrow.string()), ("sizes", pyarrow.list_(pyarrow.int64()))]
    assert table.table_of([]).schema == pyarrow.schema(columns)
    with duckdb.connect() as connection:
        connection.execute(table.ddl)
        kept = "SELECT column_name, data_type, is_nullable, comment FROM duckdb_columns() WHERE table_name = 'things'"
        assert connection.execute(kept).fetchall() == [
            ("name", "VARCHAR", False, "What it is called, as in 'this'"),
            ("sizes", "BIGINT[]", True, "Its sizes; NULL for none"),
        ]
        said = connection.execute("SELECT comment FROM duckdb_tables()").fetchall()
        assert said == [("One row for each thing, the user's own",)]


@pytest.mark.parametrize(
    ("line", "other"),
    [
        ("    sizes BIGINT[],  -- Its sizes; NULL for none", "    sizes BIGINT[],"),
        ("    sizes BIGINT[],  -- Its sizes; NULL for none", "    sizes BIGINT[]  -- Its sizes"),
        ("-- One row for each thing,\n-- the user's own\n", ""),
    ],
    ids=["a column without a comment", "a column without a comma", "a table without a comment"],
)
def test_what_is_not_declared_whole_is_refused(line, other):
    with pytest.raises(ValueError, match=r"tables\.sql, line \d: neither a comment, nor a table"):
        list(parse(DECLARED.replace(line, other)))


def test_a_row_has_the_columns_of_its_table_in_their_order():
    (table,) = parse(DECLARED.replace("sizes BIGINT[]", "size_id DOUBLE").replace("name VARCHAR", "name JSON"))
    rows = table.table_of([{"size": "Infinity", "name": [1], "more": 2}, {"size_id": 0.5, "size": 3}, {"name": "text"}])
    assert rows.column_names == ["name", "size_id"]
    assert [tuple(row.values()) for row in rows.to_pylist()] == [("[1]", math.inf), (None, 0.5), ("text", None)]


def test_the_file_has_what_is_declared(tmp_path):
    fill(tmp_path)
    with duckdb.connect(tmp_path / "ablate.duckdb", read_only=True) as connection:
        for table in TABLES.values():
            kept = connection.execute(
                "SELECT column_name, data_type, NOT is_nullable, comment FROM duckdb_columns()"
                " WHERE table_name = ? ORDER BY column_index",
                [table.name],
            ).fetchall()
            assert kept == [(c.name, c.type, c.required, c.comment) for c in table.columns]


def test_every_column_of_an_effect_is_a_field_of_it():
    assert set(effect_fields().values()) <= {field.name for field in fields(Effect)}
    assert {"adjusted_low", "adjusted_high", "adjusted_confidence"} <= effect_fields().keys()


@pytest.mark.full
def test_the_adjusted_interval_is_null_where_nobody_said_it_and_a_ratio_on_the_log_scale(tmp_path):
    fill(tmp_path)
    summary = judged(tmp_path)
    ask = "SELECT metric, adjusted_low, adjusted_high, adjusted_confidence FROM verdicts ORDER BY position"
    said = {(e.metric, e.adjusted_low, e.adjusted_high, e.adjusted_confidence) for e in summary.effects if e.judged}
    assert set(query(tmp_path, ask).rows) == said
    with opened(tmp_path) as results:
        effects = [{"kind": "edit", "change": "x", "metric": name, "scale": scale, "adjusted_low": 0.0,
                    "adjusted_high": 1.0, "adjusted_confidence": 0.99}
                   for name, scale in (("eval_loss", "linear"), ("peak_kurtosis", "log"))]  # fmt: skip
        metrics = [{"name": metric.name, "better": metric.better} for metric in summary.metrics]
        told = {"space": "small", "seeds": [0], "confidence": 0.95, "metrics": metrics, "effects": effects}
        results.record_judgement("small", told, [])
        results.refresh()
    ask = "SELECT adjusted_low, adjusted_high, adjusted_confidence, {} FROM {} ORDER BY position"
    ratios = "ratio_adjusted_low, ratio_adjusted_high"
    assert query(tmp_path, ask.format(ratios, "effects")).rows == (
        (0.0, 1.0, 0.99, None, None),
        (0.0, 1.0, 0.99, 1.0, pytest.approx(2.718281828459045)),
    )
    assert query(tmp_path, ask.format("verdict", "verdicts")).rows == ((0.0, 1.0, 0.99, None),) * 2


def test_a_frame_of_verdicts_has_the_columns_of_sql(tmp_path):
    frame = run_result.verdict_frame(None)
    own = {"space", "plan", "current", "position", "confidence", "seeds"}
    with duckdb.connect() as connection:
        connection.execute(schema.DDL)
        connection.execute(projection.VIEWS)
        views = {name: [row[0] for row in connection.execute(f"DESCRIBE {name}").fetchall()] for name in
                 ("effects", "verdicts")}  # fmt: skip
    assert set(frame.columns) == (set(views["effects"]) | {"more_seeds"}) - own
    assert frame.dtypes["adjusted_low"] == "float64" and frame.dtypes["n"] == "int64"


def test_a_column_that_a_view_passes_on_has_its_comment():
    views = (
        "CREATE OR REPLACE VIEW kept AS SELECT t.*, length(name) AS letters, 1 AS sizes FROM things t;\n"
        "COMMENT ON COLUMN kept.letters IS 'How many letters';\n"
        "COMMENT ON COLUMN kept.sizes IS 'One';\n"
        "CREATE OR REPLACE VIEW again AS SELECT k.name, letters AS n, k.sizes FROM kept k;"
    ).replace("t.*", "t.name")
    with duckdb.connect() as connection:
        connection.execute(next(parse(DECLARED)).ddl)
        connection.execute(views)
        schema.inherit_comments(connection, views)
        said = "SELECT column_name, comment FROM duckdb_columns() WHERE table_name = ? ORDER BY column_index"
        assert connection.execute(said, ["kept"]).fetchall() == [
            ("name", "What it is called, as in 'this'"),
            ("letters", "How many letters"),
            ("sizes", "One"),
        ]
        assert connection.execute(said, ["again"]).fetchall() == [
            ("name", "What it is called, as in 'this'"),
            ("n", None),
            ("sizes", "One"),
        ], "what is called otherwise has to say itself what it means"


@pytest.mark.full
def test_a_database_of_another_schema_is_filled_anew(tmp_path, monkeypatch):
    fill(tmp_path)
    judged(tmp_path)
    before = query(tmp_path, "FROM verdicts ORDER BY position").rows
    with duckdb.connect(tmp_path / "ablate.duckdb") as connection:  # as a version had it for which these were tables
        for view, table in (("variants", "plan_variants"), ("spaces", "plans")):
            connection.execute(f"CREATE TABLE old AS FROM {table}; DROP VIEW {view}; ALTER TABLE old RENAME TO {view}")
        connection.execute("DROP TABLE plans; UPDATE projection SET sql_digest = 'older'")
    assert query(tmp_path, "FROM verdicts ORDER BY position").rows == before
    with opened(tmp_path) as results:
        assert results.refresh()
    assert query(tmp_path, "FROM verdicts ORDER BY position").rows == before
    assert query(tmp_path, "SELECT plan FROM spaces").rows == query(tmp_path, "SELECT plan FROM plans").rows
