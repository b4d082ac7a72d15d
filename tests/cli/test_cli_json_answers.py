"""`resume --json`, `retry --json` and `sql --json` print one JSON text, whatever becomes of the runs and statements."""

from __future__ import annotations

import json
import math

import pytest
import typer
from store_fixtures import fill
from tiny_spaces import write_world

import ablate as package
from ablate.cli import main, training
from ablate.errors import InputError, RefusedError
from ablate.execute.controller import Interrupt
from ablate.report.screens import query


def strictly(text: str):
    def refuse(constant: str):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.fixture
def ablate(tmp_path, monkeypatch, capsys):
    """A command line in a folder with a tiny space; returns its exit code, its JSON and what else it says."""
    path = write_world(tmp_path, steps=1, seeds=1)
    text = path.read_text().replace("{path: {from: pre_ln, to: op}}", "{compare: [pre_ln, op]}")
    path.write_text(text.replace("[kurtosis, token_correlation, gradient_norm]", "[kurtosis]"))
    monkeypatch.chdir(tmp_path)

    def call(*words: str):
        monkeypatch.setattr("sys.argv", ["ablate", *words, "--json"])
        with pytest.raises(SystemExit) as left:
            main()
        printed = capsys.readouterr()
        return left.value.code or 0, strictly(printed.out), printed.err

    return call


PLACE = ("--executor", "inline", "--no-mlflow")


@pytest.mark.full
def test_a_run_is_stopped_and_resumed_and_then_there_is_nothing_to_do(ablate, monkeypatch):
    with monkeypatch.context() as stopping:
        stopping.setattr(Interrupt, "__call__", lambda self: True)
        code, answer, _ = ablate("run", "tiny.yaml", *PLACE)
    (mistake,) = answer["mistakes"]
    assert code == 130 and mistake["message"] == "stopped: 0 trials ended, 0 left in progress, 2 not started"
    code, answer, _ = ablate("resume")
    assert code == 0 and answer["mistakes"] == [] and [each["space"] for each in answer["resumed"]] == ["tiny"]
    assert [each["finished"] for each in answer["resumed"][0]["arms"]] == [1, 1]
    code, answer, said = ablate("resume")
    assert (code, answer) == (0, {"resumed": [], "mistakes": []}) and "nothing to resume in results" in said
    code, answer, said = ablate("retry")
    assert (code, answer) == (0, {"retried": [], "mistakes": []}) and "nothing to retry in results" in said


@pytest.mark.parametrize(("last", "code"), [("locked", 2), ("stopped", 130)])
def test_answers_of_several_runs_are_one_text_also_if_one_cannot_go_on(capsys, last, code):
    def train(run: str, answer) -> int:
        if run == "locked":
            raise RefusedError("locked\n  = wait for it")
        stopped = training._stopped("stopped. To resume:\n  wait for it")
        answer(stopped if run == "stopped" else json.dumps({"space": run}))
        return {"one": 0, "failing": 1, "stopped": 130}[run]

    with pytest.raises(typer.Exit) as left:
        training._train_each(("one", "failing", last, "never"), [InputError("not this")], train, "resumed")
    answer = strictly(capsys.readouterr().out)
    assert left.value.exit_code == code
    assert answer["resumed"] == [{"space": "one"}, {"space": "failing"}]
    found = {each["message"]: each["way_out"] for each in answer["mistakes"]}
    assert found == {last: ["wait for it"], "not this": []}


@pytest.mark.full
def test_an_error_behind_the_answer_leaves_one_text(ablate, monkeypatch):
    """The tracking server refuses what is sent when the answer is printed."""

    def refuse(*_: object) -> None:
        raise InputError("no such experiment")

    monkeypatch.setattr(training, "show_plan", lambda *words, **options: None)
    monkeypatch.setattr("ablate.session.running._finish", refuse)
    code, answer, said = ablate("run", "tiny.yaml", "--executor", "inline")
    assert code == 2 and answer["space"] == "tiny" and "error: no such experiment" in said


def test_numbers_that_are_not_finite_are_texts_at_any_depth():
    columns, row = ("n", "n", "s"), (math.nan, [1.0, -math.inf], {"a": {1: math.inf}})
    assert strictly(query.as_json(columns, [row])) == [
        {"n": "NaN", "n:2": [1.0, "-Infinity"], "s": {"a": {"1": "Infinity"}}}
    ]


SEVERAL = "SELECT 1 AS a; SELECT 2 AS b UNION ALL SELECT 3 ORDER BY b"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "a\n─\n1\n1 row\n\nb\n─\n2\n3\n2 rows\n"),
        (("--json",), [[{"a": 1}], [{"b": 2}, {"b": 3}]]),
        (("--format", "json"), [[{"a": 1}], [{"b": 2}, {"b": 3}]]),
        (("--format", "csv"), None),
        (("--format", "spreadsheet"), None),
    ],
)
def test_the_result_of_each_statement_is_shown_or_none(tmp_path, monkeypatch, capsys, words, said):
    fill(tmp_path)
    monkeypatch.setattr("sys.argv", ["ablate", "sql", SEVERAL, "--results", str(tmp_path), *words])
    with pytest.raises(SystemExit) as left:
        main()
    printed = capsys.readouterr()
    if said is None:
        assert (left.value.code, printed.out) == (2, "") and "this SQL has 2 statements" in printed.err
    else:
        shown = strictly(printed.out) if isinstance(said, list) else printed.out.replace(" \n", "\n")
        assert (left.value.code or 0, shown) == (0, said)


def test_tables_of_python_and_of_judge_are_of_one_statement(tmp_path):
    fill(tmp_path)
    (tmp_path / "runs.csv").write_text("variant,seed,loss\na,1,2\nb,1,3\n")
    for ask in (
        lambda: package.query(SEVERAL, results=tmp_path),
        lambda: package.judge(SEVERAL, metrics="loss", results=tmp_path),
        lambda: package.judge(tmp_path / "runs.csv", metrics="loss", sql="FROM rows; FROM rows WHERE seed < 0"),
    ):
        with pytest.raises(InputError, match="this SQL has 2 statements, and the answer is one table"):
            ask()
