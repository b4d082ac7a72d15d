"""The course of a trial, ended or paused: its numbers are those of `summaries`, and can be asked for up to a step."""

from __future__ import annotations

import pytest
from store_fixtures import ADDRESSES, RECIPE, course, diverged, hear, number, opened, rows_at, saved, state_of, trial

from ablate.errors import RefusedError
from ablate.store import journal
from ablate.store.query import query
from ablate.store.snapshot import open_trials
from ablate.train.events import Outcome, Row, Timing


def numbers_of(folder, trial_id):
    return dict(query(folder, f"SELECT name, value FROM summaries WHERE trial_id = '{trial_id}'").rows)


@pytest.fixture
def results(tmp_path):
    with opened(tmp_path) as results:
        yield results


def test_an_ended_trial_has_the_numbers_of_the_table(results):
    one = trial()
    results.begin(one)
    hear(results, one.id, course(one.id))
    results.refresh()
    found = results.course(one.id)
    assert found.numbers() == numbers_of(results.folder, one.id)
    assert found.numbers() == found.numbers(until=40)


@pytest.mark.parametrize("until", [0, 10, 15, 20])
@pytest.mark.parametrize("ended", [True, False])
def test_up_to_a_step_it_is_as_if_it_had_ended_there(results, until, ended):
    """Against means and peaks worked out here."""
    one = trial()
    results.begin(one)
    hear(results, one.id, course(one.id)[: None if ended else -2])
    at = [step for step in (0, 10, 20) if step <= until]
    values = {(step, address): number(one.id, step, "kurtosis", address) for step in at for address in ADDRESSES}
    found = results.course(one.id).numbers(until)
    assert found["peak_kurtosis"] == max(values.values())
    assert found["kurtosis"] == pytest.approx(sum(values[at[-1], a] for a in ADDRESSES) / len(ADDRESSES), rel=1e-15)
    assert found["train_loss"] == number(one.id, at[-1], "train_loss")
    assert "eval_loss" not in found
    if until < 20:  # the step is what makes the difference
        assert found != results.course(one.id).numbers(20)


def test_a_trial_that_never_began_has_none(results):
    assert results.course("nowhere") is None
    assert results.saved("nowhere") == 0


def test_seconds_are_those_of_steps_and_evaluations_in_between(results):
    """Steps 0, 10 and 29 were measured, at 0.5, 0.1 and 0.2 seconds a step; two evaluations took 3 s each."""
    one = trial()
    results.begin(one)
    timed = [(0, "evaluation_seconds", 3.0), (0, "step_seconds", 0.5), (10, "step_seconds", 0.1)]
    timed += [(20, "evaluation_seconds", 3.0), (29, "step_seconds", 0.2), (29, "tokens_per_second", 9e9)]
    results.append(one.id, [Timing(*row) for row in timed])
    found = results.course(one.id)
    assert found.seconds() == pytest.approx(3 + 0.5 + 10 * 0.1 + 3 + 19 * 0.2)
    assert found.seconds(until=10) == pytest.approx(3 + 0.5 + 1)
    assert found.seconds(after=10) == pytest.approx(3 + 3.8)
    assert found.seconds(until=10) + found.seconds(after=10) == pytest.approx(found.seconds())


def test_a_paused_trial_is_pruned_and_known(results):
    one = trial()
    results.begin(one)
    state = state_of(one.id)
    hear(results, one.id, [*rows_at(one.id, 0), *rows_at(one.id, 10), saved(11, state), Outcome("paused", 11)])
    assert results.saved(one.id) == 11
    assert results.outcomes() == {}
    before = results.course(one.id).numbers(10)
    results.prune(one, 11, {"rung": 10})
    assert results.outcomes() == {one.id: Outcome("pruned", 11, {"rung": 10})}
    assert results.course(one.id).numbers(10) == before
    assert open_trials(results.folder) == set()
    assert not any((results.folder / "checkpoints").iterdir())
    results.refresh()
    ((status, step),) = query(results.folder, "SELECT status, ended_step FROM trials").rows
    assert (status, step) == ("pruned", 11)
    assert "train_loss" not in numbers_of(results.folder, one.id)  # it has not finished
    assert RECIPE.steps > step


def test_a_diverged_trial_has_numbers_from_before(results):
    one = trial()
    results.begin(one)
    hear(results, one.id, diverged(one.id))
    found = results.course(one.id).numbers(10)
    assert found["train_loss"] == number(one.id, 10, "train_loss")
    assert "train_loss" not in results.course(one.id).numbers()  # NaN is no number


def test_a_damaged_journal_is_not_believed(results):
    one = trial()
    results.begin(one)
    results.append(one.id, [Row(0, "train_loss", "", 1.0), Row(10, "train_loss", "", 2.0)])
    path = journal.path_of(results.folder, one.id)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1].replace(b"1.0", b"9.0") + lines[2])
    with pytest.raises(RefusedError, match="damaged in line 2"):
        results.course(one.id)
