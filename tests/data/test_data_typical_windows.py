"""Typical windows of a text: they repeat as all of its windows do, and are found once."""

import numpy as np
import pytest
from data_library import data, settle

from ablate.data import corpus_statistics as module
from ablate.data.corpus_statistics import evenly_spaced, repetition, typical_windows, windows_of_stream
from ablate.data.streams import fingerprint
from ablate.errors import RefusedError

pytestmark = pytest.mark.fast


def uneven(seed=0):
    """A stream whose parts repeat more and more: every 64 tokens are of fewer kinds."""
    drawn = np.random.default_rng(seed)
    return np.concatenate([drawn.integers(0, kinds, 64) for kinds in drawn.integers(2, 200, 256)]).astype(np.uint16)


def shares(windows):
    """How often two tokens are the same, of each window."""
    length = windows.shape[1]
    return ((windows[:, :, None] == windows[:, None, :]).sum((1, 2)) - length) / (length * (length - 1))


@pytest.mark.parametrize("count", [1, 4, 8])
def test_they_repeat_as_the_text_does(count):
    stream = uneven()
    windows = windows_of_stream(stream, 64, count)
    assert windows.shape == (count, 64)
    assert shares(windows).mean() == pytest.approx(repetition(stream, 64).value, rel=0.05)
    assert (np.diff(shares(windows)) >= 0).all()
    assert all((window == evenly_spaced(stream, 64)).all(1).any() for window in windows)


def test_several_differ_as_windows_do_and_those_from_its_start_do_not_repeat_as_it_does():
    stream = uneven()
    spread = shares(evenly_spaced(stream, 64)).std()
    assert shares(windows_of_stream(stream, 64, 8)).std() == pytest.approx(spread, rel=0.3)
    assert abs(shares(stream[: 4 * 64].reshape(4, 64)).mean() - repetition(stream, 64).value) > 0.1 * spread


def test_a_short_text_has_as_many_as_there_are_and_one_of_no_window_is_refused():
    assert windows_of_stream(np.arange(40, dtype=np.uint16), 16, 8).shape == (2, 16)
    with pytest.raises(RefusedError, match="has none with two tokens"):
        windows_of_stream(np.arange(8, dtype=np.uint16), 16, 8)


def test_they_are_of_the_training_split_and_kept(library, cache, monkeypatch):
    settle(library)
    windows = typical_windows(data(), library, cache, 16, 4)
    monkeypatch.setattr(module, "windows_of_stream", lambda *given: pytest.fail("the text was read again"))
    assert (typical_windows(data(), library, cache, 16, 4) == windows).all()
    known = fingerprint(data(), library, cache).fingerprint
    monkeypatch.setattr(module, "fingerprint", lambda *given: pytest.fail("files were looked at"))
    assert (typical_windows(data(), library, cache, 16, 4, known=known) == windows).all()


def test_windows_are_kept_under_what_they_are_of_and_not_under_what_was_known(library, cache):
    settle(library)
    windows = typical_windows(data(), library, cache, 16, 4, known="a fingerprint of files that have changed since")
    (kept,) = cache.glob("*.windows-16-4.json")
    assert kept.name.startswith(fingerprint(data(), library, cache).fingerprint)
    assert (typical_windows(data(), library, cache, 16, 4) == windows).all()
