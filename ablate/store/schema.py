"""The tables of ablate.duckdb as `tables.sql` declares them: the one place that says what columns there are.

DDL, Arrow types, the order of a row, the columns of verdicts in pandas and the comments in the file follow from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, TypeAlias

from ablate.store.durable import compact, json_number

if TYPE_CHECKING:
    import duckdb
    import pyarrow

Row: TypeAlias = Mapping[str, object]
"""The values of a row by column; JSON as its values, NaN and infinities also as text."""

BEGINS = re.compile(r"CREATE TABLE (?P<name>\w+) \($")
DECLARES = re.compile(r"    (?P<name>\w+) (?P<type>[A-Z]+(?:\[\])?)(?P<required> NOT NULL)?,  -- (?P<comment>.+)$")

ARROW = {
    "VARCHAR": "string",
    "JSON": "string",
    "BOOLEAN": "bool_",
    "DOUBLE": "float64",
    "INTEGER": "int64",
    "BIGINT": "int64",
    "BLOB": "binary",
}
"""The pyarrow name of each SQL type in use; `[]` after a type is a list of it."""


@dataclass(frozen=True, slots=True)
class ColumnSchema:
    name: str
    type: str
    required: bool
    comment: str

    def value_in(self, row: Row) -> object:
        """Return its value in a row: JSON as text, NaN and infinities, which JSON has as text, as numbers."""
        value = row.get(self.name, row.get(self.name.removesuffix("_id")))
        if self.type == "DOUBLE":
            return json_number(value)
        return compact(value) if self.type == "JSON" and not isinstance(value, str | None) else value


@dataclass(frozen=True, slots=True)
class TableSchema:
    name: str
    comment: str
    columns: tuple[ColumnSchema, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def bare(self) -> str:
        declared = ", ".join(f"{c.name} {c.type}{' NOT NULL' if c.required else ''}" for c in self.columns)
        return f"CREATE OR REPLACE TABLE {self.name} ({declared});"

    @property
    def ddl(self) -> str:
        lines = [self.bare, f"COMMENT ON TABLE {self.name} IS {quoted(self.comment)};"]
        lines += [f"COMMENT ON COLUMN {self.name}.{c.name} IS {quoted(c.comment)};" for c in self.columns]
        return "\n".join(lines)

    def table_of(self, rows: Iterable[Row]) -> pyarrow.Table:
        """Return rows as a table to insert; each has values by column name, `x_id` also under `x`; NULL where none."""
        import pyarrow  # a heavy import that a table of verdicts does not need

        def type_of(name: str) -> pyarrow.DataType:
            if name.endswith("[]"):
                return pyarrow.list_(type_of(name.removesuffix("[]")))
            return getattr(pyarrow, ARROW[name])()

        given = list(rows)
        columns = [
            pyarrow.array([column.value_in(row) for row in given], type=type_of(column.type)) for column in self.columns
        ]
        return pyarrow.table(columns, names=self.names)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def parse(text: str) -> Iterator[TableSchema]:
    """Read the tables that a text declares; ValueError for a line that is neither comment, table nor column."""
    above: list[str] = []
    name, columns = "", list[ColumnSchema]()
    for place, line in enumerate(text.splitlines(), 1):
        if name and line == ");":
            yield TableSchema(name, " ".join(above), tuple(columns))
            above, name, columns = [], "", []
        elif name and (column := DECLARES.match(line)):
            columns.append(
                ColumnSchema(column["name"], column["type"], column["required"] is not None, column["comment"])
            )
        elif not name and line.startswith("-- "):
            above.append(line.removeprefix("-- "))
        elif not name and above and (begin := BEGINS.match(line)):
            name = begin["name"]
        elif not name and not line:
            above = []
        else:
            raise ValueError(f"tables.sql, line {place}: neither a comment, nor a table or a column with one: {line}")


TABLES: Mapping[str, TableSchema] = {
    table.name: table
    for table in parse(resources.files("ablate.store").joinpath("tables.sql").read_text(encoding="utf-8"))
}

DDL = "\n\n".join(table.ddl for table in TABLES.values())

OF_A_PLAN = ("space", "plan", "current", "position", "better", "confidence", "seeds")
"""The columns of the table `judged` that are not of an effect: every other column is a field of an effect."""


def effect_fields() -> Mapping[str, str]:
    """Return the field of an effect for each column of the table `judged` that comes from one."""
    return {name: name.removesuffix("_id") for name in TABLES["judged"].names if name not in OF_A_PLAN}


VIEW = re.compile(r"CREATE OR REPLACE VIEW (?P<name>\w+) AS\s(?P<text>[^;]*);")
READS = re.compile(r"\b(?:FROM|JOIN) (\w+)")


def inherit_comments(connection: duckdb.DuckDBPyConnection, views: str) -> None:
    """Give each column of these views without a comment that of the first relation read which has such a column."""
    known: dict[str, dict[str, str | None]] = {}
    for relation, column, comment in connection.execute(
        "SELECT table_name, column_name, comment FROM duckdb_columns()"
        " WHERE schema_name = 'main' AND database_name = current_database()"
    ).fetchall():
        known.setdefault(relation, {})[column] = comment
    new = []
    for view in VIEW.finditer(views):
        for column, comment in _passed_on(view, known):
            known[view["name"]][column] = comment
            new.append(f'COMMENT ON COLUMN {view["name"]}."{column}" IS {quoted(comment)};')
    connection.execute("\n".join(new))


def _passed_on(view: re.Match[str], known: Mapping[str, Mapping[str, str | None]]) -> Iterator[tuple[str, str]]:
    relations = [known[name] for name in READS.findall(view["text"]) if name in known]
    for column, own in known[view["name"]].items():
        comment = next((text for relation in relations if (text := relation.get(column))), None)
        if own is None and comment is not None:
            yield column, comment
