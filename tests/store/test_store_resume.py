"""A trial that was interrupted, however, ends with the same rows as one that was not."""

from __future__ import annotations

import math

import pyarrow.parquet
import pytest
from store_fixtures import (
    DOCUMENTS,
    VERSIONS,
    contents,
    course,
    diverged,
    fill,
    hear,
    opened,
    plan,
    refuse,
    rows_at,
    saved,
    state_of,
    trial,
)

from ablate.store import durable, files, journal, repair, sealed
from ablate.store.journal import TrialStart
from ablate.train.events import Began, Checkpoint, Outcome, Row, Saved, Timing

SAVED = saved(20, state_of("a10000"))


def sealed_rows(folder, trial_id="a10000"):
    table = pyarrow.parquet.read_table(sealed.path_of(folder, trial_id))
    return [row for row in table.to_pylist() if row["kind"] == "row"]


def run_on(folder, one, say=refuse, versions=VERSIONS):
    """Begin or go on with a trial and let it yield what is left, as the trainer would."""
    with opened(folder, say=say) as results:
        start = results.begin(one)
        resume = start.resume if start.versions == versions else None
        step = resume.step if resume else 0
        results.append(one.id, [Began(step, versions), *course(one.id, after=step)])
        return resume


@pytest.fixture
def undisturbed(tmp_path):
    run_on(tmp_path / "undisturbed", trial())
    return tmp_path / "undisturbed"


def interrupt(folder, events):
    """Begin a trial and stop hearing of it after some events, without any outcome."""
    with opened(folder) as results:
        results.begin(trial())
        hear(results, trial().id, events)


def test_rows_are_sealed_as_they_were_yielded(undisturbed):
    expected = {(e.step, e.metric, e.address): e.value for e in course("a10000") if isinstance(e, Row)}
    found = {(row["step"], row["metric"], row["address"]): row["value"] for row in sealed_rows(undisturbed)}
    assert found == expected
    assert len(sealed_rows(undisturbed)) == len(expected)
    assert not list((undisturbed / "journal").iterdir()) and not list((undisturbed / "checkpoints").iterdir())


@pytest.mark.parametrize("heard", range(0, len(course("a10000")), 5))
def test_going_on_gives_the_same_sealed_rows(tmp_path, undisturbed, heard):
    folder = tmp_path / "resumed"
    interrupt(folder, course("a10000")[:heard])
    checkpoint = run_on(folder, trial())
    seen = any(isinstance(event, Saved) for event in course("a10000")[:heard])
    assert checkpoint == (SAVED if seen else None)
    assert sealed_rows(folder) == sealed_rows(undisturbed)


def test_a_trainer_that_starts_over_after_a_checkpoint_is_caught(tmp_path):  # the test above can fail
    interrupt(tmp_path, course("a10000")[:25])
    with opened(tmp_path) as results:
        assert results.begin(trial()).resume
        with pytest.raises(ValueError, match="two rows"):
            results.append("a10000", course("a10000"))


def test_digest_is_of_rows_and_not_of_clocks_or_order(tmp_path, undisturbed):
    events = [e if not isinstance(e, Timing) else Timing(e.step, e.name, e.seconds * 3) for e in course("a10000")]
    with opened(tmp_path / "slow") as results:
        results.begin(trial())
        results.append("a10000", [*reversed(events[:-1]), events[-1]])
    with opened(tmp_path / "other") as results:
        results.begin(trial())
        changed = [
            e if e != events[0] else Row(e.step, e.metric, e.address, math.nextafter(e.value, 9)) for e in events
        ]
        results.append("a10000", changed)
    digests = [
        sealed.examine(folder, "a10000", None).ending.digest
        for folder in (undisturbed, tmp_path / "slow", tmp_path / "other")
    ]
    assert digests[0] == digests[1] != digests[2]


def test_interrupted_is_not_an_end(tmp_path):
    with opened(tmp_path) as results:
        results.begin(trial())
        hear(results, "a10000", [*rows_at("a10000", 0), SAVED, Outcome("interrupted", 20)])
        assert results.outcomes() == {}
    with opened(tmp_path) as results:
        assert results.begin(trial()) == TrialStart(SAVED, VERSIONS)


def test_a_torn_last_line_is_cut_and_said(tmp_path, undisturbed):
    folder, said = tmp_path / "torn", []
    interrupt(folder, course("a10000")[:25])
    path = journal.path_of(folder, "a10000")
    path.write_bytes(path.read_bytes()[:-7])
    assert run_on(folder, trial(), say=said.append) == SAVED
    assert len(said) == 1 and "a10000 ends in the middle of a line" in said[0]
    assert sealed_rows(folder) == sealed_rows(undisturbed)


@pytest.mark.parametrize(("line", "goes_on"), [(3, False), (24, True)])
def test_a_flipped_bit_is_said_and_its_row_is_never_believed(tmp_path, undisturbed, line, goes_on):
    folder, said = tmp_path / "flipped", []
    interrupt(folder, course("a10000")[:30])
    path = journal.path_of(folder, "a10000")
    content = bytearray(path.read_bytes())
    place = sum(len(one) for one in bytes(content).splitlines(keepends=True)[: line - 1]) + 30
    content[place] ^= 1
    path.write_bytes(content)
    checkpoint = run_on(folder, trial(), say=said.append)
    assert any(f"damaged in line {line}" in one for one in said)
    assert (checkpoint is not None) == goes_on, "only damage above the checkpoint costs the trial"
    assert sealed_rows(folder) == sealed_rows(undisturbed)


@pytest.mark.parametrize("left", [0, 10])
def test_a_segment_without_its_first_line_says_nothing(tmp_path, undisturbed, left):
    folder, said = tmp_path / "headless", []
    interrupt(folder, course("a10000")[:25])
    path = journal.path_of(folder, "a10000")
    path.write_bytes(path.read_bytes()[:left])
    assert run_on(folder, trial(), say=said.append) is None
    assert said == (["the journal of trial a10000 has lost its first line; the trial starts over"] if left else [])
    assert sealed_rows(folder) == sealed_rows(undisturbed)


def test_a_damaged_checkpoint_is_not_gone_on_from(tmp_path, undisturbed):
    folder, said = tmp_path / "bad", []
    interrupt(folder, course("a10000")[:25])
    (state,) = (folder / "checkpoints").iterdir()
    state.write_bytes(state.read_bytes()[:-1] + b"?")
    assert run_on(folder, trial(), say=said.append) is None
    assert "checkpoint of trial a10000 is damaged" in said[0]
    assert sealed_rows(folder) == sealed_rows(undisturbed)


def test_a_checkpoint_the_segment_does_not_name_is_passed_over(tmp_path, undisturbed):
    """The driver died after writing the state and before its line: the older state still stands."""
    folder = tmp_path / "unnamed"
    interrupt(folder, course("a10000")[:25])
    journal.write_checkpoint(folder, "a10000", Checkpoint(30, b"later"))
    assert run_on(folder, trial()) == SAVED
    assert sealed_rows(folder) == sealed_rows(undisturbed)


def test_a_newer_state_outlives_the_news_of_an_older_one(tmp_path):
    """The worker is ahead of its driver: what it wrote since must not go when the driver hears of the one before."""
    with opened(tmp_path) as results:
        results.begin(trial())
        for step in (10, 20, 30):
            journal.write_checkpoint(tmp_path, "a10000", Checkpoint(step, state_of("a10000")))
        results.append("a10000", [SAVED])
        assert journal.checkpoint_steps(tmp_path, "a10000") == (20, 30)


def test_other_versions_start_over(tmp_path):
    said = []
    interrupt(tmp_path, course("a10000")[:25])
    assert run_on(tmp_path, trial(), say=said.append, versions=VERSIONS | {"torch": "2.12.0"}) is None
    assert said == ["trial a10000 was started with other versions (torch); it starts over"]


def test_versions_that_are_no_longer_said_are_named(tmp_path):
    """As when a trial was begun in parts, and goes on whole."""
    said = []
    interrupt(tmp_path, course("a10000")[:25])
    less = {name: version for name, version in VERSIONS.items() if name != "torch"}
    assert run_on(tmp_path, trial(), say=said.append, versions=less) is None
    assert said == ["trial a10000 was started with other versions (torch); it starts over"]


def test_two_rows_of_one_key_are_refused(tmp_path):
    with opened(tmp_path) as results:
        results.begin(trial())
        with pytest.raises(ValueError, match="kurtosis at 'head' twice for step 5"):
            results.append("a10000", [Row(5, "kurtosis", "head", 1.0), Row(5, "kurtosis", "head", 2.0)])
        results.append("a10000", [Row(6, "kurtosis", "head", 1.0), Row(6, "kurtosis", "", 1.0)])


CRASHES = ["write the sealed file", "list it in the witness", "delete the segment", "drop the checkpoint"]


@pytest.mark.parametrize("place", CRASHES)
def test_a_driver_that_dies_while_sealing_loses_nothing(tmp_path, undisturbed, monkeypatch, place):
    folder = tmp_path / "dies"

    class Died(BaseException):
        pass

    def die(*_, **__):
        raise Died

    owner, name = {
        CRASHES[0]: (sealed, "write"),
        CRASHES[1]: (files, "bear_witness"),
        CRASHES[2]: (repair.Path, "unlink"),
        CRASHES[3]: (repair.journal, "drop_checkpoints"),
    }[place]
    results = opened(folder).__enter__()
    results.begin(trial())
    results.append("a10000", course("a10000")[:-1])
    monkeypatch.setattr(owner, name, die)
    with pytest.raises(Died):
        results.seal("a10000", Outcome("finished", 40))
    monkeypatch.undo()
    results.__exit__(None, None, None)
    with opened(folder) as again:
        assert again.outcomes() == {"a10000": Outcome("finished", 40)}
    assert sealed_rows(folder) == sealed_rows(undisturbed)
    assert not list((folder / "journal").iterdir()) and not list((folder / "checkpoints").iterdir())
    assert len(durable.read_lines(folder / files.WITNESS).records) in (1, 2), "a line of it may come twice"


def test_an_outcome_keeps_its_kind_step_and_detail(tmp_path):
    with opened(tmp_path) as results:
        results.begin(trial())
        results.append("a10000", diverged("a10000"))
    with opened(tmp_path) as results:
        (outcome,) = results.outcomes().values()
    detail = {"address": "layers.2.mlp", "cause": "loss", "last": {"train_loss": "NaN"}}
    assert outcome == Outcome("diverged", 20, detail)


@pytest.mark.full
def test_begun_anew_it_is_unknown_until_it_ends_and_then_replaces(tmp_path):
    fill(tmp_path)
    before = contents(tmp_path)
    with opened(tmp_path) as results:
        assert results.begin(trial()).resume is None
        assert "a10000" not in results.outcomes()
    with opened(tmp_path) as results:
        assert "a10000" not in results.outcomes()
        results.begin(trial())
        results.append("a10000", [Row(0, "eval_loss", "", 7.0), Outcome("finished", 40)])
        results.refresh()
        assert results.finals(["a10000"])["a10000"]["metrics"]["eval_loss"] == 7.0
    after = contents(tmp_path)
    others = [row for row in before["metrics"] if row[0] != "'a10000'"]
    assert [row for row in after["metrics"] if row[0] != "'a10000'"] == others
    assert len(after["metrics"]) == len(others) + 1


def test_begun_anew_a_paused_trial_starts_over(tmp_path, undisturbed):
    folder = tmp_path / "anew"
    interrupt(folder, course("a10000")[:25])
    with opened(folder) as results:
        results.begin_anew([trial()])
        assert (
            not journal.checkpoint_steps(folder, "a10000") and not journal.read(journal.path_of(folder, "a10000")).rows
        )
        assert results.begin(trial()).resume is None
        with pytest.raises(ValueError, match="a10000 is already open"):
            results.begin_anew([trial()])
    assert run_on(folder, trial()) is None
    assert sealed_rows(folder) == sealed_rows(undisturbed)


def test_a_lost_witness_is_written_again_from_the_files(tmp_path):
    fill(tmp_path)
    with opened(tmp_path) as results:
        known = results.outcomes()
    (tmp_path / files.WITNESS).unlink()
    said = []
    with opened(tmp_path, say=said.append) as results:
        assert results.outcomes() == known and len(known) == 6
    assert said == [f"{tmp_path}/witness.jsonl did not list 7 of the files that are there; they are listed again"]


@pytest.mark.parametrize("known_by_database", [True, False])
def test_a_lost_sealed_file_comes_back_from_the_database_or_its_trial_is_not_known(tmp_path, known_by_database):
    fill(tmp_path)
    before = sealed_rows(tmp_path)
    sealed.path_of(tmp_path, "a10000").unlink()
    if not known_by_database:
        (tmp_path / "ablate.duckdb").unlink()
    said = []
    with opened(tmp_path, say=said.append) as results:
        lost = set() if known_by_database else {"a10000"}
        assert set(results.outcomes()) == {one.id for one in plan().trials} - lost
        results.record_plan(plan(), DOCUMENTS)
    then = "its rows are sealed again from ablate.duckdb" if known_by_database else "the next `ablate run` of its space"
    assert len(said) == 1 and f"trials/a10000.parquet is gone; {then}" in said[0]
    if known_by_database:
        assert sealed_rows(tmp_path) == before
