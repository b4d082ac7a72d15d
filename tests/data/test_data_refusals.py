"""What is wrong with a corpus is shown where the space says it, or the option that was laid over that."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from tiny_spaces import write_world

from ablate import api
from ablate.data.sources import CorpusError, CorpusFault
from ablate.errors import AblateError, RefusedError

FILES = 'files: ["texts/**/*.txt"]'


@pytest.fixture
def space(tmp_path, monkeypatch):
    """Writes a tiny space with this in the place of its corpus, and reads it."""
    path = write_world(tmp_path)
    monkeypatch.chdir(tmp_path)

    def read(corpus=FILES, settings=()):
        path.write_text(path.read_text().replace(f"{{{FILES}}}", f"{{{corpus}}}"))
        return api.load_space("tiny.yaml", settings=settings)

    return read


def refused(ask, *words, **options) -> str:
    with pytest.raises(RefusedError) as refusal:
        ask(*words, **options)
    return str(refusal.value)


@pytest.mark.parametrize("ask", [api.check, api.plan_space])
def test_each_pattern_that_matches_nothing_is_shown_in_the_space(space, ask):
    told = refused(ask, space("files: ['texts/**/*.txt', 'txts/*.txt', 'texts/*.md']"))
    first, second = told.split("\n\n")
    assert first.startswith("error: no file matches 'txts/*.txt'\n --> tiny.yaml:")
    assert f"^^^^^^^^^^^^ there is no {Path.cwd() / 'txts'}" in first
    assert "^^^^^^^^^^^^ nothing there matches" in second


def test_a_tilde_is_the_home_and_is_looked_at(space, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    told = refused(api.check, space("files: [~/mine/*/*.txt]"))
    assert "no file matches '~/mine/*/*.txt'" in told and "tiny.yaml:" in told
    assert f"there is no {tmp_path / 'home'}" in told
    for folder in "abc":
        (tmp_path / "home" / "mine" / folder).mkdir(parents=True)
        (tmp_path / "home" / "mine" / folder / "one.txt").write_text("text")
    assert api.check(space("files: [~/mine/*/*.txt]")) is not None


def test_a_pattern_that_matches_from_elsewhere_is_told_how_to_write_it(space, tmp_path, monkeypatch):
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "one.txt").write_text("text")
    space("files: ['one.txt']")
    monkeypatch.chdir(tmp_path / "below")
    told = refused(api.check, api.load_space(tmp_path / "tiny.yaml"))
    assert f"patterns start from the folder of the space, {tmp_path}" in told
    assert f"it matches from your current folder: write {tmp_path / 'below' / 'one.txt'}" in told


def test_files_without_a_byte_are_no_text(space, tmp_path):
    for name in "abcd":
        (tmp_path / f"{name}.txt").write_text("")
    assert "contains no text: 4 empty\n --> tiny.yaml:" in refused(api.check, space("files: ['?.txt']"))


def test_too_few_folders_are_counted_rightly(space):
    told = refused(api.check, space("files: ['texts/g0/0.txt', 'texts/g0/1.txt']"))
    assert "has 2 folders of text (0.txt, 1.txt), but 3 are needed: one each for train, tuning, verdict" in told
    assert "tiny.yaml:" in told and "(s)" not in told


def test_a_corpus_that_is_too_small_for_an_option_is_shown_at_the_option(space):
    told = refused(api.plan_space, space(settings=["model.context=16384"]))
    assert told.startswith("error: files texts/**/*.txt is too small\n --> --set:1:7")
    assert " ::: tiny.yaml:" in told
    assert "1 | model.context=16384" in told


def test_a_corpus_that_is_too_small_is_shown_where_it_is_named(space, tmp_path):
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text("text")
    told = refused(api.plan_space, space("files: ['?.txt']"))
    assert "files ?.txt is too small\n --> tiny.yaml:6:8" in told
    assert "= train has 5 tokens in 1 text, but a batch of 4 x (16 + 1) needs 68" in told


def test_a_mistake_and_a_missing_corpus_are_told_together(space):
    with pytest.raises(AblateError) as refusal:
        api.check(space("files: ['nowhere/*']", settings=["model.causal=false"]))
    assert [mistake.file for mistake in refusal.value.mistakes] == ["--set", "tiny.yaml"]


def test_a_data_set_of_the_hub_is_not_asked_for_by_check(space, monkeypatch):
    import datasets

    monkeypatch.setattr(datasets, "load_dataset", lambda *a, **k: pytest.fail("asked the hub"))
    assert api.check(space("hub: nobody/nothing, split: train, field: text")) is not None


def test_a_refused_corpus_comes_through_a_process(space):
    error = CorpusError([CorpusFault("no text", label="nothing there", notes=("write some",))])
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.faults) == (str(error), error.faults)
    assert again.mistakes[0].way_out == ("nothing there", "write some")
