"""What another version of ablate, or a hand, has written into a results folder is told in a line, whoever reads it.

The lines of a real folder get others beside them that are whole, with their checksum, and say something else than this
version writes there; its documents get another format. Every verb that reads it answers, or refuses in words. None ends
in a traceback.
"""

from __future__ import annotations

import json
import shutil
import zlib
from pathlib import Path

import pytest
from attacks import FILES, OPEN, file_of, half_way, run
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ablate.errors import AblateError, RefusedError
from ablate.session.earlier_runs import resumable
from ablate.session.reporting import report_run
from ablate.store import claim, durable, files, machines
from ablate.store.durable import compact
from ablate.store.query import query
from ablate.store.repair import repair
from ablate.store.snapshot import Snapshot, standings

SEGMENT = FILES["segment"]
LINES = {
    files.WITNESS: ["written", "replaced"],
    SEGMENT: ["begin", "row", "timing", "checkpoint", "outcome"],
}
"""The files of lines, and the words that lines of each begin with."""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder half-way through its plan, with all that a run writes."""
    place = tmp_path_factory.mktemp("foreign")
    half_way(place / "results")
    return place


@pytest.fixture
def folder(place, tmp_path):
    return shutil.copytree(place / "results", tmp_path / "results")


def answers(folder: Path) -> list[str]:
    """Do all that is done with a folder; what was refused, the first line of each."""

    verbs = {
        "status": lambda: standings(Snapshot(folder)),
        "sql": lambda: query(folder, "SELECT count(*) FROM trials, spaces", say=lambda said: None),
        "resume": lambda: resumable(folder),
        "paces": lambda: machines.paces_in(folder),
        "tables": lambda: report_run("elsewhere", results=folder) if Snapshot(folder).tables else None,
        "look": lambda: repair(folder, dry_run=True),
        "doctor": lambda: repair(folder, dry_run=False, say=lambda said: None),
        "run": lambda: run(folder, lambda said: None),
    }
    refused = []
    for verb, ask in verbs.items():
        try:
            ask()
        except AblateError as error:
            first, *others = str(error).splitlines()
            assert others and others[-1].startswith("  = "), f"{verb} gives no way out: {error}"
            refused.append(f"{verb}: {first}")
    return refused


def put(folder: Path, name: str, *records: object) -> None:
    """Write lines behind those of a file, each whole."""
    with (folder / name).open("ab") as file:
        file.writelines(map(durable.encoded_line, records))


@pytest.mark.full
def test_a_folder_that_nobody_has_touched_is_refused_by_nobody(folder):  # the tests below can fail
    assert answers(folder) == []


@pytest.mark.full
@pytest.mark.parametrize("name", LINES)
def test_a_line_of_a_kind_that_a_newer_version_has_is_passed_over(folder, name):
    put(folder, name, ["measured", {"by": "a newer version"}], {"a": 1}, [], 3, None)
    assert answers(folder) == []


@pytest.mark.full
@pytest.mark.parametrize(("name", "word"), [(name, word) for name in LINES for word in LINES[name]])
def test_a_line_of_a_known_kind_that_says_something_else_is_refused_in_words(folder, name, word):
    content = (folder / name).read_bytes()
    for record in ([word], [word, []], [word, 3, {}]):
        (folder / name).write_bytes(content)
        put(folder, name, record)
        if word == "begin":  # only the first line of a segment begins it
            (folder / name).write_bytes(durable.encoded_line(record))
        refused = answers(folder)
        assert refused, record
        assert all(str(folder / name) in one and "is not as this version of ablate writes it" in one for one in refused)


@pytest.mark.parametrize(
    "record",
    [["row", True, "loss", "", 1.0], ["row", 3, "loss", "", True], ["timing", 3, "s", True],
     ["checkpoint", True, 1, 2], ["outcome", "finished", 3, {}, True]],
)  # fmt: skip
def test_a_truth_value_is_no_number(folder, record):
    put(folder, SEGMENT, record)
    assert [one for one in answers(folder) if compact(record) in one]


def told_otherwise(folder: Path, kind: str, content: object) -> Path:
    """Put a document in the place of one that is there, whole and named by its digest."""
    path = file_of(folder, kind)
    written = content if isinstance(content, bytes) else compact(content).encode()
    stem = path.name.split(".")[0] + "." if kind == "plans" else ""
    other = path.with_name(f"{stem}{files.digest_of(written)}.json")
    path.unlink()
    other.write_bytes(written)
    files.bear_witness(folder, [], replaced=[f"{kind}/{path.name}"])
    return other


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "other", [{"format": files.FORMAT + 1}, {"format": None}, {"number": "x"}, [], b"{", b"[" * 10**5]
)
@pytest.mark.parametrize("kind", files.DOCUMENTS)
def test_a_document_of_another_format_is_refused_in_words(folder, kind, other):
    document = json.loads(file_of(folder, kind).read_bytes())
    path = told_otherwise(folder, kind, document | other if isinstance(other, dict) else other)
    refused = answers(folder)
    assert refused
    assert all(f"{path} is not as this version of ablate writes it: its format is of another" in one for one in refused)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", files.DOCUMENTS)
def test_what_a_newer_version_says_besides_is_of_no_harm(folder, kind):
    told_otherwise(folder, kind, {**json.loads(file_of(folder, kind).read_bytes()), "mood": "good"})
    assert answers(folder) == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "change", [{"kind": "teleported"}, {"attempt": "1"}, {"detail": []}, {"versions": {"torch": 2}}, {"step": True}]
)
def test_an_ending_of_a_newer_version_is_said_with_what_it_is(folder, change):
    listed = next(record[1] for record in durable.read_lines(folder / files.WITNESS).records if "ending" in record[1])
    put(folder, files.WITNESS, ["written", {**listed, "ending": {**listed["ending"], **change}}])
    with pytest.raises(RefusedError, match=r"witness.jsonl is not as .* writes it: how a trial ended: \{"):
        standings(Snapshot(folder))


@pytest.mark.sampled(0, gate=4)
@pytest.mark.parametrize("text", ["[]", "{}", "null", "3", '"me"', '{"pid": []}', "", "{", "[" * 100_000])
def test_a_claim_that_says_nothing_is_nobodys(folder, text):
    (folder / claim.FOLDER).mkdir(exist_ok=True)
    path = folder / claim.FOLDER / OPEN
    path.write_text(text)
    (found,) = (f for f in repair(folder, dry_run=True).findings if f.kind == "worker")
    assert (found.severity, found.what, found.where) == ("harmless", "does not say who holds it", path)
    assert answers(folder) == []
    assert not path.exists()


@pytest.mark.full
@pytest.mark.parametrize("name", LINES)
def test_a_whole_line_that_is_not_json_is_refused_in_words(folder, name):
    body = b'["row", {'
    with (folder / name).open("ab") as file:
        file.write(b"%08x %b\n" % (zlib.crc32(body), body))
    refused = answers(folder)
    assert refused and all(name in one for one in refused)


@pytest.mark.full
@pytest.mark.parametrize("name", ["notes.txt", "a.pt", "x.y.pt", ".pt"])
def test_files_of_others_among_the_checkpoints_are_in_nobodys_way(folder, name):
    (folder / "checkpoints" / name).write_text("mine")
    assert answers(folder) == []
    assert (folder / "checkpoints" / name).read_text() == "mine"


# Any value in the place of any other


def places(value: object, way: tuple = ()) -> list[tuple]:
    """Every place in a record, down to the third level."""
    found = [way] if way else []
    if len(way) < 4 and isinstance(value, dict | list):
        children = value.items() if isinstance(value, dict) else enumerate(value[:3])
        found += [place for key, child in children for place in places(child, (*way, key))]
    return found


def changed(value, way: tuple, other: object):
    """The record with something else at one place, or without it."""
    if not way:
        return other
    copy = value.copy()
    if len(way) == 1 and other == "gone":
        del copy[way[0]]
    else:
        copy[way[0]] = changed(value[way[0]], way[1:], other)
    return copy


OTHERS = (None, [], {}, 3, -1.5, "x", True, [None], {"": {}}, "gone")


def survives(place, kind: str, which: int, where: int, other: object) -> None:
    """Change a line, with its checksum, or a document, whose bytes are then not those that it is named by."""
    copy = place / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(place / "results", copy)
    path = file_of(copy, kind)
    lines = path.suffix == ".jsonl"
    records = list(durable.read_lines(path).records) if lines else [json.loads(path.read_bytes())]
    which %= len(records)
    ways = places(records[which])
    records[which] = changed(records[which], ways[where % len(ways)], other)
    encode = durable.encoded_line if lines else lambda record: compact(record).encode()
    path.write_bytes(b"".join(map(encode, records)))
    answers(copy)


UNSHRUNK = {"phases": (Phase.explicit, Phase.generate), "deadline": None, "suppress_health_check": list(HealthCheck)}
ANY = {
    "kind": st.sampled_from(("segment", "witness", *files.DOCUMENTS)),
    "which": st.integers(0, 10**6),
    "where": st.integers(0, 10**6),
    "other": st.sampled_from(OTHERS),
}


@pytest.mark.full
@settings(max_examples=6, **UNSHRUNK)
@given(**ANY)
def test_any_value_in_the_place_of_another_is_no_traceback(place, kind, which, where, other):
    survives(place, kind, which, where, other)


@pytest.mark.fuzz
@settings(max_examples=600, **UNSHRUNK)
@given(**ANY)
def test_many_values_in_the_place_of_others_are_no_traceback(place, kind, which, where, other):
    survives(place, kind, which, where, other)
