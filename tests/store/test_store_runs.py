"""How runs were requested is kept, and got back: `resume` finds them. What is lost is said to be."""

from __future__ import annotations

import shlex
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from store_fixtures import DOCUMENTS, opened, plan

from ablate.errors import RefusedError
from ablate.session.earlier_runs import resumable
from ablate.store import files, records
from ablate.store.projection import DATABASE
from ablate.store.records import Request
from ablate.store.repair import repair
from ablate.store.snapshot import Snapshot


def request(at: float, space: str = "small", **more: object) -> Request:
    return Request(space=space, path=f"/spaces/{space}.yaml", settings=(f"recipe.steps={at:g}",), at=at, **more)


@pytest.fixture
def folder(tmp_path):
    """A plan that was asked for in three runs, of which the second was of another space."""
    with opened(tmp_path) as results:
        results.record_plan(plan(), DOCUMENTS)
        for one in (request(1.0), request(2.0, "other"), request(3.0)):
            records.record_request(tmp_path, one)
        results.refresh()
    return tmp_path


def test_the_last_run_of_each_space_counts_and_the_same_again_is_once(folder):
    assert list(Snapshot(folder).requests.values()) == [request(2.0, "other"), request(3.0)]
    before = files.names(folder, "runs")
    records.record_request(folder, request(3.0))
    assert files.names(folder, "runs") == before and len(before) == 3
    records.record_request(folder, request(4.0, "other"))
    assert list(Snapshot(folder).requests) == ["small", "other"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("harm", [None, b"", b"{}"], ids=["gone", "emptied", "changed"])
@pytest.mark.parametrize("by", ["doctor", "a run"])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_lost_run_comes_back_from_the_database(folder, which, by, harm):
    before, documents = Snapshot(folder).requests, files.documents(folder, "runs")[0]
    name, said = documents[which].name, []
    whole = (folder / name).read_bytes()
    (folder / name).unlink() if harm is None else (folder / name).write_bytes(harm)
    (found,) = repair(folder, dry_run=True).to_repair
    assert (found.kind, found.severity, found.where) == ("request", "repaired", folder / name)
    if by == "doctor":
        done = repair(folder, dry_run=False, say=said.append)
        assert (done.exit_code, done.left, said) == (0, (), [])
    else:
        with opened(folder, say=said.append):
            pass
        assert [told.rpartition("; ")[2] for told in said] == [f"recovered from {DATABASE}"]
    assert (folder / name).read_bytes() == whole and Snapshot(folder).requests == before
    assert repair(folder, dry_run=True).to_repair == ()


@pytest.mark.full
def test_a_run_that_nothing_knows_is_lost_and_resume_says_so(folder):
    names = [one.name for one in files.documents(folder, "runs")[0] if one.content["space"] == "small"]
    for name in (*names, DATABASE):
        (folder / name).unlink()
    done = repair(folder, dry_run=False, say=pytest.fail)
    assert [(found.kind, found.what) for found in done.lost] == [("request", "is gone")] * 2
    assert "run it again with `ablate run`" in done.lost[0].remedy and done.exit_code == 1
    assert repair(folder, dry_run=True).exit_code == 0, "it is told once"
    refused = resumable(folder)[1]
    assert [str(one).splitlines()[0] for one in refused] == [
        f"{folder} does not say how small was run",
        "error: cannot read '/spaces/other.yaml': no such file or directory",  # of a run that has no plan
    ]
    with pytest.raises(RefusedError, match="does not say how small was run\n  = `ablate doctor"):
        resumable(folder, "small")


def test_a_run_written_by_a_newer_version_is_read_without_what_is_new(tmp_path):
    asked = request(1.0, place={"name": "local", "workers": 2})
    files.keep(tmp_path, "runs", {**asdict(asked), "moon": "full"}, 1)
    assert Snapshot(tmp_path).requests == {"small": asked}


def test_the_command_of_a_run_says_all_that_it_was_asked_with(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plain = Request(space="small", path=str(tmp_path / "small.yaml"))
    assert records.run_command(plain, Path("results")) == "ablate run small.yaml"
    asked = Request(
        space="small",
        path=str(tmp_path / "small.yaml"),
        profile="quick",
        settings=("seeds=3", "question=why now"),
        plugins=("/a/one.py", "/a/two.py"),
    )
    assert shlex.split(records.run_command(asked, Path("elsewhere"))) == [
        *("ablate", "run", "small.yaml", "--profile", "quick"),
        *("--set", "seeds=3", "--set", "question=why now", "--plugin", "one.py", "--plugin", "two.py"),
        *("--results", "elsewhere"),
    ]
    typed = replace(asked, typed=("spaces/small.yaml", "one.py", "own/two.py"))
    assert records.run_command(typed, tmp_path / "results") == (
        "ablate run spaces/small.yaml --profile quick --set seeds=3 --set 'question=why now' --plugin one.py "
        "--plugin own/two.py"
    ), "as it was typed, from whatever folder it is read"
