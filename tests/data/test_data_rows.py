"""JSONL and Parquet: a document a row, from local files that are read once and stay in their folder."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pyarrow
import pytest
from data_library import prose, read_corpus, settle
from pyarrow import parquet
from tiny_spaces import write_world

import ablate
from ablate.data.corpora.jsonl import Jsonl, JsonLines
from ablate.data.corpora.parquet import Parquet, ParquetRows
from ablate.data.sources import SPLITS, Skipped, Text
from ablate.data.streams import fingerprint
from ablate.errors import RefusedError
from ablate.space.data import Data

KINDS = ("jsonl", "parquet")
kinds = pytest.mark.parametrize("kind", KINDS)


def write(kind: str, path: Path, rows: list[dict[str, object]]) -> Path:
    """A file of rows, by what other libraries write."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "parquet":
        parquet.write_table(
            pyarrow.Table.from_pylist(rows, None if rows else pyarrow.schema([("text", pyarrow.string())])),
            path,
            row_group_size=7,
        )
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def documents(first: int, count: int = 40) -> list[dict[str, object]]:
    return [{"text": prose(first + n, 200), "length": 200} for n in range(count)]


def data(kind: str, *patterns: str, **more: object) -> Data:
    corpus = {kind: [*patterns], "field": "text", **more}
    return Data.model_validate({"corpus": corpus, "tokenizer": "bytes", "tuning": 0.1, "verdict": 0.1})


def source(kind: str, folder: Path, *patterns: str, field: str = "text", most: int | None = None):
    if kind == "jsonl":
        return JsonLines(Jsonl(jsonl=patterns, field=field), folder, field, most)
    return ParquetRows(Parquet(parquet=patterns, field=field), folder, field, most)


@kinds
def test_each_row_is_a_document_in_the_order_of_files_and_rows(kind, tmp_path):
    for name, first in (("b/one", 0), ("a/two", 100), ("three", 200)):
        write(kind, tmp_path / "rows" / f"{name}.{kind}", documents(first, 3))
    texts = list(source(kind, tmp_path, f"rows/**/*.{kind}").texts())
    assert [text.content.decode() for text in texts] == [
        prose(first + n, 200) for first in (100, 0, 200) for n in range(3)
    ]
    start = 1 if kind == "jsonl" else 0
    names = [f"{name}.{kind}:{n + start:09d}" for name in ("a:two", "b:one", "three") for n in range(3)]
    assert [text.name for text in texts] == names == [text.folder for text in texts]


@kinds
def test_one_file_is_divided_by_rows(kind, tmp_path):
    write(kind, tmp_path / f"all.{kind}", documents(0))
    corpus = read_corpus(data(kind, f"*.{kind}"), tmp_path)
    contents = {split: {text.content for text in corpus.texts[split]} for split in SPLITS}
    assert all(contents.values()) and sum(map(len, contents.values())) == 40
    assert not contents["train"] & (contents["tuning"] | contents["verdict"])


@kinds
def test_rows_that_are_added_leave_the_others_in_the_order_of_their_hash(kind, tmp_path):
    write(kind, tmp_path / f"m.{kind}", documents(0))
    before = {text.name: text.content for text in source(kind, tmp_path, f"*.{kind}").texts()}
    write(kind, tmp_path / f"a.{kind}", documents(900, 5))
    after = {text.name: text.content for text in source(kind, tmp_path, f"*.{kind}").texts()}
    assert before.items() < after.items() and len(after) == 45


@kinds
def test_a_file_that_is_reached_twice_is_read_once(kind, tmp_path):
    path = write(kind, tmp_path / "rows" / f"one.{kind}", documents(0, 4))
    (tmp_path / "rows" / f"again.{kind}").symlink_to(path)
    patterns = (f"rows/*.{kind}", f"rows/one.{kind}", str(path))
    assert len(list(source(kind, tmp_path, *patterns).texts())) == 4


@kinds
def test_no_more_is_read_than_the_row_that_reaches_the_cap(kind, tmp_path):
    for name in "ab":
        write(kind, tmp_path / f"{name}.{kind}", documents(0, 10))
    capped = source(kind, tmp_path, f"*.{kind}", most=2500)
    assert sum(len(text.content) for text in capped.texts()) == 2600
    assert capped.title == f"{kind} *.{kind}, field text, the first 2,500 bytes"
    assert len(list(source(kind, tmp_path, f"*.{kind}").texts())) == 20


@kinds
def test_what_is_no_text_is_skipped_and_named(kind, tmp_path):
    write(kind, tmp_path / f"x.{kind}", [{"text": "a"}, {"text": None}, {"text": "b"}])
    first, second, third = source(kind, tmp_path, f"x.{kind}").texts()
    assert (first.content, third.content) == (b"a", b"b")
    assert isinstance(second, Skipped) and second.reason == "contains no text"


@kinds
def test_a_field_that_is_not_there_is_told_with_the_one_that_is_meant(kind, tmp_path):
    write(kind, tmp_path / f"x.{kind}", documents(0, 3))
    with pytest.raises(
        RefusedError, match=r"has no field 'txet'\n  = did you mean 'text'\?\n  = its fields: length, text"
    ):
        list(source(kind, tmp_path, f"x.{kind}", field="txet").texts())


@kinds
def test_a_changed_file_is_read_anew_and_an_unchanged_one_is_not(kind, tmp_path, monkeypatch):
    path, cache = write(kind, tmp_path / "texts" / f"x.{kind}", documents(0)), tmp_path / "cache"
    settle(tmp_path / "texts")
    document = data(kind, f"texts/*.{kind}")
    first = fingerprint(document, tmp_path, cache)
    reader = JsonLines if kind == "jsonl" else ParquetRows
    with monkeypatch.context() as patched:
        patched.setattr(reader, "rows", lambda *_: pytest.fail("it was read"))
        assert fingerprint(document, tmp_path, cache) == first
    write(kind, path, documents(1))
    settle(tmp_path / "texts")
    assert fingerprint(document, tmp_path, cache).fingerprint != first.fingerprint


@kinds
def test_files_without_a_row_hold_no_text(kind, tmp_path):
    write(kind, tmp_path / f"x.{kind}", documents(0, 1)[:0])
    with pytest.raises(RefusedError, match="contains no text"):
        read_corpus(data(kind, f"x.{kind}"), tmp_path)


WRONG_LINES = {
    '{"text": "a"': r"Expecting ',' delimiter \(column \d+\)",
    '{"text": "cut': r"Unterminated string starting \(column 10\)",
    "[1, 2]": "it is not an object",
    '"text"': "it is not an object",
    '{"text": ' + "9" * 5000 + "}": "Exceeds the limit",
    "[" * 100_000: "recursion",
}


@pytest.mark.parametrize("line", WRONG_LINES, ids=lambda line: line[:12])
def test_a_line_that_is_no_json_object_is_told_with_its_file_and_number(line, tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text(f'{{"text": "first"}}\n\n{line}\n', encoding="utf-8")
    with pytest.raises(RefusedError) as refused:
        list(source("jsonl", tmp_path, "x.jsonl").texts())
    message, *ways = str(refused.value).splitlines()
    assert message.startswith(f"error: {path}, line 3, is not a JSON object: ")
    assert re.search(WRONG_LINES[line], message), message
    assert "one object per line" in ways[-1] and all(len(way) < 200 for way in ways)


def test_bytes_that_are_no_utf_8_are_told_with_their_line(tmp_path):
    (tmp_path / "x.jsonl").write_bytes(b'{"text": "a"}\n' * 3 + b'{"text": "\xff"}\n')
    with pytest.raises(
        RefusedError, match=r"x\.jsonl, line 4, is not a JSON object: 'utf-8' codec can't decode byte 0xff"
    ):
        list(source("jsonl", tmp_path, "x.jsonl").texts())


def test_jsonl_as_other_programs_write_it(tmp_path):
    """With the mark of its encoding, lines that end as on Windows, half a surrogate pair, and packed."""
    lines = [
        "\ufeff" + json.dumps({"text": "é\u2028x"}, ensure_ascii=False),
        '{"text": "\\ud800"}',
        '{"other": 1}',
        '{"text": "c"}',
    ]
    with gzip.open(tmp_path / "x.jsonl.gz", "wb") as file:
        file.write("\r\n".join(lines).encode("utf-8"))
    first, half, without, last = source("jsonl", tmp_path, "*.gz").texts()
    assert first == Text("x.jsonl.gz:000000001", "é\u2028x".encode())
    assert "surrogates not allowed" in half.reason and without.reason == "has no field 'text'"
    assert last == Text("x.jsonl.gz:000000004", b"c")


def test_a_gz_that_is_cut_off_is_told(tmp_path):
    whole = gzip.compress(b'{"text": "a"}\n' * 1000)
    (tmp_path / "x.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(RefusedError, match=r"cannot read .*x\.jsonl\.gz"):
        list(source("jsonl", tmp_path, "*.gz").texts())


def test_what_is_no_parquet_is_told(tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(RefusedError, match=r"cannot read .*x\.parquet as Parquet(.|\n)*name complete Parquet files"):
        list(source("parquet", tmp_path, "*.parquet").texts())


def test_a_column_that_holds_no_text_is_told_with_those_that_do(tmp_path):
    write("parquet", tmp_path / "x.parquet", documents(0, 2))
    with pytest.raises(RefusedError, match="holds int64, not text\n  = its text columns: text"):
        list(source("parquet", tmp_path, "*.parquet", field="length").texts())


def test_two_columns_of_one_name_are_told(tmp_path):
    columns = [pyarrow.array(["a"]), pyarrow.array(["b"])]
    parquet.write_table(pyarrow.Table.from_arrays(columns, names=["text", "text"]), tmp_path / "x.parquet")
    with pytest.raises(RefusedError, match=r"has 2 columns named 'text'"):
        list(source("parquet", tmp_path, "*.parquet").texts())


def test_a_column_whose_name_has_a_dot_is_not_the_field_of_another(tmp_path):
    table = pyarrow.table({"a": pyarrow.array([{"b": 1}, {"b": 2}]), "a.b": pyarrow.array(["one", "two"])})
    parquet.write_table(table, tmp_path / "x.parquet")
    texts = list(source("parquet", tmp_path, "*.parquet", field="a.b").texts())
    assert [getattr(text, "content", None) for text in texts] == [b"one", b"two"]


def test_too_few_rows_and_rows_without_text_are_told_as_rows(tmp_path):
    write("jsonl", tmp_path / "one.jsonl", documents(0, 1))
    with pytest.raises(RefusedError, match=r"has 1 row of text (.|\n)*name more rows, or raise at_most") as told:
        read_corpus(data("jsonl", "one.jsonl"), tmp_path)
    assert "split --number" not in str(told.value)
    write("jsonl", tmp_path / "no.jsonl", documents(0, 4))
    with pytest.raises(RefusedError, match="name a field that contains text"):
        read_corpus(data("jsonl", "no.jsonl", field="length"), tmp_path)


@pytest.mark.parametrize("kind", [pyarrow.large_string(), pyarrow.dictionary(pyarrow.int32(), pyarrow.string())])
def test_text_however_parquet_keeps_it(kind, tmp_path):
    column = pyarrow.array(["a", "b", "a", None]).cast(kind)
    parquet.write_table(pyarrow.table({"text": column}), tmp_path / "x.parquet")
    texts = list(source("parquet", tmp_path, "*.parquet").texts())
    assert [getattr(text, "content", None) for text in texts] == [b"a", b"b", b"a", None]


@kinds
@pytest.mark.parametrize("check", [True, False])
def test_mistakes_are_shown_where_the_space_says_it(kind, check, tmp_path, monkeypatch):
    path = write_world(tmp_path)
    write(kind, tmp_path / f"x.{kind}", documents(0, 3))
    wrong = (
        {f"{kind}: [y.{kind}], field: text": f"no file matches 'y.{kind}'"}
        if check
        else {f"{kind}: [x.{kind}], field: txt": "has no field 'txt'"}
    )
    for corpus, told in wrong.items():
        path.write_text(path.read_text().replace('{files: ["texts/**/*.txt"]}', f"{{{corpus}}}"))
        space = ablate.load_space(path)
        ask = ablate.check if check else lambda space: ablate.plan_space(space, results=tmp_path / "r")
        with pytest.raises(RefusedError) as refused:
            ask(space)
        assert told in str(refused.value) and "tiny.yaml:6:" in str(refused.value) and "^" in str(refused.value)
