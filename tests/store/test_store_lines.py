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
from ablate.store import durable

RECORDS = [
    ["begin", {"trial": "a"}],
    ["row", 0, "kurtosis", "layers.1", 0.1 + 0.2],
    ["row", 1, "naïve → ∞", "", 5e-324],
]


def written(path, records=RECORDS):
    appender = durable.Appender(path)
    appender.write(records)
    appender.close()
    return path


@pytest.mark.fast
def test_a_line_is_its_checksum_and_strict_json():
    line = durable.encoded_line(["row", 1, "x", "", math.nan])
    checksum, body = line[:8], line[9:-1]
    assert int(checksum, 16) == zlib.crc32(body)
    assert json.loads(body, parse_constant=pytest.fail) == ["row", 1, "x", "", "NaN"]


@pytest.mark.fast
@given(st.lists(st.floats(allow_nan=False) | st.integers(-(2**53), 2**53) | st.text()))
def test_every_value_comes_back(values):
    (body,) = [json.loads(durable.encoded_line(values)[9:])]
    assert [float(b) if isinstance(v, float) else b for b, v in zip(body, values, strict=True)] == values


@pytest.mark.fast
def test_appending_goes_on_where_it_stopped(tmp_path):
    path = written(tmp_path / "a.jsonl")
    written(path, [["more"]])
    reading = durable.read_lines(path)
    assert list(reading.records) == [*RECORDS, ["more"]]
    assert (reading.torn, reading.damaged, reading.ends[-1]) == (0, (), path.stat().st_size)


@pytest.mark.fast
def test_no_file_is_no_lines(tmp_path):
    assert durable.read_lines(tmp_path / "none.jsonl") == durable.Lines(path=tmp_path / "none.jsonl")


@pytest.mark.fast
def test_cut_anywhere_the_whole_lines_remain(tmp_path):
    whole = written(tmp_path / "a.jsonl").read_bytes()
    ends = [place + 1 for place, byte in enumerate(whole) if byte == ord("\n")]
    for length in range(len(whole) + 1):
        (tmp_path / "cut.jsonl").write_bytes(whole[:length])
        reading = durable.read_lines(tmp_path / "cut.jsonl")
        left = sum(end <= length for end in ends)
        assert list(reading.records) == RECORDS[:left]
        assert reading.torn == length - (ends[left - 1] if left else 0)
        assert reading.damaged == () and reading.sound == length - reading.torn


@pytest.mark.fast
def test_a_line_is_whole_only_if_it_ends_with_a_newline(tmp_path):
    """Lines that run into one another were damaged: both are, and it is said."""
    first, second, third = written(tmp_path / "a.jsonl").read_bytes().splitlines(keepends=True)
    for count in range(1, len(second)):
        (tmp_path / "joined.jsonl").write_bytes(first + second[:count] + third + first)
        reading = durable.read_lines(tmp_path / "joined.jsonl")
        assert list(reading.records) == [RECORDS[0], RECORDS[0]]
        assert (reading.torn, reading.damaged, reading.sound) == (0, (2,), len(first))
    (tmp_path / "zeros.jsonl").write_bytes(first + second[:-1] + bytes(100))
    assert durable.read_lines(tmp_path / "zeros.jsonl").torn == len(second) + 99


@pytest.mark.full
def test_any_changed_bit_is_noticed(tmp_path):
    whole = written(tmp_path / "a.jsonl").read_bytes()
    line_of = [whole[:place].count(b"\n") for place in range(len(whole))]
    for place in range(len(whole)):
        for bit in range(8):
            changed = bytearray(whole)
            changed[place] ^= 1 << bit
            (tmp_path / "flip.jsonl").write_bytes(changed)
            reading = durable.read_lines(tmp_path / "flip.jsonl")
            assert all(record in RECORDS for record in reading.records)
            assert RECORDS[line_of[place]] not in reading.records
            assert bool(reading.damaged) == (line_of[place] < 2 and reading.records[-1:] == (RECORDS[2],))
            assert reading.damaged or reading.torn


@pytest.mark.fast
def test_without_a_checksum_a_changed_digit_would_pass(tmp_path):  # the test above can fail
    body = json.dumps(RECORDS[1])
    assert json.loads(body.replace("0.3", "0.2")) != RECORDS[1]


@pytest.mark.fast
def test_a_full_disk_leaves_no_half_line(tmp_path, monkeypatch):
    path = written(tmp_path / "a.jsonl")
    before = path.read_bytes()
    appender = durable.Appender(path)
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
    assert list(durable.read_lines(path).records) == [*RECORDS, ["after"]]
