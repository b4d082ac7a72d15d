"""What decided a result is kept with it: `report`, `resume` and `retry` need none of the author's files, no page of a
plan is overwritten by another plan, and nothing that is shown says where on a machine the files were.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from kept_worlds import RUN, ablate, write_project
from tiny_spaces import ROOT

from ablate.execute.controller import Interrupt
from ablate.store import files, records
from ablate.store.files import SOURCES as FOLDER
from ablate.store.snapshot import Snapshot


@pytest.fixture(scope="module")
def author(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that was run and reported in its own folder."""
    folder = tmp_path_factory.mktemp("author")
    write_project(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        done(*RUN, "--no-mlflow")
        done("report", "tiny")
    return folder


@pytest.fixture
def elsewhere(author: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of results alone, as another user has it; nothing of the author is left meanwhile."""
    shutil.copytree(author / "results", tmp_path / "copied")
    monkeypatch.chdir(tmp_path)
    author.rename(author.with_name("away"))
    yield tmp_path
    author.with_name("away").rename(author)


@pytest.fixture
def project(author: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the whole project, to be edited; its paths are known from how they were typed alone."""
    shutil.copytree(author, tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    lines = files.documents(Path("results"), "runs")[0][-1].content["path"].encode()
    assert str(author).encode() in lines, "what finds the files again is kept"
    ran = Snapshot(Path("results")).requests["tiny"]
    here = {"path": str(Path("spaces/tiny.yaml").resolve()), "plugins": (str(Path("pool.py").resolve()),)}
    moved = records.Request(**{**{name: getattr(ran, name) for name in ran.__slots__}, **here, "at": ran.at + 1})
    records.record_request(Path("results"), moved)
    return tmp_path / "project"


def done(*words: str, code: int = 0) -> str:
    """Give a command; return all that it printed."""
    ran = ablate(*words)
    said = f"{ran.output}{ran.exception or ''}"
    if code == 0:
        assert ran.exit_code == 0, said
    return said


def pages(results: str = "results") -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(Path(results, "pages").iterdir())}


def edit(file: str, before: str, after: str) -> None:
    text = Path(file).read_text(encoding="utf-8")
    assert before in text
    Path(file).write_text(text.replace(before, after), encoding="utf-8")


def test_a_copied_folder_is_reported_without_the_files_of_its_author(author: Path, elsewhere: Path) -> None:
    before = pages("copied")
    shutil.rmtree("copied/pages")
    said = done("report", "tiny", "--results", "copied")
    assert "note" not in said
    now = pages("copied")
    assert now["tiny.md"] == before["tiny.md"].replace("--plugin pool.py", "--plugin pool.py --results copied")
    told = json.dumps(json.loads(done("report", "tiny", "--results", "copied", "--json")))
    for text in (*now.values(), *before.values(), told, said):
        for place in (author, elsewhere, author.parent, ROOT, Path.home()):
            assert str(place) not in text
    assert "ablate run spaces/tiny.yaml --set seeds=2 --plugin pool.py" in now["tiny.md"]
    assert "tiny: 4 finished" in done("status", "--results", "copied")
    assert "nothing to resume" in done("resume", "--results", "copied")
    assert "note: tiny is planned as it was run" in done("plan", "tiny", "--results", "copied")
    note, _, planned = done("plan", "tiny", "--results", "copied", "--json").partition("\n")
    assert note.startswith("note: ") and [trial["known"] for trial in json.loads(planned)["trials"]] == [True] * 4
    assert "there is no space 'tiny'" in done("plan", "tiny", "--results", "copied", "--set", "seeds=3", code=2)
    assert "finished" in done("sql", "SELECT DISTINCT status FROM trials", "--results", "copied")


@pytest.mark.full
def test_mlflow_says_nothing_of_where_it_ran(author: Path, project: Path) -> None:
    import sqlite3

    done(*RUN)
    with sqlite3.connect(project / "results" / "mlflow.db") as store:
        told = [
            text
            for table in ("tags", "params", "experiment_tags")
            for (text,) in store.execute(f"SELECT value FROM {table}")
        ]
    assert any("half_norm" in text for text in told)
    places = [str(place) for place in (author, project, ROOT)]
    assert [text for text in told if any(place in text for place in places)] == []


@pytest.fixture
def stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The results of a run that was stopped, and of the author only the texts, where they were."""
    write_project(tmp_path / "author")
    monkeypatch.chdir(tmp_path / "author")
    with pytest.MonkeyPatch.context() as patch:
        calls = count()
        patch.setattr(Interrupt, "__call__", lambda self: setattr(self, "requested", next(calls) > 8) or self.requested)
        assert "To resume:" in done(*RUN, "--no-mlflow", code=130)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "author" / "results").rename("copied")
    (tmp_path / "author" / "spaces" / "texts").rename("texts")
    shutil.rmtree("author")
    (tmp_path / "author" / "spaces").mkdir(parents=True)
    Path("texts").rename(tmp_path / "author" / "spaces" / "texts")
    return tmp_path


@pytest.mark.full
def test_what_had_not_ended_is_trained_from_what_is_kept(stopped: Path) -> None:
    """Workers import the plugin that the folder keeps; a run that is repeated says what it was asked with first."""
    before = Snapshot(Path("copied")).requests["tiny"]
    done("resume", "--results", "copied", "--executor", "local", "--workers", "1", "--no-mlflow")
    assert "tiny: 4 finished" in done("status", "--results", "copied")
    now = Snapshot(Path("copied")).requests["tiny"]
    assert (now.path, now.plugins, now.typed) == (before.path, before.plugins, before.typed)
    done("report", "tiny", "--results", "copied")
    assert [*pages("copied")] == ["tiny.html", "tiny.md"]


@pytest.mark.full
def test_where_texts_are_gone_the_tokens_that_are_kept_of_them_are_read(stopped: Path) -> None:
    trials = [each["trial"] for each in Snapshot(Path("copied")).plans.specifications.values()]
    shutil.rmtree("author")
    said = done("resume", "--results", "copied", "--executor", "local", "--workers", "1", "--no-mlflow")
    assert "no file matches 'texts/**/*.txt': the tokens that the results keep of it are read" in " ".join(said.split())
    assert "tiny: 4 finished" in done("status", "--results", "copied")
    assert {*Snapshot(Path("copied")).endings} == {*trials}


@pytest.mark.full
def test_texts_and_tokens_that_are_gone_are_named(stopped: Path) -> None:
    shutil.rmtree("author")
    for tokens in Path("copied", "corpus").glob("*.tokens"):
        tokens.unlink()
    said = done("resume", "--results", "copied", "--no-mlflow", code=2)
    assert "no file matches 'texts/**/*.txt'" in said and "Traceback" not in said


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("file", "before", "after", "told"),
    [
        ("spaces/tiny.yaml", "lr: 1e-3", "lr: 2e-3", "spaces/tiny.yaml (recipe.optimizer.adamw.lr) has"),
        ("spaces/tiny.yaml", "space: tiny", "space: [", "spaces/tiny.yaml (it cannot be read as it is now) has"),
        ("spaces/tiny.yaml", "space: tiny", "# A comment\nspace: tiny", ""),
        ("grammars/own.yaml", "eps: 1e-8", "eps: 1e-7", "grammars/own.yaml has"),
        ("grammars/transformer/mup.yaml", "paper: ", "paper: not ", "grammars/transformer/mup.yaml has"),
        ("pool.py", "x.cumsum(1) / seen", "x.cumsum(1)", "pool.py has"),
        ("pool.py", "from torch import nn", "from torch import nn  # layers", ""),
        ("spaces/letters.json", '"version"', ' "version"', "spaces/letters.json has"),
    ],
)
def test_what_has_changed_since_is_told_and_the_page_stays(
    project: Path, file: str, before: str, after: str, told: str
) -> None:
    was = pages()
    edit(file, before, after)
    said = done("report", "tiny")
    note = f"note: {told} changed since tiny was run: this page is of the run\n"
    assert (note in said) if told else ("note" not in said)
    assert pages() == was


@pytest.mark.full
@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        ("spaces/tiny.yaml", "lr: 1e-3", "lr: 2e-3"),
        ("pool.py", "x.cumsum(1) / seen", "x.cumsum(1)"),
        ("grammars/own.yaml", "hidden: 4x", "hidden: 3x"),
        ("spaces/texts/g0/0.txt", "x", "z"),
    ],
)
def test_what_is_run_after_a_change_has_a_page_of_its_own(project: Path, file: str, before: str, after: str) -> None:
    was = pages()
    edit(file, before, after)
    refused = done("report", *RUN[1:-2], code=2)
    assert (pages().keys() == was.keys() and pages() == was) or "Preliminary" in refused
    done(*RUN, "--no-mlflow")
    done("report", "tiny")
    now = pages()
    assert {name: now[name] for name in was} == was
    ((page,),) = [[name for name in now.keys() - was.keys() if name.endswith(".html")]]
    assert re.fullmatch(r"tiny\.[0-9a-f]{8}\.html", page)
    if file != "spaces/tiny.yaml":
        return
    done(*RUN, "--no-mlflow"), done("report", "tiny")
    assert pages().keys() == now.keys(), "a plan that is run again has the page that it had"
    edit(file, after, before)
    done("report", *RUN[1:-2])
    assert pages().keys() == now.keys() and pages()["tiny.md"] == was["tiny.md"]


def test_each_file_is_kept_once_and_one_that_is_lost_is_named(elsewhere: Path) -> None:
    kept = {path.name: path for path in Path("copied", FOLDER).iterdir()}
    assert all(re.fullmatch("[0-9a-f]{16}", name) for name in kept)
    plugin = next(path for path in kept.values() if path.read_bytes().startswith(b'"""Pool'))
    said = plugin.read_bytes()
    for content, how in ((None, "is gone"), (b"import os", "is not as it was written: some of its bytes have changed")):
        plugin.unlink() if content is None else plugin.write_bytes(content)
        told = done("report", "tiny", "--results", "copied", code=2)
        assert f"lost: sources/{plugin.name} {how}: it was 1/pool.py, one of the files with which tiny was run" in told
    plugin.write_bytes(said)
    done("report", "tiny", "--results", "copied")
