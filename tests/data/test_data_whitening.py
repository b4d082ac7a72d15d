"""PCA whitening: of the training split alone, kept in the cache, and in the fingerprint."""

import numpy as np
import pytest
import torch
from data_library import data

from ablate.data import standardisation
from ablate.data.cache import faults, kept_numbers
from ablate.data.records import RecordBatches, evaluation_records
from ablate.data.sources import SPLITS
from ablate.data.streams import fingerprint, prepare


def independent(pixels, channels, eps):
    """Mean and matrix of standardised rows by a singular value decomposition, which never forms the covariance."""
    x = pixels.reshape(len(pixels), channels, -1)
    x = ((x - x.mean(axis=(0, 2), keepdims=True)) / x.std(axis=(0, 2), keepdims=True)).reshape(len(x), -1)
    mean = x.mean(axis=0)
    _, singular, rows = np.linalg.svd(x - mean, full_matrices=False)
    signs = np.sign(np.take_along_axis(rows, np.abs(rows).argmax(axis=1)[:, None], axis=1))
    variances = singular**2 / len(x)
    kept = variances > 1e-10 * variances[0]
    return x, mean, (rows * signs).T[:, kept] / np.sqrt(variances[kept] + eps), variances[kept]


def digits(cache, folder, **more):
    return prepare(data(corpus="digits", **more), folder, cache)


@pytest.mark.parametrize("eps", [0.0, 0.03])
def test_it_is_what_a_singular_value_decomposition_gives(eps, tmp_path, cache):
    streams = digits(cache, tmp_path, whiten=eps)
    train = streams.records("train")
    pixels = train.values(np.arange(len(train))).reshape(len(train), -1).astype(np.float64)
    x, mean, matrix, variances = independent(pixels, 1, eps)
    found = streams.standard.whitening
    assert found.directions == len(variances) < 64  # some pixels at the edge are always blank
    expected, whole = (x - mean) @ matrix, streams.standard.whole(train.values(np.arange(len(train))))
    whole = whole.reshape(len(train), -1)
    assert whole[:, : len(variances)] == pytest.approx(expected, abs=1e-4)  # statistics are rounded to six digits
    assert not whole[:, len(variances) :].any()
    covariance = np.cov(whole[:, : len(variances)].T, bias=True)
    assert covariance == pytest.approx(np.diag(variances / (variances + eps)), abs=1e-5 if eps else 1e-6)


def test_covariance_of_the_training_split_is_the_identity_and_of_others_is_not(tmp_path, cache):
    """A matrix from the examples held out, or from all, would whiten those."""
    streams = digits(cache, tmp_path, whiten=0.0)
    covariances = {}
    for split in SPLITS:
        records = streams.records(split)
        whole = streams.standard.whole(records.values(np.arange(len(records)))).reshape(len(records), -1)
        whole = whole[:, : streams.standard.whitening.directions]
        covariances[split] = np.cov(whole.T, bias=True)
    identity = np.eye(len(covariances["train"]))
    assert np.abs(covariances["train"] - identity).max() < 1e-6
    assert all(np.abs(covariances[split] - identity).max() > 0.1 for split in ("tuning", "verdict"))


@pytest.mark.full
def test_images_of_three_channels_with_more_numbers_than_examples(tmp_path, cache):
    streams = prepare(data(corpus={"drawn_images": 900}, whiten=0.0), tmp_path, cache)
    records = streams.records("train")
    whole = streams.standard.whole(records.values(np.arange(len(records)))).reshape(len(records), -1)
    directions = streams.standard.whitening.directions
    assert directions == len(records) - 1
    assert np.abs(np.cov(whole[:, :directions].T, bias=True) - np.eye(directions)).max() < 1e-6
    assert not whole[:, directions:].any()


def test_batches_and_evaluations_are_whitened(tmp_path, cache):
    streams = digits(cache, tmp_path, whiten=0.1)
    records, standard = streams.records("train"), streams.standard
    batch = RecordBatches(records, standard, batch=16, seed=1).at(0)
    words = np.random.Philox(key=np.array([1, 0], dtype=np.uint64)).random_raw(16)
    expected = standard.whole(records.values((words % np.uint64(len(records))).astype(np.int64)))
    assert np.abs(batch.inputs.numpy() - expected).max() < 1e-5  # a product of float32
    assert batch.inputs.dtype == torch.float32
    assert batch.inputs.shape == (16, 1, 8, 8)
    held_out = evaluation_records(streams.records("verdict"), standard, 20, seed=0, split="verdict")
    plain = digits(cache, tmp_path).standard
    assert not np.allclose(
        held_out.inputs, evaluation_records(streams.records("verdict"), plain, 20, seed=0, split="verdict").inputs
    )


def test_it_is_kept_and_made_again_where_it_is_damaged(tmp_path, cache, monkeypatch):
    first = digits(cache, tmp_path, whiten=0.1)
    with monkeypatch.context() as patched:
        patched.setattr(standardisation, "whiten", None)  # so that nothing can be computed
        again = digits(cache, tmp_path, whiten=0.1)
    assert np.array_equal(first.standard.whitening.matrix, again.standard.whitening.matrix)
    assert np.array_equal(first.standard.whitening.mean, again.standard.whitening.mean)
    (kept,) = cache.glob("*.f8")
    assert list(faults(cache)) == []
    whole = bytearray(kept.read_bytes())
    whole[-1] ^= 1
    kept.write_bytes(whole)
    assert [path for path, _ in faults(cache)] == [kept] and kept_numbers(cache, kept.stem) is None
    rebuilt = digits(cache, tmp_path, whiten=0.1)
    assert np.array_equal(first.standard.whitening.matrix, rebuilt.standard.whitening.matrix)
    assert list(faults(cache)) == []


def test_it_is_part_of_the_fingerprint_and_of_the_report(tmp_path, cache):
    reports = [fingerprint(data(corpus="digits", whiten=eps), tmp_path, cache) for eps in (None, 0.0, 0.1)]
    assert len({report.fingerprint for report in reports}) == 3
    assert ["whitened" in report.describe() for report in reports] == [False, True, True]
