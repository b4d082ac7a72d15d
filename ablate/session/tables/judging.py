"""Verdicts on runs that were trained elsewhere: a table, read as an experiment, judged as a space is, and kept."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ablate.errors import InputError, warn
from ablate.report import json_form, table_page
from ablate.session import dataframes
from ablate.session.tables import kept
from ablate.session.tables.experiment import read_experiment
from ablate.session.tables.question import TableQuestion
from ablate.session.tables.shapes import reshaped
from ablate.session.tables.trackers import is_tracked, read_tracked
from ablate.statistics.alpha_spending import KEPT
from ablate.store.query import query
from ablate.store.run_logs import is_log, read_log, read_logs
from ablate.store.table_files import Table, read_table, select, table_of
from ablate.verdict.account import NextJudgement
from ablate.verdict.judge import judge
from ablate.verdict.summary import Summary, verdicts_of

if TYPE_CHECKING:
    import pandas

SQL = re.compile(r"\s*(SELECT|WITH|FROM|VALUES|PIVOT)\s", re.IGNORECASE)
"""How SQL begins, unlike the name of any file."""
PAGES = (".html", ".md")
NO_RECORD = "no record is kept of how often a table is judged: to judge it again with more seeds, add --judgement 2"


@dataclass(frozen=True, slots=True)
class JudgedTable:
    """The verdicts on a table's runs: `summary` has every number, `verdicts` is a table (pandas) of them.

    `space` is the name that the results folder keeps it under; empty if it is not kept.
    """

    summary: Summary
    space: str = ""

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
    if page.suffix not in PAGES:
        raise InputError(f"the page {page} is of no known kind\n  = give a name that ends in {' or '.join(PAGES)}")


def judge_table(
    table: object,
    question: TableQuestion,
    *,
    sql: str | None = None,
    uri: str | None = None,
    results: Path,
    judgement: int | None = None,
    space: str | None = None,
    say: Callable[[str], None] = warn,
) -> JudgedTable:
    """Judge the runs of a table: a file, runs of a tracker, SQL over a results folder, or a value of Python.

    `sql` is over the table of the file, called `rows`, and `uri` is where the tracker is. Under the name of a `space`
    the table is kept in the results folder with its verdicts, which knows how often its variants were compared; else
    `judgement` says which judgement of these variants it is: the level of each is a fifth of that of the one before.
    """
    if judgement is not None and judgement < 1:
        raise InputError(f"there is no judgement {judgement}\n  = the first is 1")
    if judgement is not None and space is not None:
        raise InputError(
            f"--judgement {judgement}: {results} knows how often {space} was judged\n"
            "  = leave out --judgement, or keep no record: --no-keep"
        )
    if space is not None:
        kept.check_name(space, results)
    shaped = reshaped(_read(table, sql, uri, results), name=question.name, long=question.long)
    made = read_experiment(shaped, question, judgement=judgement or 1)
    if space is not None and (cells := len(shaped.rows) * len(shaped.columns)) > kept.MOST_CELLS:
        say(f"not kept: the table has {cells:,} cells, and at most {kept.MOST_CELLS:,} are kept; --sql can have fewer")
        space = None
    if space is not None:
        origin = kept.origin_of(table, uri, sql)
        summary = kept.judge_and_keep(made, shaped, question, space, origin, results, say)
    else:
        number = judgement or 1
        held = NextJudgement(number=number, left=KEPT ** (number - 1))
        record = (NO_RECORD,) if judgement is None else ()
        noted = replace(made.experiment, notes=(*made.experiment.notes, *record))
        summary = judge(noted, made.rules, made.finals, dict.fromkeys(made.rules.metrics, held))
    return JudgedTable(presented(summary, question), space or "")


def presented(summary: Summary, question: TableQuestion) -> Summary:
    """Return verdicts on a table with the largest difference first, steps of a path aside, and notes on its groups."""
    if question.groups:
        from ablate.session.tables.groups import group_notes  # with networkx

        summary = replace(summary, notes=(*group_notes(summary), *summary.notes))
    if question.path:
        return summary
    first = summary.metrics[0].name
    sizes = {
        (effect.before, effect.after): abs(effect.estimate)
        for effect in summary.effects
        if effect.metric == first and effect.estimate is not None
    }
    baseline = next(arm.variant for arm in summary.arms if arm.name == summary.baseline)
    by_size = {arm.variant: sizes.get((baseline, arm.variant), -1.0) for arm in summary.arms}
    by_size[baseline] = math.inf
    kinds = list(dict.fromkeys(effect.kind for effect in summary.effects))
    return replace(
        summary,
        arms=tuple(sorted(summary.arms, key=lambda arm: -by_size[arm.variant])),
        effects=tuple(
            sorted(summary.effects, key=lambda e: (kinds.index(e.kind), -sizes.get((e.before, e.after), -1.0)))
        ),
    )


def _read(table: object, sql: str | None, uri: str | None, results: Path) -> Table:
    if isinstance(table, str) and is_tracked(table):
        if sql is not None:
            raise InputError("--sql queries the table of a file\n  = leave out --sql, or give a file")
        return read_tracked(table, uri)
    if uri is not None:
        raise InputError("--uri is where a tracker is\n  = give mlflow:EXPERIMENT or optuna:STUDY, or leave out --uri")
    statement = table if isinstance(table, str) and SQL.match(table) else None
    if sql is not None and (statement is not None or not isinstance(table, str | Path)):
        raise InputError("--sql queries the table of a file, and none is given\n  = give a file, or leave out --sql")
    if statement is not None:
        answer = query(results, statement)
        return Table(f"SQL over {results}", answer.columns, answer.rows)
    if not isinstance(table, str | Path):
        return table_of(table)
    path = Path(table)
    if sql is not None:
        return select(path, sql)
    return read_logs(path) if path.is_dir() else read_log(path) if is_log(path) else read_table(path)
