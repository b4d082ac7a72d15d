"""How often training reads its text, and how much of what it reads it has read before."""

from __future__ import annotations

import numpy as np
import pytest

from ablate.data.batch import Batches
from ablate.data.corpus_statistics import Epochs


@pytest.mark.parametrize("steps", [3, 30, 100, 400])
def test_epochs_and_repeats_are_those_of_the_batches_themselves(steps):
    """Counted over the positions that real batches of 20 seeds read, of a stream whose tokens are their positions."""
    held, seq_len, batch = 20_000, 16, 25
    epochs = Epochs(windows=steps * batch, seq_len=seq_len, held=held)
    repeated = []
    for seed in range(20):
        batches = Batches(np.arange(held, dtype=np.uint16), seq_len, batch, seed)
        read = np.concatenate([batches.at(step)[0].numpy().ravel() for step in range(steps)])
        assert epochs.tokens == len(read) and epochs.epochs == len(read) / held
        repeated.append(1 - len(np.unique(read)) / len(read))
    assert epochs.repeated == pytest.approx(np.mean(repeated), abs=0.006)


def test_half_an_epoch_repeats_a_fifth_and_one_more_than_a_third():
    assert Epochs(windows=5_000, seq_len=100, held=1_000_000).repeated == pytest.approx(0.213, abs=0.001)
    assert Epochs(windows=10_000, seq_len=100, held=1_000_000).repeated == pytest.approx(1 / np.e, abs=0.001)
    assert Epochs(windows=1, seq_len=100, held=1_000_000).repeated == 0
    assert Epochs(windows=50, seq_len=100, held=100).repeated == pytest.approx(0.98)
