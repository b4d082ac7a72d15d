"""The rows of a table that are read: more are refused with the limit and a way out, before they fill the memory."""

import tracemalloc

import duckdb
import numpy as np
import pandas
import pyarrow
import pyarrow.parquet
import pytest

import ablate
from ablate.store import foreign_tables

ROWS = [{"variant": v, "seed": s, "loss": 2.0 + s * (1 + (v == "b"))} for v in "ab" for s in range(5)]


def refused(table, **asked):
    with pytest.raises(ablate.InputError) as error:
        ablate.judge(table, metrics="loss", **asked)
    return str(error.value)


def written(tmp_path, name):
    frame, path = pandas.DataFrame(ROWS), tmp_path / name
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    elif path.suffix == ".jsonl":
        frame.to_json(path, orient="records", lines=True)
    elif path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        path.mkdir()
        for name, part in (("a", frame[:5]), ("b", frame[5:])):
            part.to_csv(path / f"{name}.csv", index=False)
    return path


@pytest.mark.parametrize("name", ["runs.csv", "runs.jsonl", "runs.parquet", "logs"])
def test_a_file_of_too_many_rows_is_refused_with_the_limit(tmp_path, monkeypatch, name):
    path = written(tmp_path, name)
    monkeypatch.setattr(foreign_tables, "MOST_ROWS", 10)
    assert ablate.judge(path, metrics="loss").summary.effects
    monkeypatch.setattr(foreign_tables, "MOST_ROWS", 9)
    assert "rows, and at most 9 are read" in (said := refused(path)) and str(path) in said
    assert "give fewer: one row for each run, or the last steps of each" in said


@pytest.mark.parametrize(
    "table",
    [ROWS, pandas.DataFrame(ROWS), pyarrow.Table.from_pylist(ROWS), duckdb.from_arrow(pyarrow.Table.from_pylist(ROWS))],
)
def test_a_value_of_python_with_too_many_rows_is_refused(monkeypatch, table):
    monkeypatch.setattr(foreign_tables, "MOST_ROWS", 9)
    assert "the table has more than 9 rows" in refused(table)


def test_sql_chooses_the_rows_of_a_file_of_too_many(tmp_path, monkeypatch):
    path = written(tmp_path, "runs.parquet")
    monkeypatch.setattr(foreign_tables, "MOST_ROWS", 9)
    assert "--sql can choose them, for which the table is called rows" in refused(path)
    assert ablate.judge(path, metrics="loss", sql="FROM rows WHERE seed < 4").summary.effects[0].n == 4
    assert "at most 9 are read" in refused(path, sql="FROM rows")


@pytest.mark.full
def test_a_small_parquet_of_many_rows_is_refused_before_it_is_read(tmp_path):
    many, path = 1_000_000, tmp_path / "runs.parquet"
    columns = {"variant": np.repeat("a", many), "seed": np.zeros(many, dtype=np.int64), "loss": np.zeros(many)}
    part = pyarrow.table(columns)
    with pyarrow.parquet.ParquetWriter(path, part.schema, compression="zstd") as writer:
        for _ in range(50):
            writer.write_table(part)
    assert path.stat().st_size < 800_000
    tracemalloc.start()
    try:
        assert "runs.parquet has 50,000,000 rows, and at most 3,000,000 are read" in refused(path)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
