"""Comments of views: a column that a view passes through inherits the comment of its source."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import duckdb

from ablate.store.schema import quoted

VIEW = re.compile(r"CREATE OR REPLACE VIEW (?P<name>\w+) AS\s(?P<text>[^;]*);")
READS = re.compile(r"\b(?:FROM|JOIN) (\w+)")


def inherit(connection: duckdb.DuckDBPyConnection, views: str) -> None:
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
