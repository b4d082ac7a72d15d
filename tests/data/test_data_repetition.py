"""How often two tokens of a sequence are the same: against a count of every pair, and what is kept of it."""

import itertools

import numpy as np
import pytest
from data_library import data, settle

from ablate.data import corpus_statistics as module
from ablate.data import streams
from ablate.data.corpus_statistics import measure_repetition, repetition
from ablate.errors import RefusedError

pytestmark = pytest.mark.fast


def by_pairs(window):
    pairs = list(itertools.permutations(window.tolist(), 2))
    return sum(a == b for a, b in pairs) / len(pairs)


@pytest.mark.parametrize(("tokens", "seq_len"), [(1000, 16), (999, 2), (40, 40), (5000, 3)])
def test_it_is_the_mean_over_windows_of_equal_pairs(tokens, seq_len):
    stream = np.random.default_rng(seq_len).choice(9, p=np.r_[0.6, np.full(8, 0.05)], size=tokens).astype(np.uint16)
    windows = min(1024, tokens // seq_len)
    starts = [number * (tokens // windows) for number in range(windows)]
    expected = np.mean([by_pairs(stream[start : start + seq_len]) for start in starts])
    measured = repetition(stream, seq_len)
    assert measured.value == pytest.approx(expected, rel=1e-12)
    assert (measured.windows, measured.seq_len) == (windows, seq_len)
    assert measured.value != pytest.approx(expected + 1 / seq_len, rel=1e-3)  # the twin: a token is no pair with itself


def test_known_texts():
    same, different = np.zeros(64, np.uint16), np.arange(64, dtype=np.uint16)
    assert repetition(same, 8).value == 1.0
    assert repetition(different, 8).value == 0.0
    assert repetition(np.tile(np.array([7, 9], np.uint16), 32), 4).value == pytest.approx(1 / 3)


def test_only_a_sample_of_a_long_text_is_counted_and_no_window_twice(monkeypatch):
    monkeypatch.setattr(module, "WINDOWS", 10)
    stream = np.repeat(np.arange(10, dtype=np.uint16), 100)
    assert repetition(stream, 50).windows == 10
    assert repetition(stream, 50).value == 1.0
    monkeypatch.setattr(module, "TOKENS", 100)
    assert repetition(stream, 50).windows == 2
    assert repetition(stream, 500).windows == 1


@pytest.mark.parametrize("seq_len", [1, 41])
def test_no_window_of_two_tokens_is_refused(seq_len):
    with pytest.raises(RefusedError, match=f"windows of {seq_len} tokens, and a training split of 40 has none"):
        repetition(np.zeros(40, np.uint16), seq_len)


def test_it_is_of_the_training_split_and_kept(library, cache, monkeypatch):
    measured = measure_repetition(data(), library, cache, 16)
    held = streams.prepare(data(), library, cache)
    assert measured == repetition(held.train, 16)
    assert measured != repetition(held.verdict, 16)
    assert measure_repetition(data(), library, cache, 8) != measured
    kept = cache / f"{held.fingerprint}.repetition-16.json"
    assert kept.is_file()

    counted = []
    monkeypatch.setattr(module, "repetition", lambda *args: counted.append(args) or repetition(*args))
    assert measure_repetition(data(), library, cache, 16) == measured
    assert not counted
    (library / "module_00.py").write_text("zzzz\n" * 400)
    settle(library)
    changed = measure_repetition(data(), library, cache, 16)
    assert changed != measured
    assert len(counted) == 1
    assert measure_repetition(data(), library, cache, 16, known=held.fingerprint) == measured
    measure_repetition(data(), library, cache, 4, known=held.fingerprint)
    assert not (cache / f"{held.fingerprint}.repetition-4.json").exists()  # it was counted in the changed text


def test_damage_is_said_and_counted_anew(library, cache, caplog):
    measured = measure_repetition(data(), library, cache, 16)
    (kept,) = cache.glob("*.repetition-16.json")
    kept.write_text(kept.read_text().replace('"windows": ', '"windows": 1'))
    assert measure_repetition(data(), library, cache, 16) == measured
    assert "repetition-16.json is damaged" in caplog.text
