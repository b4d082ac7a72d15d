"""Table judging: verdicts on runs that were trained elsewhere, from a table, judged as a space is and stored."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from ablate.block.normal_form import digest
from ablate.errors import InputError, RefusedError, warn
from ablate.output.words import listed, percent, plural, spoken
from ablate.plan.plan import Comparison
from ablate.report import html_renderer, json_form, markdown_renderer
from ablate.report.page import table_page
from ablate.session import run_result
from ablate.session.accounts import account_of, compared_as
from ablate.session.judging import Check, check_verdicts, questions_of, verdict_document
from ablate.session.table_columns import STATES, STEPS, TableQuestion, name_of, number_of
from ablate.session.table_experiment import NOT_THERE, TableExperiment, read_experiment
from ablate.session.table_runs import reshaped
from ablate.source.problems import quote
from ablate.source.yaml import is_file
from ablate.statistics.multiple_testing import SHARE_LEFT
from ablate.store import files
from ablate.store.documents import ComparisonDocument, TableDocument, TableReading
from ablate.store.durable import compact, json_number
from ablate.store.files import digest_of
from ablate.store.foreign_tables import RUN, Table, is_log, read_log, read_logs, read_table, select, table_of
from ablate.store.mlflow_client import without_secrets
from ablate.store.query import query
from ablate.store.records import KeptTable
from ablate.store.results import Results
from ablate.store.snapshot import Snapshot
from ablate.verdict.contrasts import JudgedDesign, JudgedRun
from ablate.verdict.judge import judge
from ablate.verdict.judgement import NextJudgement
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
    """The verdicts on a table's runs; `space` is the name under which a results folder keeps it, "" if none does."""

    summary: Summary
    space: str = ""

    def __repr__(self) -> str:
        return f"<Judged {self.summary.space}: {len(self.summary.arms)} variants, {verdicts_of(self.summary)}>"

    @property
    def verdicts(self) -> pandas.DataFrame:
        """A row for each comparison and each metric, with the columns of `Run.verdicts`."""
        return run_result.verdict_frame(self.summary)

    @property
    def html(self) -> str:
        return html_renderer.render(table_page(self.summary))

    @property
    def markdown(self) -> str:
        return markdown_renderer.render(table_page(self.summary))

    @property
    def json(self) -> str:
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
    """Judge the runs of a table, as `ablate.judge` does."""
    if judgement is not None and judgement < 1:
        raise InputError(f"there is no judgement {judgement}\n  = the first is 1")
    if judgement is not None and space is not None:
        raise InputError(
            f"--judgement {judgement}: {results} knows how often {space} was judged\n"
            "  = leave out --judgement, or keep no record: --no-keep"
        )
    if space is not None:
        check_name(space, results)
    shaped = reshaped(_read(table, sql, uri, results), name=question.name, long=question.long)
    made = read_experiment(shaped, question, judgement=judgement or 1)
    if space is not None and (cells := len(shaped.rows) * len(shaped.columns)) > MOST_CELLS:
        say(f"not kept: the table has {cells:,} cells, and at most {MOST_CELLS:,} are kept; --sql can have fewer")
        space = None
    if space is not None:
        origin = origin_of(table, uri, sql)
        summary = judge_and_store(made, shaped, question, space, origin, results, say)
    else:
        number = judgement or 1
        held = NextJudgement(number=number, left=SHARE_LEFT ** (number - 1))
        record = (NO_RECORD,) if judgement is None else ()
        noted = replace(made.experiment, notes=(*made.experiment.notes, *record))
        summary = judge(noted, made.rules, made.finals, dict.fromkeys(made.rules.metrics, held))
    return JudgedTable(presented(summary, question), space or "")


def presented(summary: Summary, question: TableQuestion) -> Summary:
    """Verdicts on a table with the largest difference first, steps of a path aside, and notes on its groups."""
    if question.groups:
        groups = (note for metric in summary.metrics for note in _group_notes(summary, metric))
        summary = replace(summary, notes=(*groups, *summary.notes))
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
    if isinstance(table, str) and table.startswith((MLFLOW, OPTUNA)):
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


def read_tracked(name: str, uri: str | None) -> Table:
    """The runs of a tracker; InputError for one that cannot be read, and for what it does not have."""
    kind, _, what = name.partition(":")
    if uri is None:
        way = f"--uri is a server, http://…, or a database, such as sqlite:///{kind}.db"
        raise InputError(f"{name}: where is it?\n  = {way}")
    if name.startswith(MLFLOW):
        from ablate.store.foreign_tables import read_experiment

        return read_experiment(name, what, uri)
    from ablate.execute.search.proposer import read_study

    return read_study(name, what, uri)


# Groups of variants of a table: which are not told apart, and which may be the best
#
# All pairs are judged, by Holm's procedure over all of them. Variants are not told apart where no pair of them is found
# different; that a is not told apart from b nor b from c says nothing of a and c. A variant may be the best as long as
# no other is found better: the true best is among these unless a difference is found that is none, or the other way.

DIFFERENT = ("better", "worse", "higher", "lower")


def _group_notes(summary: Summary, metric: Metric) -> Iterator[str]:
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


# Judged tables in a results folder: stored with their verdicts under a name, and read and judged again from there.
#
# The first judgement of a comparison spends 4 % out of 5 %, the next at other runs 0.8 %, and so on
# (`verdict/judgement.py`). A comparison is known by its table's name, the column of variants, and the names of the two.

TABLE_NAME = re.compile(r"[\w+-][\w.+-]*")
MOST_CELLS = 5_000_000  # cells of a table that is kept: one with more is judged, and not kept, which is told
SECONDS = "seconds"
QUESTION_TYPE = TypeAdapter(TableQuestion)
METHOD = ("unpaired", "ranks", "floor", "sd", "within", "inference", "at", "step", "pair", "diverged")
"""Fields of a question by which the same runs are judged in another way: that is another judgement of them."""


def space_name(given: str) -> str:
    """The name that a table is kept under, from that of its file, folder, experiment or study.

    >>> space_name("runs/speedrun v2.csv"), space_name("logs/"), space_name("mlflow:mine")
    ('speedrun_v2', 'logs', 'mine')
    """
    path = Path(given.partition(":")[2] if given.startswith((MLFLOW, OPTUNA)) else given)
    stem = path.stem if path.suffix[1:].isalpha() else path.name
    return re.sub(r"[^\w+-]+", "_", stem).strip("_") or "table"


def check_name(space: str, results: Path) -> None:
    if not TABLE_NAME.fullmatch(space):
        raise InputError(f"{quote(space)} is not a name\n  = --space takes letters, digits, and the signs . + - _")
    if results.is_dir() and space in Snapshot(results).plans.of_space:
        raise InputError(
            f"{space} is a space that was trained in {results}\n"
            "  = --space NAME keeps the table under another name, --no-keep keeps none"
        )


def origin_of(table: object, uri: str | None, sql: str | None) -> dict[str, str]:
    """The origin of a table: its name, its file with the digest of its bytes, its server without secrets, its SQL."""
    if not isinstance(table, str | Path):
        return {"name": f"a {type(table).__name__}"}
    origin = {"name": str(table), "uri": uri and without_secrets(uri), "sql": sql}
    if is_file(path := Path(table)):  # SQL may be longer than a name of a file can be
        origin |= {"file": str(path.absolute()), "digest": digest_of(path.read_bytes())}
    return {key: value for key, value in origin.items() if value is not None}


def judge_and_store(
    made: TableExperiment,
    table: Table,
    question: TableQuestion,
    space: str,
    origin: Mapping[str, str],
    results: Path,
    say: Callable[[str], None],
) -> Summary:
    made = replace(made, experiment=replace(made.experiment, space=space))
    design = _design(made, question)
    for line in _shared(made, space, results):
        say(line)
    document: TableDocument = {
        "space": space,
        "name": table.name,
        "origin": origin,
        "question": asdict(question),
        **_reading_of(made),
        "rows": "",  # the store adds the digest of the cells
    }
    try:
        with Results(results, say=say) as store:
            account = account_of(design, made.finals, rules=made.rules, folder=results)
            summary = judge(made.experiment, made.rules, made.finals, account)
            judged = tuple(questions_of(summary, design, made.rules, account, made.finals))
            used = _used(table, question, made)
            cells = {
                "columns": used.columns,
                "delimiter": used.delimiter,
                "nan_or_empty": used.nan_or_empty,
                "rows": used.rows,
            }
            store.record_table(document, compact(cells).encode(), verdict_document(summary, design), judged)
            store.refresh()
    except RefusedError as error:
        raise RefusedError(f"{error}\n  = or judge it and keep nothing: --no-keep") from error
    return summary


def _shared(made: TableExperiment, space: str, results: Path) -> Iterator[str]:
    """The tables of other names with half of these runs or more, whose judgements are not counted here."""
    runs = {compact(run) for run in _reading_of(made)["runs"]}
    tables = Snapshot(results).tables if results.is_dir() else {}
    for other, of_name in tables.items():
        same = runs & {compact(run) for run in of_name[-1].document["runs"]}
        if other != space and 2 * len(same) >= len(runs):
            yield (
                f"{len(same)} of {plural(len(runs), 'run')} are those of the table {other}: how often they were judged "
                f"there is not counted here (--space {other} does)"
            )


def stored_question(kept: KeptTable) -> TableQuestion:
    return QUESTION_TYPE.validate_python(kept.document["question"])


def judged_again(folder: Path, kept: KeptTable) -> Summary:
    """Judge a kept table by the account of its folder; RefusedError if its cells are lost."""
    made, question = _read_stored(folder, kept)
    account = account_of(_design(made, question), made.finals, rules=made.rules, folder=folder, reading=True)
    return judge(made.experiment, made.rules, made.finals, account)


def table_checks(folder: Path, kept: KeptTable) -> Iterator[Check]:
    space, then = kept.space, kept.document
    try:
        made, question = _read_stored(folder, kept)
    except RefusedError as error:
        yield Check(space, "files", "wrong", str(error).splitlines()[0])
        return
    if differ := [key for key, value in _reading_of(made).items() if _plain(value) != _plain(then.get(key))]:
        yield Check(space, "trials", "wrong", f"read anew from its cells the table has other {', '.join(differ)}")
        return
    yield Check(
        space, "trials", "right", f"{plural(len(then['runs']), 'run')} of {then['name']} read anew, all as kept"
    )
    judgement = Snapshot(folder).verdicts.get(kept.id)
    if judgement is None:
        yield Check(space, "verdicts", "told", "there are none")
    else:
        yield check_verdicts(space, judgement.content["verdicts"], judged_again(folder, kept), _design(made, question))
    yield _check_of_file(space, then["origin"])


def _check_of_file(space: str, origin: Mapping[str, str]) -> Check:
    path = Path(origin.get("file", ""))
    if "digest" not in origin:
        return Check(space, "files", "told", f"{origin['name']} is not a file: it was not read again")
    if not path.is_file():
        return Check(space, "files", "told", f"{origin['name']} is not where it was")
    if digest_of(path.read_bytes()) != origin["digest"]:
        return Check(space, "files", "told", f"{origin['name']} has changed since it was judged")
    return Check(space, "files", "right", f"{origin['name']} is as it was when it was judged")


def _read_stored(folder: Path, kept: KeptTable) -> tuple[TableExperiment, TableQuestion]:
    name = f"{files.SOURCES}/{kept.document['rows']}"
    content, fault = files.whole(folder, name)
    if content is None:
        raise RefusedError(
            f"lost: {name} {fault}: it had the cells of {kept.space}\n"
            f"  = `ablate doctor --results {folder}` recovers them if it can; else judge the table again"
        )
    cells, question = json.loads(content), stored_question(kept)
    table = Table(
        kept.document["name"],
        tuple(cells["columns"]),
        tuple(tuple(_cell(cell) for cell in row) for row in cells["rows"]),
        nan_or_empty=cells["nan_or_empty"],
        delimiter=cells["delimiter"],
    )
    made = read_experiment(table, replace(question, name=None, long=None))  # its cells were kept as they were reshaped
    return replace(made, experiment=replace(made.experiment, space=kept.space)), question


def _design(made: TableExperiment, question: TableQuestion) -> JudgedDesign:
    """The identity of the questions of a table: the names of its variants stand for how they were trained."""
    experiment = made.experiment
    trained = {each.id: digest(["table", experiment.space, question.by, each.id], 16) for each in experiment.variants}
    return JudgedDesign(
        baseline=experiment.baseline,
        comparisons=experiment.comparisons,
        seeds=experiment.seeds,
        trained=trained,
        compared=compared_as(experiment, trained, {}),
        runs=[
            JudgedRun(variant=variant, seed=seed, id=id)
            for variant, of in experiment.trials.items()
            for seed, id in of.items()
        ],
        evaluation={name: getattr(question, name) for name in METHOD},
    )


def _used(table: Table, question: TableQuestion, made: TableExperiment) -> Table:
    numbers, named = {*made.rules.metrics, question.step}, {question.by, question.pair, question.within, RUN}
    diverged = question.diverged or ""
    named |= {diverged, diverged.partition("=")[0]}
    places = [
        place
        for place, column in enumerate(table.columns)
        if column in numbers | named or column.lower() in (*STEPS, *STATES)
    ]
    columns = tuple(table.columns[place] for place in places)
    as_cell = [_number if column in numbers or column.lower() in STEPS else _name for column in columns]
    rows = tuple(tuple(read(row[place]) for read, place in zip(as_cell, places, strict=True)) for row in table.rows)
    return replace(table, columns=columns, rows=rows, places=None)


def _cell(cell: Any) -> Any:
    return timedelta(seconds=cell[SECONDS]) if isinstance(cell, dict) else cell


def _number(cell: object) -> object:
    if isinstance(cell, timedelta):
        return {SECONDS: cell.total_seconds()}
    return cell if isinstance(cell, str | int | float) or cell is None else number_of(cell)


def _name(cell: object) -> str | None:
    return cell if isinstance(cell, str) else name_of(cell) or None


def _reading_of(made: TableExperiment) -> TableReading:
    experiment = made.experiment
    return {
        "design": experiment.design,
        "baseline": experiment.baseline,
        "variants": [variant.id for variant in experiment.variants],
        "comparisons": [_comparison_document(comparison) for comparison in experiment.comparisons],
        "seeds": experiment.seeds,
        "runs": [
            (variant, seed, made.finals[id]["status"], made.finals[id]["metrics"])
            for variant, of in experiment.trials.items()
            for seed, id in of.items()
            if made.finals[id]["status"] != NOT_THERE
        ],
        "notes": experiment.notes,
    }


def _comparison_document(comparison: Comparison) -> ComparisonDocument:
    document: ComparisonDocument = {
        "kind": comparison.kind,
        "change": comparison.change,
        "detail": comparison.detail,
        "before": comparison.before,
        "after": comparison.after,
    }
    return {**document, "unpaired": comparison.unpaired} if comparison.unpaired else document


def _plain(value: Any) -> Any:
    """A value as JSON has it: sequences are lists, and numbers that are not finite are read back."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return list(map(_plain, value)) if isinstance(value, list | tuple) else json_number(value)
