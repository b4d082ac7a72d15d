"""The verb that judges runs that were trained elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from ablate.cli.console import note, show
from ablate.cli.options import RESULTS, Json, ResultsFolder
from ablate.errors import InputError
from ablate.output.escape import write_text

Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        metavar="COLUMN[:SETTING]…",
        help="A column to judge; repeat for several. Settings: log (ratios), higher or none (is better), margin=5%.",
    ),
]


def judge(
    table: Annotated[
        str,
        typer.Argument(
            help="A CSV, JSON lines or Parquet file, a folder of logs, mlflow:EXPERIMENT, optuna:STUDY, or SQL over "
            "the results folder.",
            show_default=False,
        ),
    ],
    by: Annotated[str, typer.Option("--by", metavar="COLUMN", help="The column of variants.")] = "variant",
    pair: Annotated[
        str, typer.Option("--pair", metavar="COLUMN", help="The column that pairs runs, by seed or another name.")
    ] = "seed",
    metrics: Metrics = None,
    margin: Annotated[
        str, typer.Option("--margin", help="What is too small to matter: 1% of the baseline's mean, a number, or none.")
    ] = "none",
    baseline: Annotated[
        str | None, typer.Option("--baseline", metavar="NAME", help="The variant others are judged against.")
    ] = None,
    path: Annotated[
        bool, typer.Option("--path", help="Variants are steps: also judge each against the one before it.")
    ] = False,
    groups: Annotated[
        bool, typer.Option("--groups", help="Judge all pairs: which are not told apart, and which may be the best.")
    ] = False,
    unpaired: Annotated[
        bool, typer.Option("--unpaired", help="Runs have no partners: two variants are two samples, by Welch's t.")
    ] = False,
    ranks: Annotated[
        bool, typer.Option("--ranks", help="As --unpaired, by ranks: which of two variants tends to be lower.")
    ] = False,
    floor: Annotated[
        str | None, typer.Option("--floor", metavar="NAME", help="Judge single runs by the noise of this variant's.")
    ] = None,
    sd: Annotated[
        float | None, typer.Option("--sd", metavar="NUMBER", help="Judge single runs by this standard deviation.")
    ] = None,
    diverged: Annotated[
        str | None,
        typer.Option(
            "--diverged",
            metavar="COLUMN[=VALUE,…]",
            help="The column that says which runs diverged, or State=crashed,failed; nan and inf do.",
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="STEP", help="Of a log of steps judge each run at its last, best, or mean:k."),
    ] = None,
    step: Annotated[
        str | None, typer.Option("--step", metavar="COLUMN", help="The column of steps, if its name does not say so.")
    ] = None,
    within: Annotated[
        str | None, typer.Option("--within", metavar="COLUMN", help="Compare within each stratum, such as a game.")
    ] = None,
    inference: Annotated[
        Literal["these", "alike"] | None,
        typer.Option("--inference", help="Whether it is about these strata, or about strata like these."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="PATTERN", help='Take names of runs apart, such as "{variant}-s{seed}".'),
    ] = None,
    long: Annotated[
        str | None,
        typer.Option("--long", metavar="COLUMN,COLUMN", help="The columns of metrics and values, below one another."),
    ] = None,
    confidence: Annotated[float, typer.Option("--confidence", help="The confidence level of intervals.")] = 0.95,
    family: Annotated[
        Literal["metric", "page"], typer.Option("--family", help="What Holm corrects over: one metric, or all.")
    ] = "metric",
    space: Annotated[
        str | None, typer.Option("--space", metavar="NAME", help="The name to keep it under (default: the table's).")
    ] = None,
    no_keep: Annotated[bool, typer.Option("--no-keep", help="Keep nothing of it in the results folder.")] = False,
    judgement: Annotated[
        int | None,
        typer.Option("--judgement", min=1, max=100, help="With --no-keep: 2 if seeds were added since the first."),
    ] = None,
    sql: Annotated[
        str | None,
        typer.Option("--sql", metavar="SQL", help="Judge the rows of this query; the file's table is `rows`."),
    ] = None,
    uri: Annotated[
        str | None, typer.Option("--uri", help="Where the tracker is: http://…, or a database, sqlite:///….")
    ] = None,
    results: ResultsFolder = RESULTS,
    page: Annotated[
        Path | None, typer.Option("--page", metavar="FILE", help="Write a page: .html, or .md for Markdown.")
    ] = None,
    json: Json = False,
) -> None:
    """Judge runs trained elsewhere, from a table with a row per run: verdicts, and seeds needed.

    Each variant is judged against the baseline (default: the first in the table), paired by seed. The table is kept in
    the results folder, with its verdicts and how often it was judged.

        ablate judge runs.csv --metric loss:margin=1% --metric kurtosis:log --metric accuracy:higher
    """
    from ablate import api
    from ablate.session.table_judging import SQL, check_page, space_name

    if space is None and not no_keep and not SQL.match(table):
        space = space_name(table)
    if no_keep and space is not None:
        raise InputError("--space names what is kept, and --no-keep keeps nothing\n  = leave out one of them")
    if page is not None:
        check_page(page)
    judged = api.judge(
        table,
        by=by,
        pair=pair,
        metrics=metrics or (),
        margin=margin,
        baseline=baseline,
        path=path,
        groups=groups,
        unpaired=unpaired,
        ranks=ranks,
        floor=floor,
        sd=sd,
        diverged=diverged,
        at=at,
        step=step,
        within=within,
        inference=inference,
        name=name,
        long=long,
        confidence=confidence,
        family=family,
        judgement=judgement,
        space=space,
        sql=sql,
        uri=uri,
        results=results,
    )
    if page is not None:
        judged.write(page)
        note(f"wrote {page}")
    if json:
        write_text(judged.json)
    else:
        from ablate.report.screens.result import result_screen
        from ablate.report.terminal_renderer import Screen

        show(Screen(result_screen(judged.summary)))
    if judged.space:
        note(f"kept in {results} as {judged.space}: its page is written by `ablate report {judged.space}`")
