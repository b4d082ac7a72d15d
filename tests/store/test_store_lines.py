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
from ablate.store import checksummed_lines, requests
from ablate.store.requests import Request

RECORDS = [
    ["begin", {"trial": "a"}],
    ["row", 0, "kurtosis", "layers.1", 0.1 + 0.2],
    ["row", 1, "naïve → ∞", "", 5e-324],
]


def written(path, records=RECORDS):
    appender = checksummed_lines.Appender(path)
    appender.write(records)
    appender.close()
    return path


@pytest.mark.fast
def test_a_line_is_its_checksum_and_strict_json():
    line = checksummed_lines.encode(["row", 1, "x", "", math.nan])
    checksum, body = line[:8], line[9:-1]
    assert int(checksum, 16) == zlib.crc32(body)
    assert json.loads(body, parse_constant=pytest.fail) == ["row", 1, "x", "", "NaN"]


@pytest.mark.fast
@given(st.lists(st.floats(allow_nan=False) | st.integers(-(2**53), 2**53) | st.text()))
def test_every_value_comes_back(values):
    (body,) = [json.loads(checksummed_lines.encode(values)[9:])]
    assert [float(b) if isinstance(v, float) else b for b, v in zip(body, values, strict=True)] == values


@pytest.mark.fast
def test_appending_goes_on_where_it_stopped(tmp_path):
    path = written(tmp_path / "a.jsonl")
    written(path, [["more"]])
    reading = checksummed_lines.read(path)
    assert list(reading.records) == [*RECORDS, ["more"]]
    assert (reading.torn, reading.damaged, reading.ends[-1]) == (0, (), path.stat().st_size)


@pytest.mark.fast
def test_no_file_is_no_lines(tmp_path):
    assert checksummed_lines.read(tmp_path / "none.jsonl") == checksummed_lines.NOTHING


@pytest.mark.fast
def test_cut_anywhere_the_whole_lines_remain(tmp_path):
    whole = written(tmp_path / "a.jsonl").read_bytes()
    ends = [place + 1 for place, byte in enumerate(whole) if byte == ord("\n")]
    for length in range(len(whole) + 1):
        (tmp_path / "cut.jsonl").write_bytes(whole[:length])
        reading = checksummed_lines.read(tmp_path / "cut.jsonl")
        left = sum(end - 1 <= length for end in ends)  # a line is whole before its newline is there
        without = length + 1 in ends
        assert list(reading.records) == RECORDS[:left]
        assert reading.torn == reading.rest == (0 if without else length - (ends[left - 1] if left else 0))
        assert reading.joined == ((left,) if without else ()) and reading.damaged == ()


@pytest.mark.fast
def test_a_line_whose_newline_is_lost_is_kept_and_so_is_the_next(tmp_path):
    whole = written(tmp_path / "a.jsonl").read_bytes().splitlines(keepends=True)
    for number in (1, 2):
        torn = [line.rstrip(b"\n") if place == number else line for place, line in enumerate(whole, 1)]
        (tmp_path / "joined.jsonl").write_bytes(b"".join(torn))
        reading = checksummed_lines.read(tmp_path / "joined.jsonl")
        assert list(reading.records) == RECORDS
        assert (reading.torn, reading.damaged, reading.joined) == (0, (), (number,))
        assert reading.numbers == ((1, 1, 2), (1, 2, 2))[number - 1]


@pytest.mark.fast
def test_a_whole_line_behind_half_a_line_is_kept_and_the_half_one_is_damaged(tmp_path):
    first, second, third = written(tmp_path / "a.jsonl").read_bytes().splitlines(keepends=True)
    for count in range(1, len(second) - 1):
        (tmp_path / "half.jsonl").write_bytes(first + second[:count] + third)
        reading = checksummed_lines.read(tmp_path / "half.jsonl")
        assert list(reading.records) == [RECORDS[0], RECORDS[2]]
        assert (reading.torn, reading.damaged, reading.joined) == (0, (2,), ())
        assert reading.ends == (len(first), len(first + second[:count] + third))


@pytest.mark.fast
def test_a_whole_line_before_zeros_is_kept(tmp_path):
    path = written(tmp_path / "a.jsonl")
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:-1] + bytes(100))
    reading = checksummed_lines.read(path)
    assert list(reading.records) == RECORDS and (reading.torn, reading.rest) == (100, 100)
    assert reading.ends[-1] == size - 1


@pytest.mark.fast
def test_what_looks_like_a_line_within_a_whole_one_is_none(tmp_path):
    inner = checksummed_lines.encode(["trial", {"trial": "x"}]).decode()
    harmed = bytearray(checksummed_lines.encode(["plan", "d", {"source": f"{inner}{inner}"}]))
    harmed[2:4] = b"??"
    (tmp_path / "a.jsonl").write_bytes(bytes(harmed))
    assert checksummed_lines.read(tmp_path / "a.jsonl").records == ()


@pytest.mark.fast
def test_nothing_is_written_behind_a_last_line_without_newline(tmp_path):
    path = written(tmp_path / "a.jsonl")
    whole = path.read_bytes()
    for length in (len(whole) - 1, len(whole) - 5):
        path.write_bytes(whole[:length])
        written(path, [["more"], ["and more"]])
        assert path.read_bytes() == whole[:length] + b"\n" + checksummed_lines.encode(
            ["more"]
        ) + checksummed_lines.encode(["and more"])


@pytest.mark.full
def test_any_changed_bit_is_noticed(tmp_path):
    whole = written(tmp_path / "a.jsonl").read_bytes()
    line_of = [whole[:place].count(b"\n") for place in range(len(whole))]
    for place in range(len(whole)):
        for bit in range(8):
            changed = bytearray(whole)
            changed[place] ^= 1 << bit
            (tmp_path / "flip.jsonl").write_bytes(changed)
            reading = checksummed_lines.read(tmp_path / "flip.jsonl")
            assert all(record in RECORDS for record in reading.records)
            if whole[place] == ord("\n"):  # every line is whole, and that one has another end is noticed
                assert list(reading.records) == RECORDS and (reading.joined or reading.torn == 1)
                continue
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
    appender = checksummed_lines.Appender(path)
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
    assert list(checksummed_lines.read(path).records) == [*RECORDS, ["after"]]


@pytest.mark.fast
def test_a_run_written_by_a_newer_version_is_read_without_what_is_new(tmp_path):
    asked = Request(space="small", path="/s.yaml", settings=("a=1",), place={"name": "local", "workers": 2}, at=1.0)
    requests.record(tmp_path, asked)
    (record,) = checksummed_lines.read(tmp_path / requests.FILE).records
    written(tmp_path / requests.FILE, [["run", {**record[1], "space": "other", "moon": "full"}]])
    assert requests.latest(tmp_path)["small"] == asked
    assert requests.latest(tmp_path)["other"].place == {"name": "local", "workers": 2}
