"""`ablate judge`: runs of a table are judged as a space judges its own; mistakes in a table are told at their line."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from documents import MANUAL
from rich.console import Console
from tiny_spaces import write_world
from typer.testing import CliRunner

import ablate
from ablate.cli import app, main

EXPORT = (
    "SELECT f.variant, f.seed, f.status = 'diverged' AS diverged, f.eval_loss, f.peak_kurtosis "
    "FROM final f JOIN variants v USING (space, variant_id) ORDER BY v.position, f.seed"
)
AS_JUDGED = ("--metric", "eval_loss:margin=1%", "--metric", "peak_kurtosis:log", "--diverged", "diverged")
NOT_ALIKE = {"change", "before", "after", "note", "terms"}
"""What is named otherwise: a space has ids for variants, and edits between them."""

TABLE = """\
variant,seed,loss
a,1,2.30
a,2,2.31
a,3,2.29
b,1,2.20
b,2,2.22
b,3,2.18
"""


def invoke(*words: str):
    return CliRunner().invoke(app, list(words), env={"COLUMNS": "100", "NO_COLOR": "1"})


def refused(*words: str) -> str:
    """What is said of a mistake, as every verb says it."""
    with pytest.raises(ablate.InputError) as error:
        app([*words], standalone_mode=False)
    assert error.value.exit_code == 2
    return str(error.value)


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(text: str, name: str = "runs.csv") -> str:
        Path(name).write_text(text, encoding="utf-8")
        return name

    return write


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A path and a comparison that were trained here."""
    folder = tmp_path_factory.mktemp("judge")
    space = write_world(folder, seeds=3)
    quiet = {"executor": "inline", "console": Console(quiet=True), "mirror": False}
    path = ablate.run(ablate.load_space(space), results=folder / "results", **quiet)
    text = space.read_text(encoding="utf-8")
    other = folder / "other.yaml"
    other.write_text(
        text.replace("space: tiny", "space: other").replace("path: {from: pre_ln, to: op}", "compare: [pre_ln, op]"),
        encoding="utf-8",
    )
    # In a folder of its own: what was judged in one space is known in another.
    return folder, {"tiny": path, "other": ablate.run(ablate.load_space(other), results=folder / "other", **quiet)}


RESULTS = {"tiny": "results", "other": "other"}


def numbers_of(effect: dict) -> dict:
    return {name: value for name, value in effect.items() if name not in NOT_ALIKE}


def by_comparison(summary: dict) -> dict:
    names = {arm["variant"]: arm["name"] for arm in summary["arms"]}
    return {(e["kind"], names[e["before"]], names[e["after"]], e["metric"]): e for e in summary["effects"]}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("space", "options"), [("tiny", ["--path"]), ("other", [])])
def test_the_rows_of_a_space_are_judged_as_the_space_judges_them(world, space, options, tmp_path, monkeypatch):
    folder, runs = world
    monkeypatch.chdir(tmp_path)
    sql = EXPORT.replace(" ORDER BY", f" WHERE f.space = '{space}' ORDER BY")
    results = str(folder / RESULTS[space])
    exported = invoke("sql", sql, "--format", "csv", "--results", results)
    assert exported.exit_code == 0, exported.output
    Path("runs.csv").write_text(exported.stdout, encoding="utf-8")
    own = by_comparison(json.loads(runs[space].report()["verdicts.json"]))
    assert len(own) == {"tiny": 12, "other": 2}[space]
    of_file = invoke("judge", "runs.csv", *AS_JUDGED, *options, "--json")
    of_query = invoke("judge", sql, *AS_JUDGED, *options, "--json", "--results", results)
    for judged in (of_file, of_query):
        assert judged.exit_code == 0, judged.output
        summary = json.loads(judged.stdout)
        assert summary["baseline"] == "pre_ln"
        there = by_comparison(summary)
        assert there.keys() == own.keys()
        for comparison, effect in own.items():
            assert numbers_of(there[comparison]) == numbers_of(effect), comparison


@pytest.mark.full
def test_without_the_path_the_same_differences_are_in_a_smaller_family(world, tmp_path, monkeypatch):
    folder, runs = world
    monkeypatch.chdir(tmp_path)
    sql = EXPORT.replace(" ORDER BY", " WHERE f.space = 'tiny' ORDER BY")
    judged = json.loads(invoke("judge", sql, *AS_JUDGED, "--json", "--results", str(folder / "results")).stdout)
    assert judged["tests"] == 3 < runs["tiny"].summary.tests
    own = by_comparison(json.loads(runs["tiny"].report()["verdicts.json"]))
    for comparison, effect in by_comparison(judged).items():
        for name in ("n", "estimate", "low", "high", "p", "p_equivalent", "margin", "sd"):
            assert effect[name] == own[comparison][name]


def test_the_screen_has_the_answer_and_what_was_assumed(table):
    done = invoke("judge", table(TABLE), "--metric", "loss", "--margin", "1%")
    assert done.exit_code == 0, done.output
    said = " ".join(done.stdout.split())
    assert "b against a: lowers loss by 0.100" in said and "(better)" in said
    assert "the baseline is a, the first in the table" in said and "parameters" not in said
    assert "seeds: auto" not in said and "--judgement 2" not in said
    other = " ".join(invoke("judge", "runs.csv", "--metric", "loss:higher", "--baseline", "b").stdout.split())
    assert "a against b: raises loss by 0.100" in other and "(better)" in other and "the first in" not in other


def test_a_later_judgement_is_held_at_less_where_nothing_is_kept(table):
    table(TABLE)
    levels = []
    alone = ("judge", "runs.csv", "--metric", "loss", "--no-keep")
    for number in ("1", "2"):
        done = json.loads(invoke(*alone, "--judgement", number, "--json").stdout)
        levels.append(done["effects"][0]["level"])
    assert levels == pytest.approx([0.04, 0.008])
    said = " ".join(invoke(*alone, "--judgement", "2").stdout.split())
    assert "judged a second time, at 0.8 %" in said and "no record is kept" not in said
    assert "no record is kept" in " ".join(invoke(*alone).stdout.split())
    assert not Path("results").exists()


def test_a_table_is_kept_with_how_often_it_was_judged(table):
    path = Path(table(TABLE))
    done = invoke("judge", "runs.csv", "--metric", "loss", "--margin", "1%")
    assert "note: kept in results as runs: its page is written by `ablate report runs`" in done.output
    with path.open("a") as file:
        file.write("a,4,2.32\nb,4,2.21\n")
    said = " ".join(invoke("judge", "runs.csv", "--metric", "loss", "--margin", "1%").stdout.split())
    assert "judged a second time, at 0.8 %" in said and "found at 3 seeds" in said
    assert "runs: 8 runs of the table runs.csv, judged" in invoke("status").stdout
    path.unlink()
    reported = " ".join(invoke("report", "runs", "--figures", "figures").stdout.split())
    assert "b against a" in reported and "results/pages/runs.html" in reported and "verdicts.tex" in reported
    assert "better" in Path("figures/verdicts.tex").read_text()
    assert Path("figures/forest-loss.csv").read_text().strip().endswith("better")
    answer = json.loads(
        invoke("sql", "SELECT verdict, n FROM verdicts WHERE space = 'runs' AND current", "--json").stdout
    )
    assert answer == [{"verdict": "better", "n": 3}]
    checked = invoke("verify").stdout
    assert "8 runs of runs.csv read anew" in checked and "runs.csv is not where it was" in checked
    assert "nothing is wrong" in checked


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--judgement", "2"), "leave out --judgement, or keep no record: --no-keep"),
        (("--space", "a b"), "'a b' is not a name"),
        (("--space", "x", "--no-keep"), "leave out one of them"),
    ],
)
def test_what_is_kept_and_how_is_said_once(table, words, said):
    table(TABLE)
    assert said in refused("judge", "runs.csv", "--metric", "loss", *words)


@pytest.mark.parametrize("verb", [("resume",), ("retry",), ("bundle",)])
def test_what_needs_trainings_says_that_a_table_has_none(table, verb):
    table(TABLE)
    invoke("judge", "runs.csv", "--metric", "loss")
    assert "runs is a judged table, whose runs were trained elsewhere" in refused(*verb, "runs")


def test_missing_seeds_and_lost_runs_are_notes_that_name_them(table):
    text = TABLE + "a,4,2.3\nb,4,nan\nc,1,\nc,2,2.3\nc,3,2.31\n"
    done = invoke("judge", table(text), "--metric", "loss")
    said = " ".join(done.stdout.split())
    assert done.exit_code == 0, done.output
    assert "counted as diverged: b at seed 4 (loss is nan)" in said
    assert "counted as missing, because the cell is empty: c at seed 1 (no loss)" in said
    assert "seed 4 not paired: not in the table after" in said and "seed 1 not paired: without a value after" in said
    assert "1 of 4 seeds diverged, 0 of 4 before" in said


def test_pairs_may_be_names(table):
    text = "model;task;acc\n" + "".join(f"{m};{t};{v}\n" for m, t, v in [
        ("x", "arc", 0.5), ("x", "piqa", 0.6), ("y", "arc", 0.55), ("y", "piqa", 0.66), ("y", "siqa", 0.4),
    ])  # fmt: skip
    done = invoke("judge", table(text), "--by", "model", "--pair", "task", "--metric", "acc:higher")
    said = " ".join(done.stdout.split())
    assert "seed siqa not paired: not in the table before" in said
    assert "its column task is called seed here" in said


def test_every_mistake_of_a_table_is_told_at_its_line(table):
    text = 'variant,seed,loss,k\na,0,2.1,3\na,1,oops,3\na,2,2.3,4\n"b,c",1,"1,5",0\n,2,2,2\nb,,2.2,1\n'
    said = refused("judge", table(text), "--metric", "loss", "--metric", "k:log", "--baseline", "z", "--margin", "lots")
    for message in (
        "'lots' is not a margin of loss",
        "no variant 'z' in runs.csv\n  = --baseline is one of: a, b,c",
        "loss of variant a at seed 1 is not a number: 'oops'\n --> runs.csv:3:5\n",
        "loss of variant b,c at seed 1 is not a number: '1,5'\n --> runs.csv:5:9\n",
        "k of variant b,c at seed 1 is 0, and ratios need numbers above zero\n --> runs.csv:5:15\n",
        "no variant\n --> runs.csv:6:1\n",
        "no seed\n --> runs.csv:7:3\n",
    ):
        assert message in said, message
    assert "  = " in said.rpartition("error:")[2]


def test_mistakes_are_json_too(table, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["ablate", "judge", table(TABLE + "b,4,x\n"), "--metric", "loss", "--json"])
    with pytest.raises(SystemExit, match="2"):
        main()
    (mistake,) = json.loads(capsys.readouterr().out)["mistakes"]
    assert (mistake["file"], mistake["line"], mistake["column"]) == ("runs.csv", 8, 5)


def test_a_page_that_cannot_be_written_leaves_one_json_text(table, monkeypatch, capsys):
    words = ["judge", table(TABLE), "--metric", "loss", "--page", "nowhere/runs.html", "--json"]
    monkeypatch.setattr("sys.argv", ["ablate", *words])
    with pytest.raises(SystemExit, match="2"):
        main()
    (mistake,) = json.loads(capsys.readouterr().out)["mistakes"]
    assert mistake["message"].startswith("cannot write nowhere/runs.html")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--by", "varient"], "runs.csv has no column 'varient'\n  = did you mean 'variant'?"),
        (["--metric", "los"], "runs.csv has no column 'los'\n  = did you mean 'loss'?"),
        (["--metric", "loss:hihger"], "'hihger' is not a setting of a metric\n  = did you mean 'higher'?"),
        (["--metric", "loss"], "--metric 'loss' is given twice"),
        (["--pair", "variant"], "--by and --pair are both 'variant'"),
        (["--diverged", "seed"], "seed is '2', or 1 other word, in 1 row more\n --> runs.csv:3:3"),
        (["--confidence", "2"], "the confidence cannot be 2"),
        (["--page", "out.pdf"], "give a name that ends in .html or .md"),
        (["--sql", "SELECT * FROM rows WHERE seed > 9"], "runs.csv has no rows"),
        (["--sql", "SELECT sed FROM rows"], "runs.csv: Binder Error"),
        (["--sql", "DROP TABLE rows"], "--sql only reads"),
        (["--sql", "FROM 'runs.csv'"], "SQL sees nothing else"),
        (["--sql", "SELECT * FROM rows WHERE variant = 'a'"], "runs.csv has only one variant: 'a'"),
    ],
    ids=str,
)
def test_what_is_asked_wrongly_is_told_with_a_way_out(table, words, said):
    told = refused("judge", table(TABLE), "--metric", "loss", *words)
    assert said in told and "\n" in told and " = " in told


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("runs.csv", "variant,seed,loss\n", "runs.csv has no rows"),
        ("runs.csv", "", "runs.csv has no rows"),
        ("runs.csv", "variant,seed,loss\na,1,2\nb,1\n", "2 cells, but the header has 3\n --> runs.csv:3:1"),
        ("runs.csv", "variant,seed,loss\na,1,2\na,2,2\n", "runs.csv has only one variant: 'a'"),
        ("runs.csv", 'variant,seed,loss\na,1,"2\n', "not CSV: unexpected end of data\n --> runs.csv:2:1"),
        ("runs.csv", "variant,loss,seed,loss\na,1,2,3\nb,1,2,3\n", "runs.csv has two columns 'loss'"),
        (
            "runs.jsonl",
            '{"variant": "a"}\n{"variant" "b"}\n',
            "not JSON: Expecting ':' delimiter\n --> runs.jsonl:2:12",
        ),
        ("runs.jsonl", "[1]\n", "not a JSON object\n --> runs.jsonl:1:1"),
        (
            "runs.jsonl",
            '{"variant": "a", "seed": 1, "loss": 1}\n{"variant": "b", "seed": 1, "loss": "x"}\n',
            "loss of variant b at seed 1 is not a number: 'x'\n --> runs.jsonl:2:37",
        ),
        (
            "runs.jsonl",
            '{"variant": "a", "seed": 1, "loss": 1}\n{"loss": 1, "variant": "b", "seed": 1, "loss": 2}\n',
            "error: the key 'loss' stands twice\n"
            " --> runs.jsonl:2:40\n"
            "  |\n"
            '2 | {"loss": 1, "variant": "b", "seed": 1, "loss": 2}\n'
            "  |                                        ^^^^^^\n"
            " ::: runs.jsonl:2:2\n",
        ),
        (
            "runs.jsonl",
            '{"variant": "a", "seed": 1, "loss": 1}\n{"variant": {"k": 1, "k": 2}, "seed": 1, "loss": 2}\n',
            "the key 'k' stands twice\n --> runs.jsonl:2:1\n",
        ),
        ("runs.jsonl", '[{"variant": 1, "variant": 2}]\n', "not a JSON object\n --> runs.jsonl:1:1\n"),
        ("runs.xls", "", "runs.xls does not have the name of a table"),
        ("runs.parquet", "no", "runs.parquet: "),
    ],
)
def test_what_is_no_table_is_said_so(table, name, text, said):
    told = refused("judge", table(text, name), "--metric", "loss")
    assert said in told and "Traceback" not in told


def test_a_file_that_is_not_there_or_no_text_is_said_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "there is no file runs.csv" in refused("judge", "runs.csv", "--metric", "loss")
    assert "no log is below" in refused("judge", ".", "--metric", "loss")
    Path("runs.csv").write_bytes(b"variant,seed,loss\na,1,2\nb,1,\xff\n")
    assert "runs.csv:3: byte 29 is not UTF-8" in refused("judge", "runs.csv", "--metric", "loss")


def test_every_kind_of_table_gives_the_same_verdicts(table):
    import duckdb
    import pandas
    import pyarrow

    frame = pandas.read_csv(table(TABLE))
    frame.to_parquet("ru[n]s.parquet")
    frame.to_json("runs.jsonl", orient="records", lines=True)
    frame.to_csv("runs.tsv", sep="\t", index=False)
    tables = [
        *("runs.csv", "ru[n]s.parquet", Path("runs.jsonl"), "runs.tsv", frame, pyarrow.Table.from_pandas(frame)),
        *(frame.to_dict("records"), duckdb.sql("FROM 'runs.csv'")),
    ]
    first, *others = [ablate.judge(one, metrics="loss", margin="1%") for one in tables]
    steps = "SELECT variant, seed, arg_max(loss, step) AS loss FROM (SELECT *, 1 AS step FROM rows) GROUP BY ALL"
    ordered = f"{steps} ORDER BY ALL"
    others += [ablate.judge(one, metrics="loss", margin=f"{1} %", sql=ordered) for one in tables[:3]]
    assert first.summary.effects[0].n == 3 and first.verdicts["verdict"].tolist() == ["better"]
    assert all(other.summary.effects == first.summary.effects for other in others)
    with pytest.raises(ablate.InputError, match="int is not a table"):
        ablate.judge(3, metrics="loss")
    with pytest.raises(ablate.InputError, match="row 2: loss of variant b at seed 1 is not a number: 'x'"):
        ablate.judge([{"variant": v, "seed": 1, "loss": x} for v, x in (("a", 1), ("b", "x"))], metrics="loss")


def test_what_nan_stands_for_in_a_data_frame_has_to_be_told(table):
    import pandas

    text = TABLE.replace("a,2,2.31", "a,2,").replace("b,3,2.18", "b,3,nan")
    frame = pandas.read_csv(table(text))
    with pytest.raises(ablate.InputError) as error:
        ablate.judge(frame, metrics="loss", margin="1%")
    message = str(error.value)
    assert "row 2: loss of variant a at seed 2 is NaN: a run that diverged, or an empty cell?" in message
    assert "row 6: loss of variant b at seed 3 is NaN" in message and "diverged=…" in message
    frame["lost"] = [False, False, False, False, False, True]
    told = ablate.judge(frame, metrics="loss", margin="1%", diverged="lost").summary
    by_text = ablate.judge("runs.csv", metrics="loss", margin="1%").summary
    assert told.effects == by_text.effects and [arm.diverged for arm in told.arms] == [0, 1]
    assert any("counted as missing, because the cell is empty: a at seed 2" in note for note in told.notes)
    records = frame.drop(columns="lost").to_dict("records")
    assert [arm.diverged for arm in ablate.judge(records, metrics="loss").summary.arms] == [1, 1], (
        "NaN of floats is one"
    )


def test_a_column_may_have_no_better_side(table):
    told = invoke("judge", table(TABLE), "--metric", "loss:none").output
    assert "lowers loss by 0.10" in told and "(lower)" in told and "neither side is better" in told
    assert "(better)" in invoke("judge", table(TABLE), "--metric", "loss").output  # the twin


def test_a_page_is_written_with_names_escaped(table):
    text = TABLE.replace("b,", "<b>x</b>,")
    for page in ("out.html", "out.md"):
        done = invoke("judge", table(text), "--metric", "loss", "--margin", "1%", "--page", page)
        assert done.exit_code == 0 and f"wrote {page}" in done.stderr
        written = Path(page).read_text(encoding="utf-8")
        assert "<b>x</b>" not in written and "better" in written and "-0.100" in written
    assert "parameters" not in Path("out.html").read_text(encoding="utf-8")


@pytest.mark.full
def test_the_table_that_the_manual_judges_gives_the_verdicts_that_it_shows(table):
    section = MANUAL["judge"]
    table(re.search(r"```csv\n(.*?)```", section, re.DOTALL)[1])
    commands = [shlex.split(line, comments=True) for line in re.findall(r"^ablate judge runs.csv .*$", section, re.M)]
    shown = re.search(r"```\n(• .*?)```", section, re.DOTALL)[1]
    first, *others = [invoke(*words[1:]) for words in commands]
    assert first.exit_code == 0, first.output
    assert len(others) >= 1 and all(other.exit_code == 0 for other in others), [other.output for other in others]
    lines = {line.rstrip() for line in first.stdout.splitlines()}
    assert len(shown.splitlines()) >= 5 and set(shown.splitlines()) <= lines
    code = re.search(r"```python\n(.*?)```", section, re.DOTALL)[1]
    exec(code, {})
