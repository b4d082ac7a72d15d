"""What the cookbook is asked about, written once for the files that ask."""

from __future__ import annotations

import pytest
from cookbook_fixtures import tell

from ablate.store.query import cookbook_query, query


@pytest.fixture(scope="session")
def told(tmp_path_factory):
    """Three spaces in a results folder, and what was told of each trial."""
    return tell(tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="session")
def ask(told):
    """Rows of a named query as dictionaries."""

    def asked(name, **given):
        found = cookbook_query(name)
        answer = query(told.folder, found.sql, parameters=found.given(given))
        return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]

    return asked
