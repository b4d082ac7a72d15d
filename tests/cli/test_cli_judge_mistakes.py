"""Wrong tables and questions: one error a fault, at its place, with a way out that works when it is typed."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import ablate
from ablate.cli import app

HEAD = "variant,seed,loss\n"
ROWS = "a,1,2.30\na,2,2.31\na,3,2.29\na,4,2.33\nb,1,2.20\nb,2,2.23\nb,3,2.18\nb,4,2.24\n"
WHOLE = HEAD + ROWS
LOG = "variant,seed,step,loss\n" + "".join(
    f"{v},{s},{t},{2 + s / 100 + (v == 'a') / 10 - t / 50:.3f}\n" for v in "ab" for s in range(4) for t in (1, 2, 3)
)
STATES = "variant,seed,loss,state\n" + "".join(f"{row},finished\n" for row in ROWS.split())
GAMES = "variant,seed,game,loss\n" + "".join(
    f"{v},{s},{g},{2 + s / 100 + (v == 'a') / 10 + k}\n" for v in "ab" for s in range(4) for k, g in enumerate("xyz")
)
ALONE = "variant,loss\n" + "".join(f"{row[0]},{row[4:]}\n" for row in ROWS.split())


def at(line: int, text: str, whole: str = WHOLE) -> str:
    """Return a table with another line; the header is line 1."""
    lines = whole.splitlines()
    lines[line - 1] = text
    return "\n".join(lines) + "\n"


METRIC = ("--metric", "loss")
MISTAKES: dict[str, tuple[str | bytes, tuple[str, ...], str, str, tuple[str, ...] | str]] = {
    # a table, the words after its name, the error, the way out, and what does it: other words or another table
    "no variants": (
        WHOLE.replace("variant", "arm"),
        METRIC,
        "no column 'variant'",
        "--by is one of its columns",
        (*METRIC, "--by", "arm"),
    ),
    "no metric": (WHOLE, ("--metric", "los"), "no column 'los'", "did you mean 'loss'?", METRIC),
    "which metric": (WHOLE, (), "which column of runs.csv is to be judged?", "--metric is one of its columns", METRIC),
    "metric twice": (WHOLE, (*METRIC, *METRIC), "--metric 'loss' is given twice", "give it once", METRIC),
    "column twice": (
        "variant,seed,loss,loss\n" + ROWS.replace("\n", ",1\n"),
        METRIC,
        "two columns 'loss'",
        "name them differently",
        "variant,seed,loss,other\n" + ROWS.replace("\n", ",1\n"),
    ),
    "no number": (
        at(6, "b,1,abc"),
        METRIC,
        "loss of variant b at seed 1 is not a number: 'abc'\n --> runs.csv:6:5",
        "leave the cell empty where there is no value",
        at(6, "b,1,"),
    ),
    "decimal comma": (
        at(6, 'b,1,"2,20"'),
        METRIC,
        "loss of variant b at seed 1 is not a number: '2,20'\n --> runs.csv:6:5",
        "write a decimal comma as a point",
        WHOLE,
    ),
    "no seed": (at(3, "a,,2.31"), METRIC, "no seed\n --> runs.csv:3:3", "every row must say which run it is", WHOLE),
    "no variant": (
        at(3, ",2,2.31"),
        METRIC,
        "no variant\n --> runs.csv:3:1",
        "every row must say which run it is",
        WHOLE,
    ),
    "cells": (
        at(4, "a,3,2.29,7"),
        METRIC,
        "4 cells, but the header has 3\n --> runs.csv:4:1",
        "put a cell that contains the delimiter in quotes",
        WHOLE,
    ),
    "no UTF-8": (
        b"variant,seed,loss\n\xff,1,2\n",
        METRIC,
        "runs.csv:2: byte 19 is not UTF-8",
        "write it as UTF-8",
        WHOLE,
    ),
    "quotes": (at(4, 'a,3,"2.29'), METRIC, "not CSV", "write a quote within quotes twice", WHOLE),
    "no rows": (HEAD, METRIC, "runs.csv has no rows", "a row is a run: its variant, its seed, its metrics", WHOLE),
    "one variant": (WHOLE.replace("b,", "a,1"), METRIC, "has only one variant", "--by names another column", WHOLE),
    "baseline": (WHOLE, (*METRIC, "--baseline", "A"), "no variant 'A'", "a, b", (*METRIC, "--baseline", "b")),
    "no partners": (WHOLE.replace("b,", "b,9"), METRIC, "partner", "--unpaired", (*METRIC, "--unpaired")),
    "ranks": (
        HEAD + "".join(f"{v},{s},2.{s}\n" for v in "ab" for s in (1, 2, 3)),
        (*METRIC, "--ranks"),
        "3",
        "--unpaired",
        (*METRIC, "--unpaired"),
    ),
    "steps": (
        LOG,
        METRIC,
        "16 of 24 rows repeat a run: 8 runs of 3 rows, which step tells apart",
        "--at last",
        (*METRIC, "--at", "last"),
    ),
    "step twice": (
        at(3, "a,0,1,2.06", LOG),
        (*METRIC, "--at", "last"),
        "step 1 stands twice in a at 0",
        "keep one of them",
        LOG,
    ),
    "which step": (
        LOG,
        (*METRIC, "--at", "end"),
        "'end' is no step of a run",
        "--at is last, best, or mean:k",
        (*METRIC, "--at", "mean:2"),
    ),
    "no steps": (WHOLE, (*METRIC, "--at", "last"), "no run has several rows", "leave out --at", METRIC),
    "diverged": (
        WHOLE,
        (*METRIC, "--diverged", "lost"),
        "no column 'lost'",
        "--diverged is one of its columns",
        METRIC,
    ),
    "diverged words": (
        STATES,
        (*METRIC, "--diverged", "state"),
        "state is 'finished'",
        "--diverged 'state=finished'",
        (*METRIC, "--diverged", "state=finished"),
    ),
    "state": (
        at(9, "b,4,2.24,odd", STATES),
        METRIC,
        "state is 'odd': has that run finished?\n --> runs.csv:9:10",
        "--diverged 'state=odd' counts it so",
        (*METRIC, "--diverged", "state=odd"),
    ),
    "ratios": (
        at(2, "a,1,-2"),
        ("--metric", "loss:log"),
        "loss of variant a at seed 1 is -2, and ratios need numbers above zero\n --> runs.csv:2:5",
        "without :log",
        METRIC,
    ),
    "margin": (
        WHOLE,
        (*METRIC, "--margin", "big"),
        "'big' is not a margin of loss",
        "such as 1%",
        (*METRIC, "--margin", "1%"),
    ),
    "setting": (WHOLE, ("--metric", "loss:lgo"), "'lgo' is not a setting of a metric", "log", ("--metric", "loss:log")),
    "inference": (
        GAMES,
        (*METRIC, "--within", "game"),
        "--within game",
        "--inference these",
        (*METRIC, "--within", "game", "--inference", "these"),
    ),
    "no strata": (
        GAMES,
        (*METRIC, "--inference", "these"),
        "--inference is about strata",
        "--within names their column",
        (*METRIC, "--within", "game", "--inference", "these"),
    ),
    "floor": (
        WHOLE,
        (*METRIC, "--floor", "c"),
        "no variant 'c' in runs.csv",
        "--floor is one of",
        (*METRIC, "--floor", "a"),
    ),
    "two noises": (
        WHOLE,
        (*METRIC, "--floor", "a", "--sd", "1"),
        "--floor and --sd both say what the noise is",
        "give one of them",
        (*METRIC, "--sd", "1"),
    ),
    "sd": (
        WHOLE,
        (*METRIC, "--sd", "0"),
        "--sd 0: a standard deviation is above 0",
        "--floor",
        (*METRIC, "--floor", "a"),
    ),
    "path and groups": (
        WHOLE,
        (*METRIC, "--path", "--groups"),
        "--path and --groups are two designs",
        "--groups all pairs",
        (*METRIC, "--groups"),
    ),
    "confidence": (
        WHOLE,
        (*METRIC, "--confidence", "95"),
        "the confidence cannot be 95",
        "0.95",
        (*METRIC, "--confidence", "0.95"),
    ),
    "uri": (WHOLE, (*METRIC, "--uri", "http://x"), "--uri is where a tracker is", "leave out --uri", METRIC),
    "SQL": (
        WHOLE,
        (*METRIC, "--sql", "FROM run"),
        "run does not exist",
        "the table of the file is called rows",
        (*METRIC, "--sql", "FROM rows"),
    ),
    "writes": (
        WHOLE,
        (*METRIC, "--sql", "DROP TABLE rows"),
        "--sql only reads: 'DROP' is not allowed",
        "write a SELECT",
        (*METRIC, "--sql", "SELECT * FROM rows"),
    ),
    "runs of one": (ALONE, METRIC, "no column 'seed'", "--unpaired", (*METRIC, "--unpaired")),
}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(table: str | bytes, name: str = "runs.csv") -> None:
    Path(name).write_bytes(table if isinstance(table, bytes) else table.encode())


def refused(*words: str) -> str:
    with pytest.raises(ablate.InputError) as error:
        app([*words], standalone_mode=False)
    assert error.value.exit_code == 2
    return str(error.value)


def faults(said: str) -> int:
    """Return how many mistakes an error tells; one that was found before the table was read has no heading here."""
    return max(1, sum(line.startswith("error: ") for line in said.splitlines()))


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_has_one_error_with_a_way_out_that_works(name):
    table, words, said, way, mended = MISTAKES[name]
    write(table)
    error = refused("judge", "runs.csv", *words)
    assert said in error and way in error, error
    assert faults(error) == 1, error
    if isinstance(mended, str):
        write(mended)
        mended = words
    done = CliRunner().invoke(app, ["judge", "runs.csv", *mended])
    assert done.exit_code == 0, done.output
    assert not {"Traceback", "nan"} & set(done.output.split())


def test_all_mistakes_of_a_table_are_told_at_once():
    write(at(6, "b,1,abc", at(3, "a,,2.31")))
    error = refused("judge", "runs.csv", "--metric", "loss:lgo", "--baseline", "c", "--margin", "big")
    assert faults(error) == 5
    for said in ("no seed", "'abc'", "'lgo' is not a setting", "'big' is not a margin", "no variant 'c'"):
        assert said in error
