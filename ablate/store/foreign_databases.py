"""SQLite files that others have written, looked at without being changed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from ablate.errors import InputError

SQLITE = "sqlite:///"


def check_sqlite(uri: str, table: str, whose: str) -> None:
    """Raise InputError unless the file of a SQLite URI has a table; other URIs are not looked at."""
    if not uri.startswith(SQLITE):
        return
    path = Path(uri.removeprefix(SQLITE).partition("?")[0])
    way = f"--uri {SQLITE}FILE names one that {whose} has written"
    if not path.exists():
        raise InputError(f"there is no database {path}\n  = {way}")
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            names = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
    except sqlite3.Error as error:
        raise InputError(f"{path} is not a database: {error}\n  = {way}") from None
    if table not in names:
        raise InputError(f"{path} is no database of {whose}\n  = {way}")
