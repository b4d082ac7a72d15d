"""Kernels of what is read that is no text, by their definitions."""

from __future__ import annotations

import numpy as np
import pytest

import ablate
from ablate.data.corpus_statistics import (
    FILLED,
    NONE,
    START,
    given_tokens,
    kernel_of,
    measure_inputs,
    measure_targets,
    patches_of,
    same_tokens,
)
from ablate.data.streams import fingerprint, prepare


def test_a_kernel_is_the_mean_over_examples_of_the_products_of_patches():
    images = np.random.default_rng(0).normal(size=(5, 2, 4, 6))
    corners = [(y, x) for y in (0, 2) for x in (0, 2, 4)]
    patches = [images[:, :, y : y + 2, x : x + 2] for y, x in corners]
    expected = [[(one * other).mean() for other in patches] for one in patches]
    assert kernel_of(patches_of(images, 2)) == pytest.approx(np.array(expected))
    assert kernel_of(patches_of(images, None)) == pytest.approx(np.array([[(images**2).mean()]]))


def test_a_target_is_given_one_token_earlier_and_filled_up_behind_its_end():
    targets = np.array([[4, 5, 6], [7, NONE, NONE]])
    assert given_tokens(targets, 4).tolist() == [[START, 4, 5, FILLED], [START, FILLED, FILLED, FILLED]]
    assert given_tokens(targets, 2).tolist() == [[START, 4], [START, FILLED]]


def test_tokens_are_the_same_as_often_as_they_are():
    tokens = np.array([[1, 2, 1], [3, 3, 3]])
    assert same_tokens(tokens).tolist() == [[1, 0.5, 1], [0.5, 1, 0.5], [1, 0.5, 1]]


def test_the_images_of_a_corpus_are_standardised_and_spaced_over_its_training_split(tmp_path, monkeypatch):
    monkeypatch.setattr("ablate.data.corpus_statistics.EXAMPLES", 10)
    data, catalogue = ablate.load_space("sgd_mlp").data, ablate.catalogue()
    found = measure_inputs(data, tmp_path, tmp_path, None, catalogue)
    streams = prepare(data, tmp_path, tmp_path, catalogue)
    chosen = np.arange(10) * (len(streams.records("train")) // 10)
    values = streams.standard(streams.records("train"), chosen)
    assert found == pytest.approx(np.array([[(values.astype(float) ** 2).mean()]]))
    assert measure_inputs(data, tmp_path, tmp_path, 2, catalogue).shape == (16, 16)


@pytest.mark.parametrize("space", ["sgd_mlp", "encoder_decoder"])
def test_kernels_are_measured_once_and_kept_with_their_shape(space, tmp_path, monkeypatch):
    data, catalogue = ablate.load_space(space).data, ablate.catalogue()
    images = space == "sgd_mlp"

    def measure(known=None, size=2):
        of = measure_inputs if images else measure_targets
        return of(data, tmp_path, tmp_path, size, catalogue, known)

    measured, mark = measure(), fingerprint(data, tmp_path, tmp_path, catalogue).fingerprint
    monkeypatch.setattr("ablate.data.corpus_statistics.prepare", lambda *given: pytest.fail("the streams were read"))
    assert (measure() == measured).all()
    monkeypatch.setattr("ablate.data.corpus_statistics.fingerprint", lambda *given: pytest.fail("files were looked at"))
    assert (measure(mark) == measured).all()
    for other in ({"known": "of another corpus"}, {"known": mark, "size": 4}):
        with pytest.raises(pytest.fail.Exception, match="streams were read"):
            measure(**other)


def test_kernels_are_kept_under_what_they_were_measured_on(tmp_path):
    data, catalogue = ablate.load_space("sgd_mlp").data, ablate.catalogue()
    measured = measure_inputs(data, tmp_path, tmp_path, 2, catalogue, "a fingerprint of files that have changed since")
    kept = {path.name for path in tmp_path.glob("*.inputs-2-*.f8")}
    assert kept == {f"{fingerprint(data, tmp_path, tmp_path, catalogue).fingerprint}.inputs-2-512.f8"}
    assert (measure_inputs(data, tmp_path, tmp_path, 2, catalogue) == measured).all()
