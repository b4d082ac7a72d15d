import hashlib
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from data_library import data
from example_counts import examples_of
from hypothesis import given, settings
from hypothesis import strategies as st

from ablate.data.batch import Batches, evaluation_windows, window_starts
from ablate.data.streams import prepare
from ablate.errors import RefusedError

pytestmark = pytest.mark.fast

WORD = 2**64


def philox_words(key, count):
    """Philox4x64 in ten rounds, written from Salmon et al. 2011; the counter of the first four words is 1."""
    words = []
    for block in range(1, count // 4 + 2):
        (a, b, c, d), (k, m) = (block, 0, 0, 0), key
        for _ in range(10):
            high_a, low_a = divmod(a * 0xD2E7470EE14C6C93, WORD)
            high_c, low_c = divmod(c * 0xCA5A826395121157, WORD)
            a, b, c, d = high_c ^ b ^ k, low_c, high_a ^ d ^ m, low_a
            k, m = (k + 0x9E3779B97F4A7C15) % WORD, (m + 0xBB67AE8584CAA73B) % WORD
        words += [a, b, c, d]
    return words[:count]


def stream(length):
    """Tokens that are their own position."""
    return np.arange(length, dtype=np.uint16)


@pytest.mark.parametrize(("seed", "step"), [(0, 0), (0, 1), (3, 299), (2**40, 80000)])
def test_a_batch_is_the_philox_stream_of_seed_and_step(seed, step):
    tokens, targets = Batches(stream(5000), seq_len=7, batch=6, seed=seed).at(step)
    starts = [word % (5000 - 7) for word in philox_words((seed, step), 6)]
    assert tokens.tolist() == [list(range(start, start + 7)) for start in starts]
    assert targets.tolist() == [list(range(start + 1, start + 8)) for start in starts]
    assert tokens.dtype == targets.dtype == torch.int64
    assert tokens.is_contiguous()
    assert targets.is_contiguous()


def test_batches_depend_on_seed_and_step_and_on_nothing_before():
    batches = Batches(stream(5000), seq_len=16, batch=8, seed=1)
    forwards = [batches.at(step)[0] for step in range(5)]
    resumed = Batches(stream(5000), seq_len=16, batch=8, seed=1)
    assert torch.equal(resumed.at(3)[0], forwards[3])
    assert all(torch.equal(batches.at(step)[0], forwards[step]) for step in reversed(range(5)))
    assert not torch.equal(forwards[3], forwards[4])
    assert not torch.equal(Batches(stream(5000), seq_len=16, batch=8, seed=2).at(3)[0], forwards[3])


def test_every_place_is_drawn_and_none_outside():
    length, seq_len = 12, 4
    starts = np.concatenate(
        [Batches(stream(length), seq_len, batch=64, seed=0).at(step)[0][:, 0].numpy() for step in range(100)]
    )
    counts = np.bincount(starts, minlength=length)
    places = length - seq_len  # the last window is 7, 8, 9, 10 with target 11
    assert counts[places:].sum() == 0
    expected = 6400 / places
    assert (abs(counts[:places] - expected) < 5 * np.sqrt(expected)).all()


def test_the_shortest_stream_has_one_window_and_a_shorter_one_is_refused():
    tokens, targets = Batches(stream(5), seq_len=4, batch=3, seed=0).at(0)
    assert tokens.tolist() == [[0, 1, 2, 3]] * 3
    assert targets.tolist() == [[1, 2, 3, 4]] * 3
    with pytest.raises(RefusedError, match=r"4 tokens is too short for a window of 4 \+ 1"):
        Batches(stream(4), seq_len=4, batch=3, seed=0)


@given(seq_len=st.integers(1, 20), windows=st.integers(1, 30), spare=st.integers(0, 200), seed=st.integers(0, 2**40))
@settings(max_examples=examples_of(100), deadline=None)
def test_evaluation_windows_are_one_from_each_equal_cell_of_the_places(seq_len, windows, spare, seed):
    length = windows * (seq_len + 1) + spare
    tokens, targets, _ = evaluation_windows(stream(length), seq_len, windows, seed=seed, split="verdict")
    assert tokens.shape == targets.shape == (windows, seq_len)
    assert torch.equal(tokens, tokens[:, :1] + torch.arange(seq_len))
    assert torch.equal(targets, tokens + 1)
    assert int(targets.max()) < length
    cell = (length - seq_len) / windows
    for i, start in enumerate(tokens[:, 0].tolist()):
        assert i * cell - 1 < start < (i + 1) * cell


@pytest.mark.parametrize(("seed", "split"), [(0, "verdict"), (7, "tuning"), (2**40, "verdict")])
def test_the_place_within_a_cell_is_a_philox_word_of_the_seed_and_the_split(seed, split):
    """By exact fractions, and the key by the recipe of the docstring: any executor, rank or resumed run draws it."""
    digest = hashlib.sha256(f"evaluation windows/{seed}/{split}".encode()).digest()
    words = philox_words((int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:16], "little")), 9)
    expected = [math.floor(4993 * (i + Fraction(word, WORD)) / 9) for i, word in enumerate(words)]
    tokens, *_ = evaluation_windows(stream(5000), 7, 9, seed=seed, split=split)
    assert tokens[:, 0].tolist() == expected
    assert window_starts(4993, 9, seed=seed, split=split).tolist() == expected


def test_seeds_and_splits_have_windows_of_their_own_and_a_seed_always_the_same():
    drawn = {
        (seed, split): window_starts(10**6, 16, seed=seed, split=split).tolist()
        for seed in range(50)
        for split in ("tuning", "verdict")
    }
    assert len({tuple(starts) for starts in drawn.values()}) == 100
    assert all(window_starts(10**6, 16, seed=seed, split=split).tolist() == drawn[seed, split] for seed, split in drawn)


@pytest.mark.parametrize(("places", "windows"), [(10, 4), (7, 7), (23, 5)])
def test_over_seeds_every_place_is_drawn_equally_often(places, windows):
    """Also where the cells do not divide the places: the mean over the windows is unbiased over all text."""
    seeds = 3000
    starts = np.concatenate([window_starts(places, windows, seed=seed, split="verdict") for seed in range(seeds)])
    counts, expected = np.bincount(starts, minlength=places), seeds * windows / places
    assert len(counts) == places
    assert (abs(counts - expected) < 5 * np.sqrt(expected)).all()


def test_one_token_too_few_for_the_windows_is_refused():
    evaluation_windows(stream(50), seq_len=9, windows=5, seed=0, split="verdict")
    with pytest.raises(RefusedError, match=r"49 tokens does not hold 5 windows(.|\n)*50 in total"):
        evaluation_windows(stream(49), seq_len=9, windows=5, seed=0, split="verdict")


def test_windows_never_leave_their_split(library, cache):
    """The three streams lie one behind the other in one file; every file here is written in a byte of its own."""
    for byte, path in enumerate(sorted(library.rglob("*.py")), start=33):
        path.write_bytes(bytes([byte]) * path.stat().st_size)
    streams = prepare(data(), library, cache)
    seen = {}
    for split in ("train", "tuning", "verdict"):
        tokens = streams.split(split)
        drawn = [Batches(tokens, seq_len=64, batch=64, seed=0).at(step) for step in range(50)]
        drawn += [evaluation_windows(tokens, 64, len(tokens) // 65, seed=seed, split=split) for seed in range(50)]
        seen[split] = {int(token) for pair in drawn for part in pair[:2] for token in part.unique()} - {0}
        assert seen[split] == set(tokens.tolist()) - {0}
    assert not seen["train"] & seen["verdict"]
    assert not seen["train"] & seen["tuning"]
    assert not seen["tuning"] & seen["verdict"]
