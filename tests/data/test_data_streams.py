import logging
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from data_library import data, read_corpus, settle

import ablate
from ablate.data.corpora.python_stdlib import StandardLibrary
from ablate.data.corpus import check_corpus
from ablate.data.sources import SPLITS
from ablate.data.streams import fingerprint, prepare
from ablate.errors import RefusedError


@pytest.mark.fast
def test_streams_are_the_texts_of_each_split_one_behind_the_other(library, cache):
    streams = prepare(data(), library, cache)
    corpus = read_corpus(data(), library)
    for split in SPLITS:
        expected = b"".join((library / text.name).read_bytes() + b"\x00" for text in corpus.texts[split])
        tokens = streams.split(split)
        assert isinstance(tokens, np.memmap)
        assert tokens.dtype == np.uint16
        assert tokens.tolist() == list(expected)
        report = streams.report.split(split)
        assert report.tokens == len(expected) == report.bytes + report.files
    assert sum(streams.report.split(split).files for split in SPLITS) == 53
    with pytest.raises(ValueError, match="read-only"):
        streams.train[0] = 1


@pytest.mark.fast
def test_the_report_tells_files_shares_and_what_was_skipped(library, cache):
    for number in range(12):
        (library / f"bad_{number:02d}.py").write_bytes(b"\xff\n")
    streams = prepare(data(), library, cache)
    total = sum(path.stat().st_size for path in library.rglob("*.py") if not path.name.startswith("bad_"))
    for split, requested in (("tuning", 0.1), ("verdict", 0.1)):
        share = streams.report.split(split).bytes / total
        assert share == pytest.approx(streams.report.share(split))
        assert share == pytest.approx(requested, abs=0.025)
    told = streams.report.describe()
    assert "12 texts are left out" in told
    assert "bad_00.py" in told
    assert "and 2 more" in told
    assert streams.fingerprint[:16] in told
    assert streams.report.notes == ()


@pytest.mark.fast
def test_a_share_that_whole_folders_cannot_give_is_noted(library, cache):
    for number in range(40):
        (library / f"module_{number:02d}.py").unlink()
    report = prepare(data(tuning=0.02, verdict=0.02), library, cache).report
    assert any(note.startswith("verdict has") and "2.0% was requested" in note for note in report.notes)


@pytest.mark.fast
def test_bpe_learns_from_train_alone(library, cache):
    def learnt(split):
        """Whether a word that only the texts of `split` use became a token."""
        word = "zqxjkvbw"
        for text in read_corpus(data(), library).texts[split]:
            size = (library / text.name).stat().st_size
            (library / text.name).write_text(f" {word}" * (size // 9) + "\n" * (size % 9))
        streams = prepare(data(tokenizer={"bpe": 320}), library, cache)
        return any(word in streams.tokenizer.decode([token]) for token in range(streams.vocab_size))

    assert not learnt("verdict")
    assert not learnt("tuning")
    assert learnt("train")  # the two above can fail


@pytest.mark.fast
def test_a_bpe_corpus_decodes_to_its_texts(library, cache):
    streams = prepare(data(tokenizer={"bpe": 300}), library, cache)
    assert streams.vocab_size == 300
    again = prepare(data(tokenizer={"bpe": 300}), library, cache)
    texts = read_corpus(data(), library).texts["verdict"]
    assert again.tokenizer.decode(again.verdict) == "".join(text.content.decode() + "<|endoftext|>" for text in texts)


@pytest.mark.fast
def test_unused_ids_are_noted(library, cache):
    report = prepare(data(tokenizer={"bpe": 60000}), library, cache).report
    assert any("of the 60,000 requested tokens" in note for note in report.notes)


# Fingerprints


@pytest.mark.fast
def test_a_byte_changes_the_fingerprint_and_a_time_does_not(library, cache):
    before = fingerprint(data(), library, cache).fingerprint
    module = library / "module_07.py"
    os.utime(module, (1e9, 1e9))
    assert fingerprint(data(), library, cache).fingerprint == before
    module.write_bytes(module.read_bytes()[:-2] + b"#\n")
    assert fingerprint(data(), library, cache).fingerprint != before


@pytest.mark.fast
def test_a_boundary_between_texts_is_part_of_the_fingerprint(library, cache):
    """With the same bytes in the same order, and the same splits."""
    first, second = library / "package_0" / "one.py", library / "package_0" / "two.py"
    before = prepare(data(), library, cache)
    joined = first.read_bytes() + second.read_bytes()
    first.write_bytes(joined[:310])
    second.write_bytes(joined[310:])
    after = prepare(data(), library, cache)
    assert [after.report.split(split).bytes for split in SPLITS] == [before.report.split(s).bytes for s in SPLITS]
    assert after.fingerprint != before.fingerprint


@pytest.mark.fast
def test_names_do_not_enter_the_fingerprint_and_tokenizer_and_splits_do(library, cache):
    before = fingerprint(data(), library, cache).fingerprint
    (library / "package_0" / "two.py").rename(library / "package_0" / "two_.py")
    assert fingerprint(data(), library, cache).fingerprint == before
    others = [data(tokenizer={"bpe": 300}), data(tokenizer={"bpe": 301}), data(verdict=0.3), data(tuning=0.3)]
    assert len({before, *(fingerprint(other, library, cache).fingerprint for other in others)}) == 5


@pytest.mark.fast
def test_nothing_is_read_where_nothing_changed(library, cache, monkeypatch):
    report = fingerprint(data(), library, cache)

    def refuse(self):
        raise AssertionError(f"{self.title} was read")

    monkeypatch.setattr(StandardLibrary, "texts", refuse)
    assert fingerprint(data(), library, cache) == report
    assert prepare(data(), library, cache).report == report
    os.utime(library / "module_00.py", (1e9, 1e9))  # the claim can fail
    with pytest.raises(AssertionError, match="was read"):
        fingerprint(data(), library, cache)


@pytest.mark.fast
def test_a_file_just_written_is_not_trusted_by_its_time(library, cache):
    """A second change within one tick of the clock leaves size and time as they were."""

    def changed_behind_our_back():
        module = library / "module_00.py"
        module.touch() if recent else settle(library)
        before, status = fingerprint(data(), library, cache).fingerprint, module.stat()
        module.write_bytes(module.read_bytes().swapcase())
        os.utime(module, ns=(status.st_atime_ns, status.st_mtime_ns))
        return fingerprint(data(), library, cache).fingerprint != before

    recent = True
    assert changed_behind_our_back()
    recent = False  # an hour later the same trick succeeds: what `fingerprint` says it cannot see
    assert not changed_behind_our_back()


@pytest.mark.fast
def test_skipped_files_are_those_of_today(library, cache):
    """They do not enter the fingerprint, so the report must not be kept under it."""
    first = fingerprint(data(), library, cache)
    (library / "bad.py").write_bytes(b"\xff\n")
    second = fingerprint(data(), library, cache)
    assert second.fingerprint == first.fingerprint
    assert [each.name for each in second.skipped] == ["bad.py"]


@pytest.mark.full
def test_other_processes_find_the_same(library, tmp_path):
    program = (
        "import sys, sysconfig\n"
        "from pathlib import Path\n"
        "sysconfig.get_path = lambda name, *more: sys.argv[1]\n"
        "from ablate.data.streams import prepare\n"
        "from ablate.space.data import Data\n"
        "data = Data.model_validate_json(sys.argv[3])\n"
        "streams = prepare(data, Path(), Path(sys.argv[2]))\n"
        "print(streams.fingerprint, hash('salted'))\n"
    )
    document = data(tokenizer={"bpe": 320})
    printed = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(ablate.__path__[0]).parent)}
        arguments = [str(library), str(tmp_path / f"cache{seed}"), document.model_dump_json()]
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments], env=environment, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout.split())
    assert printed[0][0] == printed[1][0] == prepare(document, library, tmp_path / "cache").fingerprint
    assert printed[0][1] != printed[1][1]  # their hashes do differ
    name = f"{printed[0][0]}.tokens"
    assert (tmp_path / "cache1" / name).read_bytes() == (tmp_path / "cache2" / name).read_bytes()


# Whether a corpus is enough


@pytest.mark.fast
def test_a_corpus_that_is_exactly_enough_is_accepted(library, cache):
    streams = prepare(data(), library, cache)
    train, verdict = streams.report.train.tokens, streams.report.verdict.tokens
    check_corpus(streams.report, seq_len=train - 1, batch=1, windows=0)
    check_corpus(streams.report, seq_len=1, batch=1, windows=verdict // 2)
    with pytest.raises(RefusedError, match=f"train has {train:,} tokens.* needs {train + 1:,}"):
        check_corpus(streams.report, seq_len=train, batch=1, windows=0)
    with pytest.raises(RefusedError, match=f"verdict has {verdict:,} tokens"):
        check_corpus(streams.report, seq_len=1, batch=1, windows=verdict // 2 + 1)


@pytest.mark.fast
def test_what_is_missing_is_said_all_at_once_with_the_way_out(library, cache):
    with pytest.raises(RefusedError) as refusal:
        check_corpus(prepare(data(verdict=0), library, cache).report, seq_len=1024, batch=64, windows=16)
    told = str(refusal.value)
    assert "65,600" in told  # 64 x 1025
    assert "verdict has 0 tokens" in told
    assert "16,400" in told  # 16 x 1025
    assert "model.context" in told


@pytest.mark.fast
def test_an_undamaged_cache_is_used_without_a_word(library, cache, caplog):
    with caplog.at_level(logging.INFO):
        first = prepare(data(), library, cache)
        second = prepare(data(), library, cache)
    assert not caplog.records
    assert first.report == second.report
    np.testing.assert_array_equal(first.train, second.train)
