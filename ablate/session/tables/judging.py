"""Verdicts on runs that were trained elsewhere: a table, read as an experiment, judged as a space is, and kept."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ablate.errors import InputError, warn
from ablate.output.numbers import percent
from ablate.output.words import listed, spoken
from ablate.report import json_form, table_page
from ablate.session import dataframes
from ablate.session.tables import kept
from ablate.session.tables.experiment import read_experiment
from ablate.session.tables.question import TableQuestion
from ablate.session.tables.shapes import reshaped
from ablate.statistics.alpha_spending import KEPT
from ablate.store.query import query
from ablate.store.run_logs import is_log, read_log, read_logs
from ablate.store.table_files import Table, read_table, select, table_of
from ablate.verdict.account import NextJudgement
from ablate.verdict.judge import judge
from ablate.verdict.summary import Metric, Summary, verdicts_of

if TYPE_CHECKING:
    import networkx
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


# Runs of trackers by name: `mlflow:EXPERIMENT` and `optuna:STUDY`, read as a table where they are

MLFLOW, OPTUNA = "mlflow:", "optuna:"


def is_tracked(name: str) -> bool:
    """Return whether a name is that of runs of a tracker."""
    return name.startswith((MLFLOW, OPTUNA))


def read_tracked(name: str, uri: str | None) -> Table:
    """Read the runs of a tracker; `uri` is its server, database or folder.

    Raises InputError for one that cannot be read, and for an experiment or study that it does not have.
    """
    kind, _, what = name.partition(":")
    if uri is None:
        way = f"--uri is a server, http://…, or a database, such as sqlite:///{kind}.db"
        raise InputError(f"{name}: where is it?\n  = {way}")
    if name.startswith(MLFLOW):
        from ablate.store.mlflow.experiment_runs import read_experiment

        return read_experiment(name, what, uri)
    from ablate.execute.search.study_trials import read_study

    return read_study(name, what, uri)


# Groups of variants of a table: which are not told apart, and which may be the best
#
# All pairs are judged, by Holm's procedure over all of them. Variants are not told apart where no pair of them is found
# different; that a is not told apart from b nor b from c says nothing of a and c. A variant may be the best as long as
# no other is found better: the true best is among these unless a difference is found that is none, or the other way.

DIFFERENT = ("better", "worse", "higher", "lower")


def group_notes(summary: Summary) -> Iterator[str]:
    """Tell of each metric which variants are not told apart, and which may be the best."""
    for metric in summary.metrics:
        yield from _groups(summary, metric)


def _groups(summary: Summary, metric: Metric) -> Iterator[str]:
    import networkx  # loaded for groups alone

    means = {arm.variant: arm.levels[metric.name].mean for arm in summary.arms if metric.name in arm.levels}
    names = {arm.variant: arm.name for arm in summary.arms}
    order = sorted(means, key=lambda variant: -means[variant] if metric.better == "higher" else means[variant])
    alike: networkx.Graph[str] = networkx.Graph()
    alike.add_nodes_from(order)
    beaten: set[str] = set()
    for effect in summary.effects:
        if effect.metric != metric.name or effect.before not in means or effect.after not in means:
            continue
        if effect.verdict not in DIFFERENT:
            alike.add_edge(effect.before, effect.after)
        elif effect.verdict in ("better", "worse"):
            beaten.add(effect.before if effect.verdict == "better" else effect.after)
    lost = [arm.name for arm in summary.arms if arm.variant not in means]
    if lost:
        yield f"without a {spoken(metric.name)}, and in no group: {listed(lost)}"
    if not order:
        return
    groups = [sorted(group, key=order.index) for group in networkx.find_cliques(alike) if len(group) > 1]
    groups.sort(key=lambda group: [order.index(variant) for variant in group])
    joined = [", ".join(names[variant] for variant in group) for group in groups]
    if joined:
        transitive = "; two groups that share one are no single group" if len(joined) > 1 else ""
        yield f"not told apart in {spoken(metric.name)}: {'; '.join(joined)}{transitive}"
    else:
        yield f"all{' others' if lost else ''} are told apart in {spoken(metric.name)}"
    if metric.better != "none":
        best = listed([names[variant] for variant in order if variant not in beaten])
        chance = percent(1 - summary.false_at_most)
        yield f"may be the best in {spoken(metric.name)}: {best} ({chance}: no other is found better)"
