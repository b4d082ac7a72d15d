"""What another version of ablate, or a hand, has written into a results folder is told in a line, whoever reads it.

Every file of a real folder is given lines that are whole, with their checksum, and say something else than this version
writes there; every verb that reads it answers, or refuses in words. None ends in a traceback.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from attacks import OPEN, half_way, run
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from store_fixtures import opened, plan

from ablate.errors import AblateError, RefusedError
from ablate.session.judging import account_of, document, judgements
from ablate.session.resuming import resumable
from ablate.space.documents import Judge, Judged
from ablate.store import checksummed_lines, claim, ledger, open_trial, questions, requests, step_times, verdicts
from ablate.store.checksummed_lines import compact
from ablate.store.query import query
from ablate.store.repair import repair
from ablate.store.requests import Request
from ablate.store.step_times import Conditions, Paces
from ablate.store.trial_status import standings
from ablate.verdict.judge import judge

SEGMENT = f"{open_trial.FOLDER}/{OPEN}.jsonl"
FILES = (requests.FILE, ledger.PLANS, ledger.OUTCOMES, verdicts.FILE, questions.FILE, step_times.FILE, SEGMENT)
RULES = Judge(metrics={"eval_loss": Judged(margin="1%", scale="linear", better="lower")}, against="a1", confidence=0.95)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder half-way through its plan, with all that a run writes."""
    place = tmp_path_factory.mktemp("foreign")
    folder = place / "results"
    half_way(folder)
    requests.record(folder, Request(space="small", path=str(place / "small.yaml"), place={"executor": "local"}, at=1.0))
    here = Conditions(batch=1, dtype="float32", threads=1)
    step_times.record(folder, Paces(reference="m", seconds={"m": 0.1}, conditions=here, machine={}))
    with opened(folder) as results:
        seen = results.finals([trial.id for trial in plan().trials])
        results.record_verdicts(document(judge(plan(), RULES, seen), plan()))
        whole = replace(plan(), trials=tuple(one for one in plan().trials if one.id in seen))
        account = account_of(whole, RULES, folder, seen)
        results.record_questions(judgements(judge(whole, RULES, seen, account), whole, RULES, account, seen))
        results.refresh()
    return place


@pytest.fixture
def folder(place, tmp_path):
    return shutil.copytree(place / "results", tmp_path / "results")


def answers(folder: Path) -> list[str]:
    """Do all that is done with a folder; what was refused, the first line of each."""

    def gone(request: Request) -> None:
        raise RefusedError("the file of the space is gone\n  = put it back")

    verbs = {
        "status": lambda: standings(folder),
        "sql": lambda: query(folder, "SELECT count(*) FROM trials, spaces", say=lambda said: None),
        "resume": lambda: resumable(folder, gone),
        "paces": lambda: step_times.kept(folder),
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
        file.writelines(map(checksummed_lines.encode, records))


@pytest.mark.full
def test_a_folder_that_nobody_has_touched_is_refused_by_nobody(folder):  # the tests below can fail
    assert answers(folder) == []


@pytest.mark.sampled(0, gate=3)
@pytest.mark.parametrize("name", FILES)
def test_a_line_of_a_kind_that_a_newer_version_has_is_passed_over(folder, name):
    put(folder, name, ["measured", {"by": "a newer version"}], {"a": 1}, [], 3, None)
    found = [f.what for f in repair(folder, dry_run=True).findings if f.kind == "unknown line"]
    assert found == ["has 5 lines of a kind that this version does not know"]
    assert answers(folder) == []


KNOWN = {
    requests.FILE: ["run"],
    ledger.PLANS: ["plan", "trial"],
    ledger.OUTCOMES: ["ended", "forgotten"],
    verdicts.FILE: ["judged"],
    questions.FILE: ["question"],
    step_times.FILE: ["paces"],
    SEGMENT: ["begin", "row", "timing", "checkpoint", "outcome"],
}


@pytest.mark.full
@pytest.mark.parametrize(("name", "word"), [(name, word) for name in KNOWN for word in KNOWN[name][:2]])
def test_a_line_of_a_known_kind_that_says_something_else_is_refused_in_words(folder, name, word):
    content = (folder / name).read_bytes()
    for record in ([word], [word, []], [word, 3, {}]):
        (folder / name).write_bytes(content)
        put(folder, name, record)
        if word == "begin":  # only the first line of a segment begins it
            (folder / name).write_bytes(checksummed_lines.encode(record))
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


@pytest.mark.sampled(1, gate=5)
@pytest.mark.parametrize(
    ("field", "other"),
    [
        *[("identity", other) for other in ({"": {}}, "2", [1], True, None)],
        *[("data", other) for other in (-1.5, [], "bytes", {"tokenizer": 3}, {"tokenizer": {"bpe": "many"}})],
        *[("recipe", {"optimizer": {"adamw": {"lr": other}}}) for other in ("x", [], True, {})],
    ],
)
def test_a_specification_that_says_something_else_is_refused_in_words(folder, field, other):
    specification = next(
        said for word, *_, said in checksummed_lines.read(folder / ledger.PLANS).records if word == "trial"
    )
    put(folder, ledger.PLANS, ["trial", {**specification, field: other}])
    refused = answers(folder)
    assert refused and all(f"plans.jsonl is not as this version of ablate writes it: {field}" in one for one in refused)


def test_an_outcome_of_a_newer_version_is_said_with_what_it_is(folder):
    _, ending = checksummed_lines.read(folder / ledger.OUTCOMES).records[0]
    put(folder, ledger.OUTCOMES, ["ended", {**ending, "kind": "teleported"}])
    with pytest.raises(RefusedError, match=r"outcomes.jsonl is not as .* writes it: kind: input should be 'finished'"):
        standings(folder)


@pytest.mark.full
def test_what_a_newer_version_says_besides_is_of_no_harm(folder):
    for name in (requests.FILE, ledger.PLANS, ledger.OUTCOMES):
        word, *said = checksummed_lines.read(folder / name).records[0]
        put(folder, name, [word, *said[:-1], {**said[-1], "mood": "good"}])
    assert answers(folder) == []


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
def test_a_whole_line_that_is_not_json_is_refused_in_words(folder):
    for name in FILES:
        copy = shutil.copytree(folder, folder.parent / f"copy{FILES.index(name)}")
        with (copy / name).open("ab") as file:
            file.write(checksummed_lines.framed(b'["run", {'))
        assert all(name in one for one in answers(copy)), name


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


def survives(place, name: str, which: int, where: int, other: object) -> None:
    copy = place / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(place / "results", copy)
    records = list(checksummed_lines.read(copy / name).records)
    which %= len(records)
    ways = places(records[which])
    records[which] = changed(records[which], ways[where % len(ways)], other)
    (copy / name).write_bytes(b"".join(map(checksummed_lines.encode, records)))
    answers(copy)


UNSHRUNK = {"phases": (Phase.explicit, Phase.generate), "deadline": None, "suppress_health_check": list(HealthCheck)}
ANY = {
    "name": st.sampled_from(FILES),
    "which": st.integers(0, 10**6),
    "where": st.integers(0, 10**6),
    "other": st.sampled_from(OTHERS),
}


@pytest.mark.full
@settings(max_examples=6, **UNSHRUNK)
@given(**ANY)
def test_any_value_in_the_place_of_another_is_no_traceback(place, name, which, where, other):
    survives(place, name, which, where, other)


@pytest.mark.fuzz
@settings(max_examples=600, **UNSHRUNK)
@given(**ANY)
def test_many_values_in_the_place_of_others_are_no_traceback(place, name, which, where, other):
    survives(place, name, which, where, other)
