"""The cookbook: named queries that answer common questions about results. They are in `cookbook.sql`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from ablate.source.problems import quote, unknown

TITLE = re.compile(
    r"^-- @(?P<name>\w+): (?P<question>.+)\n(?:-- (?P<parameters>\$.*)\n)?(?:-- no rows: (?P<no_rows>.+)\n)?",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Query:
    """A named query. `parameters` maps its `$names` to their default values; None means no restriction.

    `no_rows` is the meaning of an answer without rows; empty where it has none of its own.
    """

    name: str
    question: str
    parameters: Mapping[str, str | None]
    sql: str
    no_rows: str = ""

    def given(self, values: Mapping[str, str]) -> dict[str, str | None]:
        """Return its parameters updated with these values; an InputError for one that it does not have."""
        for name in values:
            if name not in self.parameters:
                message = f"the query {self.name} has no parameter {quote(name)}"
                raise unknown(message, name, self.parameters, "its parameters are")
        return {**self.parameters, **values}


@cache
def queries() -> tuple[Query, ...]:
    text = resources.files("ablate.store").joinpath("cookbook.sql").read_text(encoding="utf-8")
    titles = list(TITLE.finditer(text))
    ends = [title.start() for title in titles[1:]] + [len(text)]
    return tuple(
        Query(
            title["name"],
            title["question"],
            _parameters(title["parameters"]),
            text[title.end() : end].strip(),
            title["no_rows"] or "",
        )
        for title, end in zip(titles, ends, strict=True)
    )


def find(name: str) -> Query:
    known = {query.name: query for query in queries()}
    if name not in known:
        message = f"the cookbook has no query {quote(name)}"
        raise unknown(message, name, known, "it has", command="ablate sql --cookbook")
    return known[name]


def _parameters(written: str | None) -> dict[str, str | None]:
    """Parse `$space, $factor = 3` into names and values."""
    parts = [part.partition("=") for part in (written or "").split(",") if part]
    return {name.strip().removeprefix("$"): value.strip() or None for name, _, value in parts}
