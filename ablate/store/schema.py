"""The tables of ablate.duckdb as `tables.sql` declares them: the one place that says what columns there are.

That text is read once. The DDL, the Arrow types of inserted rows, the order of a row, and the columns of verdicts as a
table of pandas follow from it, and so does the documentation: each comment is kept in the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow

BEGINS = re.compile(r"CREATE TABLE (?P<name>\w+) \($")
DECLARES = re.compile(r"    (?P<name>\w+) (?P<type>[A-Z]+(?:\[\])?)(?P<required> NOT NULL)?,  -- (?P<comment>.+)$")

ARROW = {
    "VARCHAR": "string",
    "JSON": "string",
    "BOOLEAN": "bool_",
    "DOUBLE": "float64",
    "INTEGER": "int64",
    "BIGINT": "int64",
}
"""The pyarrow name of each SQL type in use; `[]` after a type is a list of it."""


@dataclass(frozen=True, slots=True)
class ColumnSchema:
    """A column of a table: its name, its SQL type, whether it always has a value, and what it means."""

    name: str
    type: str
    required: bool
    comment: str

    @property
    def declaration(self) -> str:
        """The column as written in `CREATE TABLE`."""
        return f"{self.name} {self.type}{' NOT NULL' if self.required else ''}"


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A table: its name, what its rows are, and its columns in their order."""

    name: str
    comment: str
    columns: tuple[ColumnSchema, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns, in order."""
        return tuple(column.name for column in self.columns)

    def row(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return a row from values by column name; ValueError where a column is missing or not of this table."""
        if values.keys() != set(self.names):
            differ = ", ".join(sorted(values.keys() ^ set(self.names)))
            raise ValueError(f"a row of {self.name} has other columns than tables.sql declares: {differ}")
        return tuple(values[name] for name in self.names)

    @property
    def ddl(self) -> str:
        """The SQL that creates it, empty, with its comments."""
        declared = ", ".join(column.declaration for column in self.columns)
        lines = [f"CREATE OR REPLACE TABLE {self.name} ({declared});"]
        lines.append(f"COMMENT ON TABLE {self.name} IS {quoted(self.comment)};")
        lines += [f"COMMENT ON COLUMN {self.name}.{c.name} IS {quoted(c.comment)};" for c in self.columns]
        return "\n".join(lines)

    def arrow(self) -> pyarrow.Schema:
        """Return its columns as the Arrow schema of inserted rows."""
        import pyarrow  # a heavy import that a table of verdicts does not need

        def type_of(name: str) -> pyarrow.DataType:
            if name.endswith("[]"):
                return pyarrow.list_(type_of(name.removesuffix("[]")))
            return getattr(pyarrow, ARROW[name])()

        return pyarrow.schema([(column.name, type_of(column.type)) for column in self.columns])


def quoted(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def parse(text: str) -> Iterator[TableSchema]:
    """Read the tables that a text declares; ValueError for a line that is neither comment, table nor column."""
    above: list[str] = []
    name, columns = "", list[ColumnSchema]()
    for number, line in enumerate(text.splitlines(), 1):
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
            raise ValueError(f"tables.sql, line {number}: neither a comment, nor a table or a column with one: {line}")


TABLES: Mapping[str, TableSchema] = {
    table.name: table
    for table in parse(resources.files("ablate.store").joinpath("tables.sql").read_text(encoding="utf-8"))
}
"""Every table by its name, in order of declaration."""

DDL = "\n\n".join(table.ddl for table in TABLES.values())
"""The SQL that creates all of them, empty, with their comments."""
