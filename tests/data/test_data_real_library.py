"""The standard library as it is here: what a space with `python_stdlib` trains on."""

import sysconfig
import time
from pathlib import Path

import numpy as np
import pytest
from data_library import data

from ablate.data.corpus import check_corpus
from ablate.data.sources import SPLITS
from ablate.data.streams import fingerprint, prepare

ROOT = Path(sysconfig.get_path("stdlib"))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    cache = tmp_path_factory.mktemp("real")
    return cache, prepare(data(tuning=0.05, verdict=0.05), Path(), cache)


@pytest.mark.full
def test_every_file_is_read_or_named(prepared):
    _, streams = prepared
    paths = [
        path
        for path in ROOT.rglob("*.py")
        if not {"site-packages", "dist-packages", "__pycache__"} & set(path.relative_to(ROOT).parts)
    ]
    report = streams.report
    assert sum(report.split(split).files for split in SPLITS) + len(report.skipped) == len(paths) > 300


def test_shares_are_near_five_per_cent(prepared):
    _, streams = prepared
    for split in ("tuning", "verdict"):
        assert streams.report.share(split) == pytest.approx(0.05, abs=0.005)
        assert streams.report.split(split).files >= 4
    check_corpus(streams.report, seq_len=1024, batch=32, windows=64)
    assert np.bincount(streams.train).argmax() == ord(" ")


def test_asking_again_is_quick(prepared):
    cache, streams = prepared
    started = time.perf_counter()
    report = fingerprint(data(tuning=0.05, verdict=0.05), Path(), cache)
    assert time.perf_counter() - started < 0.5
    assert report == streams.report
