"""`ablate retry`: what failed is trained again when it is asked for, and nothing else is."""

from __future__ import annotations

import pytest
from crashes import tables_of
from rich.console import Console
from staged_fixtures import all_of, write_looks
from tiny_spaces import write_world
from typer.testing import CliRunner

import ablate
from ablate.cli import app
from ablate.execute import work
from ablate.store.query import query

QUIET = {"executor": "inline", "console": Console(quiet=True), "mirror": False}


@pytest.fixture
def broken(tmp_path, monkeypatch):
    """A results folder in which a variant has failed at both seeds, by what has been mended since."""
    space = ablate.load_space(write_world(tmp_path))
    done = run_broken(space, tmp_path / "results", monkeypatch)
    assert done.ended.kinds == {"finished": 6, "bug": 2}
    return space, tmp_path / "results", [trial.id for trial, _ in done.failed]


def run_broken(space, results, monkeypatch):
    """A run in which the last variant fails at every seed."""
    victim, whole = ablate.check(space).variants[-1].id, work.train

    def train(model, trial, *rest, **more):
        if trial.variant == victim:
            raise ArithmeticError("a mistake")
        yield from whole(model, trial, *rest, **more)

    with monkeypatch.context() as patched:
        patched.setattr(work, "train", train)
        return ablate.run(space, results=results, **QUIET)


def retried(results, *words):
    done = CliRunner().invoke(app, ["retry", *words, "--results", str(results)])
    return done.exit_code, str(done.exception) + done.output


def attempts(results):
    return dict(query(results, "SELECT trial_id, attempt FROM trials").rows)


@pytest.mark.full
def test_what_failed_is_trained_again_and_nothing_else(broken, tmp_path):
    space, results, (first, second) = broken
    assert ablate.resumable(results) == ((), ()), "a run does not try them again by itself"
    code, text = retried(results, "--trial", first)
    assert code == 1 and f"retrying tiny: op, seed 0 (bug) {first}" in text, text
    assert f"(bug) {second}" not in text and "failed (bug): op, seed 1" in text
    code, text = retried(results, "tiny", "--outcome", "bug")
    assert code == 0 and f"retrying tiny: op, seed 1 (bug) {second}" in text, text
    ablate.run(space, results=tmp_path / "calm", **QUIET)
    assert tables_of(results) == tables_of(tmp_path / "calm")
    assert {id: n for id, n in attempts(results).items() if n != 1} == {first: 2, second: 2}
    assert retried(results)[1].endswith(f"nothing to retry in {results}: no trial has failed\n")


@pytest.mark.full
def test_what_has_not_failed_is_refused_with_what_has(broken):
    _, results, (first, second) = broken
    good = next(id for id in attempts(results) if id not in (first, second))
    listed = f"there are:\n  = bug: op, seed 0: {first}\n  = bug: op, seed 1: {second}"
    for words, reason in [
        (("--outcome", "timeout"), listed),
        (("--outcome", "bugs"), "'bugs' is not a kind of failure"),
        (("--trial", good), "has not failed: it is finished\n  = ablate status lists"),
        (("--trial", "0" * 16), "no trial '0000000000000000'"),
        (("large",), "no run of the space 'large'"),
    ]:
        code, text = retried(results, *words)
        assert code != 0 and reason in text, text
    assert set(attempts(results).values()) == {1}


@pytest.mark.full
def test_a_text_that_was_changed_since_is_another_question(broken, tmp_path):
    _, results, _ = broken
    (tmp_path / "texts" / "g0" / "0.txt").write_text("something else " * 200, encoding="utf-8")
    code, text = retried(results)
    assert code == 2 and "asks for other trials than when it was run" in text


@pytest.mark.full
def test_seeds_that_were_added_knowing_what_failed_are_counted_anew(tmp_path, monkeypatch):
    """A plan that learns from its trials goes back to its first look, and through those that follow."""
    space = ablate.load_space(write_looks(tmp_path, looks="[2, 3]"))
    run_broken(space, tmp_path / "results", monkeypatch)
    code, text = retried(tmp_path / "results")
    assert code == 0 and text.count("retrying tiny: op") == 3, text
    ablate.run(space, results=tmp_path / "calm", **QUIET)
    assert all_of(tmp_path / "results") == all_of(tmp_path / "calm")
