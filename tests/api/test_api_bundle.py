"""Bundles of a search with a plugin of the author's, and of a ladder with rates tuned at each size: the same bytes each
time they are made, and read on a copied path where nothing else is.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from kept_worlds import write_project
from rich.console import Console
from search_runs import design
from tiny_spaces import ROOT, write_world

import ablate
from ablate.session.bundling import write_bundle
from ablate.session.verifying import verify

LADDER = (
    "design={ladder: {compare: [pre_ln, op], sizes: [{model.width: 8}, {model.width: 16}, {model.width: 24}], "
    "next: {model.width: 32}}}"
)
RATES = "fair={tune: {lr: [1e-3, 3e-3], seeds: 1}}"
MAIN = "import sys; from ablate.cli.app import main; sys.argv[0] = 'ablate'; main()"

pytestmark = pytest.mark.full


def said(where: Path, *words: str, code: int = 0) -> str:
    run = subprocess.run(
        [sys.executable, "-c", MAIN, *words], cwd=where, capture_output=True, text=True, check=False
    )  # fmt: skip
    assert run.returncode == code, run.stdout + run.stderr
    return run.stdout


def searched(folder: Path) -> Path:
    write_project(folder)
    plugin = folder / "pool.py"
    settings = [design("random", trials=6), "seeds=[0]"]
    space = ablate.load_space(folder / "spaces" / "tiny.yaml", settings=settings, plugins=[plugin])
    ablate.run(
        space,
        results=folder / "results",
        executor="inline",
        plugins=[plugin],
        console=Console(quiet=True),
        mirror=False,
    )
    return folder / "results"


def laddered(folder: Path) -> Path:
    space = ablate.load_space(write_world(folder), settings=[LADDER, RATES, "seeds=2"])
    ablate.run(space, results=folder / "results", executor="inline", console=Console(quiet=True), mirror=False)
    return folder / "results"


@pytest.mark.parametrize("made", [searched, laddered])
def test_it_is_made_twice_the_same_and_read_where_nothing_else_is(made, tmp_path, monkeypatch):
    home, place = tmp_path / "author", tmp_path / "reader"
    home.mkdir()
    place.mkdir()
    monkeypatch.chdir(home)
    results = made(home)
    for name in ("one.zip", "two.zip"):
        write_bundle("tiny", place / name, results=results)
    assert (place / "one.zip").read_bytes() == (place / "two.zip").read_bytes()
    assert str(home).encode() not in (place / "one.zip").read_bytes()
    rows = ablate.query("SELECT trial_id, name, value FROM numbers ORDER BY ALL", results=results)
    monkeypatch.chdir(ROOT)
    shutil.rmtree(home)

    checks = json.loads(said(place, "verify", "one.zip", "--trust", "--json"))["checks"]
    assert {check["answer"] for check in checks} == {"right"}
    assert {"seals", "plan", "page"} <= {check["check"] for check in checks}
    if made is searched:
        (told,) = (check for check in verify(place / "one.zip").checks if check.check == "plan")
        assert told.answer == "told" and "runs the code of pool.py" in told.what
    said(place, "load", "one.zip")
    said(place, "report", "tiny")
    assert (place / "results" / "pages" / "tiny.html").exists()
    steps = "step_seconds", "tokens_per_second", "seconds"  # clocks are kept, too, but not in all readers
    loaded = ablate.query("SELECT trial_id, name, value FROM numbers ORDER BY ALL", results=place / "results")
    assert len(rows) == len(loaded) > 0
    same = ~rows["name"].isin(steps)
    assert rows[same].equals(loaded[~loaded["name"].isin(steps)])


def test_what_was_judged_in_another_space_travels_with_it(tmp_path, monkeypatch):
    """An arm alone, judged before among three in another space: the reader comes to the same verdicts."""
    home, place = tmp_path / "author", tmp_path / "reader"
    home.mkdir()
    place.mkdir()
    monkeypatch.chdir(home)
    path = write_world(home, steps=8)
    other = home / "other.yaml"
    other.write_text(path.read_text(encoding="utf-8").replace("space: tiny", "space: other"), encoding="utf-8")
    for file, arms in ((path, "pre_ln, op, sas, sas_p"), (other, "pre_ln, op")):
        space = ablate.load_space(file, settings=[f"design={{compare: [{arms}]}}", "seeds=3"])
        run = ablate.run(space, results=home / "results", executor="inline", console=Console(quiet=True), mirror=False)
    assert "judged before, among 3: leaving arms out changes nothing" in " ".join(run.summary.notes)
    write_bundle("other", place / "other.zip", results=home / "results")
    monkeypatch.chdir(ROOT)
    checks = json.loads(said(place, "verify", "other.zip", "--json"))["checks"]
    assert {check["answer"] for check in checks} == {"right"} and "verdicts" in {check["check"] for check in checks}
    own = tmp_path / "own"
    own.mkdir()
    shutil.copytree(home / "texts", own / "texts")
    shutil.copy(other, own / "other.yaml")
    space = ablate.load_space(own / "other.yaml", settings=["design={compare: [pre_ln, op]}", "seeds=2"])
    ablate.run(space, results=own / "results", executor="inline", console=Console(quiet=True), mirror=False)
    loaded = ablate.load_bundle(place / "other.zip", results=own / "results")
    assert "this folder has judged 2 comparisons of it, too: the judgements of both count" in loaded.notes
    said(place, "load", "other.zip")
    rows = ablate.query("SELECT state, family FROM accounts WHERE space = 'other'", results=place / "results")
    assert set(map(tuple, rows.itertuples(index=False))) == {("settled", 3)}
