import json
import logging
import multiprocessing
import os
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from data_library import data, pretend_library

from ablate.data.cache import load_tokens, store_tokens, sweep, write_whole
from ablate.data.sources import SPLITS, CorpusError
from ablate.data.streams import fingerprint, prepare
from ablate.errors import RefusedError

spawn = multiprocessing.get_context("spawn")


def same(one, other):
    return one.fingerprint == other.fingerprint and all(
        np.array_equal(one.split(split), other.split(split)) for split in SPLITS
    )


def die_at_rename(library, cache, number):
    """Prepare in a process that dies before its `number`-th rename, as by a kill."""
    pretend_library(pytest.MonkeyPatch(), library)
    rename, renamed = Path.replace, []

    def replace(path, target):
        if len(renamed) == number:
            os._exit(9)
        renamed.append(target)
        return rename(path, target)

    Path.replace = replace
    prepare(data(), library, cache)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_process_that_dies_before_a_rename_leaves_nothing_half_done(library, cache, tmp_path, caplog, number):
    process = spawn.Process(target=die_at_rename, args=(library, cache, number))
    process.start()
    process.join(60)
    assert process.exitcode == 9
    whole = [path for path in cache.iterdir() if path.suffix != ".partial"]
    assert len(whole) == number
    assert len(list(cache.glob("*.partial"))) == 1
    with caplog.at_level(logging.WARNING):
        assert same(prepare(data(), library, cache), prepare(data(), library, tmp_path / "fresh"))
    assert not caplog.records


def prepare_with(library, cache, start, answers):
    """Prepare in another process, as soon as all are ready."""
    pretend_library(pytest.MonkeyPatch(), library)
    start.wait(60)
    streams = prepare(data(tokenizer={"bpe": 320}), library, cache)
    answers.put((streams.fingerprint, int(streams.train.sum(dtype=np.int64)), len(streams.train)))


@pytest.mark.full
def test_two_processes_may_prepare_at_once(library, cache, tmp_path):
    start, answers = spawn.Barrier(2), spawn.Queue()
    processes = [spawn.Process(target=prepare_with, args=(library, cache, start, answers)) for _ in range(2)]
    for process in processes:
        process.start()
    got = [answers.get(timeout=60) for _ in processes]
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    alone = prepare(data(tokenizer={"bpe": 320}), library, tmp_path / "alone")
    assert got[0] == got[1] == (alone.fingerprint, int(alone.train.sum(dtype=np.int64)), len(alone.train))
    assert same(prepare(data(tokenizer={"bpe": 320}), library, cache), alone)
    assert not list(cache.glob("*.partial"))


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


DAMAGE = {
    "a flipped bit": flip,
    "a torn end": lambda path: path.write_bytes(path.read_bytes()[:-7]),
    "nothing left": lambda path: path.write_bytes(b""),
    "something else": lambda path: path.write_bytes(b"[1, 2]"),
}


@pytest.mark.fast
@pytest.mark.parametrize("kind", ["*.tokens", "[!.]*[0-9a-f].json", "*.found.json"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_found_said_and_mended(library, cache, tmp_path, caplog, kind, damage):
    prepare(data(), library, cache)
    (path,) = (path for path in cache.glob(kind) if path.name.count(".") == kind.count("."))
    DAMAGE[damage](path)
    with caplog.at_level(logging.WARNING):
        mended = prepare(data(), library, cache)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "damaged" in caplog.text
    caplog.clear()
    assert same(mended, prepare(data(), library, tmp_path / "fresh"))
    assert same(mended, prepare(data(), library, cache))
    assert not caplog.records


@pytest.mark.fast
def test_a_cache_without_its_tokens_is_made_anew(library, cache):
    report = fingerprint(data(), library, cache)
    for path in cache.glob("*.tokens"):
        path.unlink()
    assert prepare(data(), library, cache).report == report


@pytest.mark.fast
def test_kept_tokens_stand_for_files_that_are_gone_where_that_is_wanted(library, cache, tmp_path):
    named = data(corpus={"files": ["**/*.py"]})
    before = prepare(named, library, cache)
    library.rename(tmp_path / "gone")
    with pytest.raises(CorpusError, match="no file matches"):
        fingerprint(named, library, cache)
    with pytest.raises(CorpusError, match="no file matches"):  # what was read elsewhere is no answer
        fingerprint(named, tmp_path / "elsewhere", cache, kept=True)
    assert same(prepare(named, library, cache), before)
    report = fingerprint(named, library, cache, kept=True)
    assert report.notes[-1].endswith(": the tokens that the results keep of it are read")
    assert report.model_copy(update={"notes": before.report.notes}) == before.report
    for path in cache.glob("*.tokens"):
        flip(path)
    for read in (prepare, partial(fingerprint, kept=True)):
        with pytest.raises(CorpusError, match="no file matches"):
            read(named, library, cache)


@pytest.mark.fast
def test_what_is_stored_is_what_is_loaded(tmp_path):
    streams = {"train": np.arange(65536, dtype=np.uint16), "tuning": np.empty(0, np.uint16), "verdict": np.array([7])}
    store_tokens(tmp_path, "name", streams, "learnt")
    held = load_tokens(tmp_path, "name")
    assert held.tokenizer == "learnt"
    assert {split: tokens.tolist() for split, tokens in held.streams.items()} == {
        "train": list(range(65536)),
        "tuning": [],
        "verdict": [7],
    }
    assert (tmp_path / "name.tokens").read_bytes()[:6] == b"\x00\x00\x01\x00\x02\x00"  # little-endian on every machine
    assert len(json.loads((tmp_path / "name.json").read_text())["content"]["checksum"]) == 64
    assert load_tokens(tmp_path, "other") is None


@pytest.mark.fast
def test_a_failed_write_keeps_what_was_there(tmp_path):
    path = tmp_path / "kept"
    write_whole(path, [b"before"])

    def chunks():
        yield b"half of wh"
        raise OSError(28, "No space left on device")

    with pytest.raises(RefusedError, match=r"kept: No space left on device(.|\n)*--results"):
        write_whole(path, chunks())
    assert path.read_bytes() == b"before"
    assert [each.name for each in tmp_path.iterdir()] == ["kept"]
    write_whole(path, [b"af", b"ter"])
    assert path.read_bytes() == b"after"


@pytest.mark.fast
def test_a_cache_that_cannot_be_made_is_refused(library, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RefusedError, match="cannot write the corpus cache"):
        prepare(data(), library, tmp_path / "file" / "cache")


@pytest.mark.fast
def test_only_what_was_abandoned_long_ago_is_swept(tmp_path):
    for name, days in (("old.tokens.1-a.partial", 2), ("new.tokens.2-b.partial", 0), ("old.tokens", 9)):
        (tmp_path / name).write_text("x")
        os.utime(tmp_path / name, (time.time() - days * 86400,) * 2)
    sweep(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"new.tokens.2-b.partial", "old.tokens"}
