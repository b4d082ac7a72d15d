"""A run is recorded with the commit of the repository that its space is in, and the page says it."""

from __future__ import annotations

from pathlib import Path

import git
import pytest
from tiny_spaces import write_world

from ablate import api
from ablate.execute.executor import ExecutorOptions
from ablate.session import reporting
from ablate.session.running import commit_of, run
from ablate.store.snapshot import Snapshot


@pytest.fixture
def repository(tmp_path: Path) -> git.Repo:
    made = git.Repo.init(tmp_path)
    write_world(tmp_path, steps=4, seeds=2)
    made.git.add(all=True)
    made.index.commit("a space", author=git.Actor("a", "a@b.c"), committer=git.Actor("a", "a@b.c"))
    return made


@pytest.mark.full
def test_the_page_says_the_commit_and_the_day(repository: git.Repo, tmp_path: Path) -> None:
    space, results = api.load_space(tmp_path / "tiny.yaml"), tmp_path / "results"
    run(space, results=results, options=ExecutorOptions(executor="inline"), mirror=False)
    assert Snapshot(results).requests["tiny"].commit == repository.head.commit.hexsha
    written = reporting.report(space, results=results)
    page = written.html.read_text(encoding="utf-8")
    assert f"commit {repository.head.commit.hexsha[:10]}" in page and "trained 20" in page
    assert written.record is not None and {one.metric for one in written.record.differences} >= {"eval_loss"}


def test_a_changed_file_is_told(repository: git.Repo, tmp_path: Path) -> None:
    path = tmp_path / "tiny.yaml"
    assert commit_of(path) == repository.head.commit.hexsha
    path.write_text(path.read_text() + "\n# another\n")
    assert commit_of(path) == f"{repository.head.commit.hexsha}, with changes"


def test_outside_of_any_repository_there_is_none(tmp_path: Path) -> None:
    assert commit_of(tmp_path / "a.yaml") is None
    empty = git.Repo.init(tmp_path / "empty")
    assert commit_of(Path(empty.working_dir) / "a.yaml") is None
