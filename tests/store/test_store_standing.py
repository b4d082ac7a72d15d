"""How trials stand, read while a driver writes and after one has died."""

from io import StringIO

import pytest
from rich.console import Console
from store_fixtures import DOCUMENTS, course, diverged, fill, hear, opened, plan, rows_at, saved, state_of, trial

from ablate.errors import InputError
from ablate.report.screens.status import screen
from ablate.store.claim import Claim
from ablate.store.query import query
from ablate.store.snapshot import Snapshot, standings

pytestmark = pytest.mark.fast


def states(folder):
    return {one.trial_id: one.state for one in standings(Snapshot(folder))}


def test_every_state_there_is(tmp_path):
    with opened(tmp_path) as results:
        results.record_plan(plan(), DOCUMENTS)
        for one, events in [
            (trial("a1", 0), course("a10000")),
            (trial("b2", 0), diverged("b20000")),
            (trial("c3", 0), course("c30000")[:25]),
            (trial("a1", 1), rows_at("a10001", 10)),
            (trial("b2", 1), rows_at("b20001", 10)),
        ]:
            results.begin(one)
            hear(results, one.id, events)
        with Claim(tmp_path, "a10001", step=12) as claim:
            assert states(tmp_path)["a10001"] == "running"
            left = claim.path.read_bytes()
        claim.path.write_bytes(left)  # as a worker that was killed leaves it: there, and not locked
        with Claim(tmp_path, "c30000", step=27):
            found = {one.trial_id: one for one in standings(Snapshot(tmp_path))}
    assert {id: one.state for id, one in found.items()} == {
        "a10000": "finished",
        "b20000": "diverged",
        "c30000": "running",
        "a10001": "dead",
        "b20001": "paused",
        "c30001": "waiting",
    }
    running = found["c30000"]
    assert (running.step, running.steps, running.saved, running.variant, running.seed) == (27, 40, 20, "op", 0)
    assert running.silent is not None and running.silent < 5
    assert found["a10001"].step == 12 and found["a10001"].saved is None


@pytest.mark.parametrize(
    ("events", "stands"),
    [
        ([], ("waiting", 0, None)),
        (rows_at("a10000", 0), ("paused", 1, None)),
        ([saved(20, state_of("a10000"))], ("paused", 20, 20)),
        ([*rows_at("a10000", 0), saved(20, state_of("a10000")), *rows_at("a10000", 20)], ("paused", 21, 20)),
        (course("a10000")[:-1], ("paused", 40, 20)),
    ],
)
def test_a_row_is_of_a_step_that_is_done(tmp_path, events, stands):
    with opened(tmp_path) as results:
        results.record_plan(plan(), DOCUMENTS)
        results.begin(trial())
        hear(results, "a10000", events)
    found = {one.trial_id: one for one in standings(Snapshot(tmp_path))}["a10000"]
    assert (found.state, found.step, found.saved) == stands


def test_a_folder_without_results_is_said(tmp_path):
    with pytest.raises(InputError, match="no results in"):
        standings(Snapshot(tmp_path))


def test_the_screen_counts_and_says_how_to_go_on(tmp_path):
    fill(tmp_path)
    with opened(tmp_path) as results:
        results.begin(trial())
        hear(results, "a10000", course("a10000")[:25])
    console = Console(width=110, record=True, file=StringIO())
    console.print(screen(standings(Snapshot(tmp_path)), tmp_path, None))
    text = console.export_text()
    assert "small: 4 finished, 1 diverged, 1 paused, of 6 trials" in text
    assert "no worker is running; to resume: ablate resume small" in text
    row = next(line for line in text.splitlines() if "paused" in line and "pre_ln" in line)
    assert "21/40" in row


def test_results_of_an_earlier_identity_are_named_and_stay_readable(tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("ablate.store.documents.SCHEME", 1)
        fill(tmp_path)
    shown = StringIO()
    Console(file=shown, width=200).print(screen(standings(Snapshot(tmp_path)), tmp_path, None))
    assert "all of them have an identity of an earlier version of ablate: their results are kept" in shown.getvalue()
    assert "`ablate run small` trains them anew" in shown.getvalue()
    assert query(tmp_path, "SELECT count(*) FROM trials WHERE status = 'finished'").rows[0][0] > 0


def test_those_of_this_one_are_not(tmp_path):
    """The twin."""
    fill(tmp_path)
    shown = StringIO()
    Console(file=shown, width=200).print(screen(standings(Snapshot(tmp_path)), tmp_path, None))
    assert "earlier version" not in shown.getvalue()
