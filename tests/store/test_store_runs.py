"""How runs were asked for is kept twice, and got back: `resume` finds them. What is lost is said to be."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest
from attacks import flip, half_way
from store_fixtures import DOCUMENTS, opened, plan

from ablate.errors import RefusedError
from ablate.session.resuming import resumable
from ablate.store import checksummed_lines, ledger, requests
from ablate.store.repair import repair
from ablate.store.requests import Request


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs") / "results"
    half_way(place)
    return place


@pytest.fixture
def folder(made, tmp_path):
    return shutil.copytree(made, tmp_path / "results")


def request(at: float, space: str = "small", **more: object) -> Request:
    return Request(space=space, path=f"/spaces/{space}.yaml", settings=(f"recipe.steps={at:g}",), at=at, **more)


def repaired(folder):
    said: list[str] = []
    return repair(folder, dry_run=False, say=said.append)


def without_copies(folder):
    """As a version wrote it that kept each once."""
    path = folder / ledger.PLANS
    bodies = [body for body in checksummed_lines.read(path).bodies if not body.startswith(b'["run"')]
    path.write_bytes(b"".join(map(checksummed_lines.framed, bodies)))


@pytest.mark.full
@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_flipped_bit_in_a_run_loses_nothing(folder, which):
    asked = [request(1.0), request(2.0, "other"), request(3.0)]
    for one in asked:
        requests.record(folder, one)
    before, path = requests.latest(folder), folder / requests.FILE
    whole = path.read_bytes()
    flip(path, whole.splitlines(keepends=True)[0].__len__() * which + 40)
    assert requests.latest(folder) == before, "also before the doctor was there"
    (found,) = repair(folder, dry_run=True).to_repair
    assert (found.kind, found.severity, found.line) == ("damaged line", "repaired", which + 1)
    assert found.remedy.endswith("; it is recovered from plans.jsonl")
    findings = repaired(folder)
    assert findings.exit_code == 0 and findings.left == ()
    assert path.read_bytes() == whole and requests.latest(folder) == before
    assert repair(folder, dry_run=True).to_repair == ()


@pytest.mark.full
def test_a_run_whose_file_is_gone_is_found_and_written_again(folder):
    requests.record(folder, request(1.0))
    whole = (folder / requests.FILE).read_bytes()
    (folder / requests.FILE).unlink()
    (found,) = repair(folder, dry_run=True).to_repair
    assert (found.kind, found.severity, found.what) == ("request", "repaired", "is missing")
    assert repaired(folder).exit_code == 0
    assert (folder / requests.FILE).read_bytes() == whole


@pytest.mark.full
def test_a_flipped_bit_in_the_copy_is_got_back_from_the_run(folder):
    requests.record(folder, request(1.0))
    path = folder / ledger.PLANS
    whole = path.read_bytes()
    flip(path, len(whole) - 20)
    (found,) = repair(folder, dry_run=True).to_repair
    assert (found.severity, found.remedy.partition("; ")[2]) == ("repaired", "it is recovered from runs.jsonl")
    assert repaired(folder).exit_code == 0
    assert path.read_bytes() == whole


@pytest.mark.full
def test_a_run_that_only_the_plan_knows_is_lost_and_its_file_found_by_its_text(folder, tmp_path):
    requests.record(folder, request(1.0))
    without_copies(folder)
    with opened(folder) as results:
        results.refresh()
    flip(folder / requests.FILE, 40)
    lost = [found for found in repair(folder, dry_run=True).findings if found.severity == "lost"]
    assert [(found.kind, found.line) for found in lost] == [("damaged line", 1), ("request", None)]
    assert lost[0].remedy.endswith("; how that run was requested is no longer known")
    assert (lost[1].what, lost[1].remedy) == (
        "no longer says how small was run",
        "run it again with `ablate run`",
    )
    assert repaired(folder).exit_code == 1
    assert requests.latest(folder) == {}
    refused = resumable(folder, pytest.fail)[1]
    assert [str(one).splitlines()[0] for one in refused] == [f"{folder / requests.FILE} does not say how small was run"]
    with pytest.raises(RefusedError, match="does not say how small was run\n  = `ablate doctor"):
        resumable(folder, pytest.fail, "small")


def test_the_file_of_a_plan_is_known_by_its_text(tmp_path):
    known = ledger.KeptPlans({"small": ("d", {"trials": [["t", "v", 0]], "source": DOCUMENTS.source})}, {})
    assert requests.found_again(known, {}) == {"small": None}
    there = ledger.KeptPlans(known.plans, {"t": {"folder": str(tmp_path)}})
    assert requests.found_again(there, {}) == {"small": None}
    (tmp_path / "a.yaml").write_text("another: text")
    (tmp_path / "b.yaml").write_text(DOCUMENTS.source, encoding="utf-8")
    (tmp_path / "c.yml").mkdir()
    assert requests.found_again(there, {})["small"].path == str(tmp_path / "b.yaml")
    assert requests.found_again(there, {"small": request(1.0)}) == {}


def test_what_one_file_has_lost_stands_where_it_stood(tmp_path):
    asked = [request(float(at), "ab"[at % 2]) for at in range(6)]
    for one in asked:
        requests.record(tmp_path, one)
    bodies = checksummed_lines.read(tmp_path / requests.FILE).bodies
    for gone in range(6):
        left = b"".join(checksummed_lines.framed(body) for place, body in enumerate(bodies) if place != gone)
        (tmp_path / requests.FILE).write_bytes(left)
        found = requests.kept(
            checksummed_lines.read(tmp_path / requests.FILE), checksummed_lines.read(tmp_path / ledger.PLANS)
        )
        assert [one.at for one in found] == [one.at for one in asked]


def test_a_run_is_kept_beside_the_plan_that_it_is_of(folder):
    with opened(folder) as results:
        results.record_plan(plan(seeds=(0,)), DOCUMENTS)
        requests.record(folder, request(1.0))
        results.record_plan(plan(), DOCUMENTS)
    assert requests.latest(folder)["small"].at == 1.0
    assert ledger.kept_plans(checksummed_lines.read(folder / ledger.PLANS)).plans["small"][1]["seeds"] == [0, 1]


def test_the_command_of_a_run_says_all_that_it_was_asked_with(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plain = Request(space="small", path=str(tmp_path / "small.yaml"))
    assert requests.command(plain, Path("results")) == "ablate run small.yaml"
    asked = Request(
        space="small",
        path=str(tmp_path / "small.yaml"),
        profile="quick",
        settings=("seeds=3", "question=why now"),
        plugins=("/a/one.py", "/a/two.py"),
    )
    assert shlex.split(requests.command(asked, Path("elsewhere"))) == [
        *("ablate", "run", "small.yaml", "--profile", "quick"),
        *("--set", "seeds=3", "--set", "question=why now", "--plugin", "/a/one.py", "--plugin", "/a/two.py"),
        *("--results", "elsewhere"),
    ]
