"""Verdicts on runs that were trained elsewhere: a table, judged as a space is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ablate.errors import InputError
from ablate.report import json_form, table_page
from ablate.session import dataframes
from ablate.session.table_experiment import TableQuestion, read_experiment
from ablate.statistics.alpha_spending import KEPT
from ablate.store.query import query
from ablate.store.table_files import Table, read_table, select, table_of
from ablate.verdict.judge import judge
from ablate.verdict.judgement import NextJudgement
from ablate.verdict.summary import Summary, verdicts_of

if TYPE_CHECKING:
    import pandas

SQL = re.compile(r"\s*(SELECT|WITH|FROM|VALUES|PIVOT)\s", re.IGNORECASE)
"""How SQL begins, unlike the name of any file."""
PAGES = (".html", ".md")


@dataclass(frozen=True, slots=True)
class JudgedTable:
    """The verdicts on a table's runs: `summary` has every number, `verdicts` is a table (pandas) of them."""

    summary: Summary

    def __repr__(self) -> str:
        return f"<Judged {self.summary.space}: {len(self.summary.arms)} variants, {verdicts_of(self.summary)}>"

    @property
    def verdicts(self) -> pandas.DataFrame:
        """A row for each comparison and each metric, with the columns of `Run.verdicts`."""
        return dataframes.verdicts(self.summary)

    @property
    def html(self) -> str:
        """The page for a browser."""
        return table_page.to_html(self.summary)

    @property
    def markdown(self) -> str:
        """The tables as Markdown."""
        return table_page.to_markdown(self.summary)

    @property
    def json(self) -> str:
        """Every number, arm, effect and definition as JSON."""
        return json_form.to_json(self.summary)

    def write(self, page: Path) -> None:
        """Write the page, `.html` or `.md`; InputError if that cannot be done."""
        check_page(page)
        try:
            page.write_text(self.html if page.suffix == ".html" else self.markdown, encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot write {page}: {error.strerror}\n  = choose another file for the page") from None


def check_page(page: Path) -> None:
    """Check that the name of a page is one of HTML or Markdown; InputError if not."""
    if page.suffix not in PAGES:
        raise InputError(f"the page {page} is of no known kind\n  = give a name that ends in {' or '.join(PAGES)}")


def judge_table(
    table: Any, question: TableQuestion, *, sql: str | None = None, results: Path, judgement: int = 1
) -> JudgedTable:
    """Judge the runs of a table: a file, SQL over a results folder, or a value of Python.

    `sql` is over the table of the file, called `rows`. `judgement` says which judgement of these variants it is: the
    level of each is a fifth of the level of the one before, as for a space.
    """
    if judgement < 1:
        raise InputError(f"there is no judgement {judgement}\n  = the first is 1")
    read = read_experiment(_read(table, sql, results), question)
    held = NextJudgement(number=judgement, left=KEPT ** (judgement - 1))
    account = dict.fromkeys(read.rules.metrics, held)
    return JudgedTable(judge(read.experiment, read.rules, read.finals, account))


def _read(table: Any, sql: str | None, results: Path) -> Table:
    is_sql = isinstance(table, str) and SQL.match(table) is not None
    if sql is not None and (is_sql or not isinstance(table, str | Path)):
        raise InputError("--sql queries the table of a file, and none is given\n  = give a file, or leave out --sql")
    if is_sql:
        answer = query(results, table)
        return Table(f"SQL over {results}", answer.columns, answer.rows)
    if not isinstance(table, str | Path):
        return table_of(table)
    return read_table(Path(table)) if sql is None else select(Path(table), sql)
