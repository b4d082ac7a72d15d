"""The witness lists what was written, and is never an index: what is there counts, listed or not, known at once."""

from __future__ import annotations

import statistics
import subprocess
import sys
from contextlib import contextmanager

import pytest
from altered_trials import altered
from attacks import flip
from store_fixtures import RECIPE, VERSIONS, course, fill, opened, refuse, trial

from ablate.store import durable, files
from ablate.store.durable import DAMAGED
from ablate.store.files import WITNESS, Ending, Written
from ablate.store.measurements import trial_seconds
from ablate.store.query import query
from ablate.store.repair import repair
from ablate.store.sealed import name_of
from ablate.store.snapshot import Snapshot, standings
from ablate.train.events import Outcome

WATCHING: list[list[str]] = []
"""The lists to which every file that is opened is added; an audit hook cannot be removed."""


def note_opened(event, arguments):
    """Note the files that are opened."""
    if WATCHING and event == "open":
        WATCHING[-1].append(str(arguments[0]))


sys.addaudithook(note_opened)


@contextmanager
def watched():
    """The files that are opened within."""
    WATCHING.append([])
    try:
        yield WATCHING[-1]
    finally:
        WATCHING.pop()


@pytest.fixture
def folder(tmp_path):
    fill(tmp_path)
    return tmp_path


def entered(folder, say=refuse):
    """What is known to a run that begins here."""
    with opened(folder, say=say) as results:
        return results.outcomes()


def test_five_thousand_trials_are_known_at_once(tmp_path):
    ids = [f"{number:012x}" for number in range(5000)]
    (tmp_path / "trials").mkdir()
    for id in ids:
        (tmp_path / name_of(id)).write_bytes(b"the rows of a trial")
    end = Outcome("finished", 300)
    ends = (Ending(id, 1, "finished", 300, {}, 9, "0" * 64, 1.8e9, 1.8e9, VERSIONS) for id in ids)
    listed = [Written(name_of(end.trial), 19, "0" * 16, end) for end in ends]
    files.rewrite_witness(tmp_path, listed)
    with watched() as seen:
        assert Snapshot(tmp_path).outcomes() == dict.fromkeys(ids, end)
    assert sum(name.endswith(WITNESS) for name in seen) == 1
    assert [name for name in seen if name.endswith(".parquet")] == []


def test_a_run_reads_no_sealed_file_that_the_database_has(folder):
    with watched() as seen:
        assert len(entered(folder)) == 6
    assert [name for name in seen if name.endswith(".parquet")] == []


@pytest.mark.parametrize("content", [None, b""], ids=["gone", "emptied"])
@pytest.mark.parametrize("by", ["doctor", "a run"])
def test_without_a_witness_every_file_is_a_result_and_is_listed_again(folder, content, by):
    before, known, said = Snapshot(folder).witness, Snapshot(folder).outcomes(), []
    (folder / WITNESS).unlink() if content is None else (folder / WITNESS).write_bytes(content)
    assert Snapshot(folder).outcomes() == known and Snapshot(folder).lost == {}
    if by == "doctor":
        done = repair(folder, dry_run=False, say=said.append)
        assert {(found.kind, found.severity) for found in done.findings} == {("unlisted", "repaired")}
        assert (len(done.findings), done.exit_code, done.left, said) == (7, 0, (), [])
    else:
        assert entered(folder, said.append) == known
        assert said == [f"{folder / WITNESS} did not list 7 of the files that are there; they are listed again"]
    assert Snapshot(folder).witness == before


@pytest.mark.parametrize("unlisted", [1, 2])
def test_one_unlisted_file_is_that_of_a_killed_run_and_nothing_is_said(folder, unlisted):
    lines = (folder / WITNESS).read_bytes().splitlines(keepends=True)
    (folder / WITNESS).write_bytes(b"".join(lines[:-unlisted]))
    said = []
    assert len(entered(folder, said.append)) == 6
    assert len(said) == unlisted - 1
    assert (folder / WITNESS).read_bytes() != b"".join(lines[:-unlisted])


def test_a_torn_line_is_cut_off_and_the_next_is_not_joined_to_it(folder):
    before = (folder / WITNESS).read_bytes()
    with (folder / WITNESS).open("ab") as file:
        file.write(durable.encoded_line(["written", {}])[:-9])
    with opened(folder) as results:
        results.begin(trial(id="new"))
        results.append("new", course("new"))
    assert (folder / WITNESS).read_bytes().startswith(before)
    witness = files.read_witness(folder)
    assert (witness.torn, witness.damaged) == (0, ()) and name_of("new") in witness.written


def test_a_damaged_witness_is_written_again_and_forgets_no_loss(folder):
    """The line of a trial that is there is damaged; that of one that is gone is whole, and stays."""
    first = (folder / WITNESS).read_bytes().index(b"trials/")
    gone = list(files.read_witness(folder).written)[-1]
    flip(folder / WITNESS, first)
    (folder / gone).unlink()
    (folder / "ablate.duckdb").unlink()
    done = repair(folder, dry_run=False, say=lambda said: None)
    assert [found.kind for found in done.lost] == ["sealed"] and done.exit_code == 1
    assert (folder / DAMAGED / WITNESS).exists() and files.read_witness(folder).damaged == ()
    assert Snapshot(folder).lost == {gone: "is gone"} and Snapshot(folder).unlisted == ()


@pytest.mark.parametrize("content", [None, b"", b"not Parquet"], ids=["gone", "emptied", "changed"])
def test_what_only_the_witness_knows_is_lost_and_never_planned(folder, content):
    path, said = folder / name_of("b20001"), []
    path.unlink() if content is None else path.write_bytes(content)
    status = "missing" if content is None else "damaged"
    assert {one.trial_id: one.state for one in standings(Snapshot(folder))}["b20001"] == status
    asked = query(folder, "SELECT status FROM trials WHERE trial_id = 'b20001'", say=said.append)
    assert asked.rows == ((status,),) and said[0].startswith("lost: trials/b20001.parquet ")


def test_a_plan_that_is_replaced_is_no_longer_listed(folder):
    (before,) = (name for name in files.read_witness(folder).written if name.startswith("plans/"))
    (folder / before).rename(folder / "elsewhere.json")
    files.bear_witness(folder, [], replaced=[before])
    assert before not in files.read_witness(folder).written and Snapshot(folder).lost == {}


def test_pace_is_the_median_of_finished_trials_of_that_size(tmp_path):
    assert trial_seconds(tmp_path, trial()) is None
    fill(tmp_path)
    known = Snapshot(tmp_path).endings.values()
    took = [ending.ended - ending.began for ending in known if ending.outcome.kind == "finished"]
    assert len(took) == 5
    assert trial_seconds(tmp_path, trial()) == pytest.approx(statistics.median(took), abs=1e-6)
    assert trial_seconds(tmp_path, altered(trial(), recipe=RECIPE.model_copy(update={"steps": 41}))) is None


HOLDER = "import sys, duckdb; c = duckdb.connect(sys.argv[1]); print(flush=True); sys.stdin.readline()"


def test_an_estimate_needs_no_database(folder):
    command = [sys.executable, "-c", HOLDER, folder / "ablate.duckdb"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        holder.stdout.readline()
        assert trial_seconds(folder, trial()) is not None
        holder.communicate("\n")
