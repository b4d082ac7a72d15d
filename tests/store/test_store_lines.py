"""Lines know whether they are whole: any cut leaves whole records, and any changed bit is noticed."""

from __future__ import annotations

import json
import math
import os
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ablate.errors import RefusedError
from ablate.store import lines, requests
from ablate.store.requests import Request

pytestmark = pytest.mark.fast

RECORDS = [
    ["begin", {"trial": "a"}],
    ["row", 0, "kurtosis", "layers.1", 0.1 + 0.2],
    ["row", 1, "naïve → ∞", "", 5e-324],
]


def written(path, records=RECORDS):
    appender = lines.Appender(path)
    appender.write(records)
    appender.close()
    return path


def test_a_line_is_its_checksum_and_strict_json():
    line = lines.encode(["row", 1, "x", "", math.nan])
    checksum, body = line[:8], line[9:-1]
    assert int(checksum, 16) == zlib.crc32(body)
    assert json.loads(body, parse_constant=pytest.fail) == ["row", 1, "x", "", "NaN"]


@given(st.lists(st.floats(allow_nan=False) | st.integers(-(2**53), 2**53) | st.text()))
def test_every_value_comes_back(values):
    (body,) = [json.loads(lines.encode(values)[9:])]
    assert [float(b) if isinstance(v, float) else b for b, v in zip(body, values, strict=True)] == values


def test_appending_goes_on_where_it_stopped(tmp_path):
    path = written(tmp_path / "a.jsonl")
    written(path, [["more"]])
    reading = lines.read(path)
    assert list(reading.records) == [*RECORDS, ["more"]]
    assert (reading.torn, reading.damaged, reading.ends[-1]) == (0, (), path.stat().st_size)


def test_no_file_is_no_lines(tmp_path):
    assert lines.read(tmp_path / "none.jsonl") == lines.NOTHING


def test_cut_anywhere_the_whole_lines_remain(tmp_path):
    whole = written(tmp_path / "a.jsonl").read_bytes()
    ends = [place + 1 for place, byte in enumerate(whole) if byte == ord("\n")]
    for length in range(len(whole) + 1):
        (tmp_path / "cut.jsonl").write_bytes(whole[:length])
        reading = lines.read(tmp_path / "cut.jsonl")
        left = sum(end <= length for end in ends)
        assert list(reading.records) == RECORDS[:left]
        assert reading.torn == length - (ends[left - 1] if left else 0)
        assert reading.damaged == ()


def test_any_changed_bit_is_noticed(tmp_path):
    whole = written(tmp_path / "a.jsonl").read_bytes()
    line_of = [whole[:place].count(b"\n") for place in range(len(whole))]
    for place in range(len(whole)):
        for bit in range(8):
            changed = bytearray(whole)
            changed[place] ^= 1 << bit
            (tmp_path / "flip.jsonl").write_bytes(changed)
            reading = lines.read(tmp_path / "flip.jsonl")
            assert all(record in RECORDS for record in reading.records)
            assert RECORDS[line_of[place]] not in reading.records
            assert bool(reading.damaged) == (line_of[place] < 2 and reading.records[-1:] == (RECORDS[2],))
            assert reading.damaged or reading.torn


def test_without_a_checksum_a_changed_digit_would_pass(tmp_path):  # the test above can fail
    body = json.dumps(RECORDS[1])
    assert json.loads(body.replace("0.3", "0.2")) != RECORDS[1]


def test_a_full_disk_leaves_no_half_line(tmp_path, monkeypatch):
    path = written(tmp_path / "a.jsonl")
    before = path.read_bytes()
    appender = lines.Appender(path)
    real = os.write

    def full(descriptor, content):
        if len(content) > 20:
            return real(descriptor, content[:20])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(RefusedError, match="No space left on device") as refused:
        appender.write([["row", 2, "kurtosis", "layers.1", 1.0]])
    monkeypatch.undo()
    assert str(path) in str(refused.value) and "--results" in str(refused.value)
    assert path.read_bytes() == before
    appender.write([["after"]])
    appender.close()
    assert list(lines.read(path).records) == [*RECORDS, ["after"]]


def test_a_run_written_by_a_newer_version_is_read_without_what_is_new(tmp_path):
    asked = Request(space="small", path="/s.yaml", settings=("a=1",), place={"name": "local", "workers": 2}, at=1.0)
    requests.record(tmp_path, asked)
    (record,) = lines.read(tmp_path / requests.FILE).records
    written(tmp_path / requests.FILE, [["run", {**record[1], "space": "other", "moon": "full"}]])
    assert requests.latest(tmp_path)["small"] == asked
    assert requests.latest(tmp_path)["other"].place == {"name": "local", "workers": 2}
