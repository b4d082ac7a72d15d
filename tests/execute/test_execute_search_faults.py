"""Searches in which trials diverge or fail, taken up again: they end as undisturbed ones do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from search_runs import carry_out, design, searched, tables_of
from tiny_spaces import write_world

import ablate
from ablate.errors import RefusedError
from ablate.execute import controller, worker
from ablate.plan.plan import Trial
from ablate.store.snapshot import open_trials
from ablate.train.events import Outcome, Training

RUNGS = ", pruner: {asha: {first: 34%, factor: 2}}"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_world(tmp_path_factory.mktemp("world"), steps=12, seeds=1)


def space_of(world: Path, more: str = "", *settings: str, **options: Any) -> ablate.Space:
    return searched(world, design(more=more, **options), "measure.evaluation.every=4", *settings)


@pytest.fixture
def fault(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Has every third trial, or those chosen, end as `kind` once it has come to `step`: real training until then."""
    real = worker.compute

    def every_third(trial: Trial) -> bool:
        return (int(trial.variant, 16) + trial.seed) % 3 == 0

    def put(kind: str, step: int, chosen: Callable[[Trial], bool] = every_third) -> None:
        def compute(trial: Trial, **options: Any) -> Iterator[Training]:
            for event in real(trial, **options):
                if chosen(trial) and event.step >= step:
                    yield Outcome(kind, step, {"cause": "put there by a test", "error": "put there by a test"})  # type: ignore[arg-type]
                    return
                yield event

        monkeypatch.setattr(worker, "compute", compute)

    return put


def stopping(monkeypatch: pytest.MonkeyPatch, calls: int) -> None:
    """Ctrl-C after so many looks at it, in every run anew."""
    monkeypatch.setattr(worker, "SPEAK_EVERY", 0.0)

    def stop_soon(self: controller.Interrupt) -> bool:
        self.calls = getattr(self, "calls", 0) + 1  # type: ignore[attr-defined]
        self.requested = self.calls > calls  # type: ignore[attr-defined]
        return bool(self.requested)

    monkeypatch.setattr(controller.Interrupt, "__call__", stop_soon)


def until_done(space: ablate.Space, results: Path, **options: Any) -> int:
    """Run it again and again; how often it was stopped."""
    for stopped in range(80):
        if not carry_out(space, results, **options).ended.interrupted:
            return stopped
    raise AssertionError("it never ended")


@pytest.mark.parametrize(
    ("kind", "step"),
    [
        pytest.param("diverged", 7, marks=pytest.mark.full),
        *(pytest.param(kind, step, marks=pytest.mark.slow) for kind in ("diverged", "bug") for step in (3, 11)),
        pytest.param("bug", 7, marks=pytest.mark.slow),
    ],
)
def test_what_goes_wrong_before_or_behind_a_rung_goes_wrong_there_again(
    world: Path, tmp_path: Path, fault: Callable[..., None], monkeypatch: pytest.MonkeyPatch, kind: str, step: int
) -> None:
    """A trial that comes to a rung and fails behind it has come to the rung, also for who finds it failed already."""
    fault(kind, step)
    space = space_of(world, RUNGS, trials=9)
    carry_out(space, tmp_path / "calm")
    calm = tables_of(tmp_path / "calm")
    assert any(status == kind for _, status, _ in calm["outcomes"])
    stopping(monkeypatch, 25)
    assert until_done(space, tmp_path / "stopped") >= 2
    assert tables_of(tmp_path / "stopped") == calm
    assert open_trials(tmp_path / "stopped") == set()


@pytest.mark.full
def test_a_trial_that_failed_is_not_tried_again_within_its_search(
    world: Path, tmp_path: Path, fault: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    space = space_of(world, trials=9)
    fault("out_of_memory", 5)
    carry_out(space, tmp_path)
    before = tables_of(tmp_path)
    failed = [trial for trial, status, _ in before["outcomes"] if status == "out_of_memory"]
    assert failed
    monkeypatch.undo()
    again = carry_out(space, tmp_path)
    assert not again.ended.kinds and tables_of(tmp_path) == before
    assert {trial.id for trial, _ in again.failed} == set(failed)
    fresh = carry_out(space, tmp_path, fresh=True)  # the way out
    assert fresh.ended.kinds == {"finished": 9}


@pytest.mark.full
def test_a_search_is_told_nothing_of_a_trial_that_is_lost_and_waits_for_it(
    world: Path, tmp_path: Path, fault: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its workers died, which says nothing of its block: the next run trains it, and proposes what it would have."""
    space = space_of(world, trials=4)
    victim = carry_out(space, tmp_path / "calm").plan.variants[1].id
    fault("lost", 5, lambda trial: trial.variant == victim)
    rested = carry_out(space, tmp_path / "lost")
    assert rested.ended.kinds["lost"] and rested.ended.interrupted and rested.ended.lost
    ((left,), _) = ablate.resumable(tmp_path / "lost")
    assert left.left >= 1
    monkeypatch.undo()
    assert not carry_out(space, tmp_path / "lost").ended.interrupted
    assert tables_of(tmp_path / "lost") == tables_of(tmp_path / "calm")


@pytest.mark.full
def test_seeds_that_rest_at_a_rung_are_ended_where_another_one_diverged(
    world: Path, tmp_path: Path, fault: Callable[..., None]
) -> None:
    fault("diverged", 3, lambda trial: trial.seed == 1)
    space = space_of(world, RUNGS, "seeds=2", trials=12)
    carry_out(space, tmp_path)
    found = tables_of(tmp_path)
    kinds = {status for _, status, _ in found["outcomes"]}
    assert kinds == {"finished", "diverged", "pruned"}
    assert open_trials(tmp_path) == set()
    assert ablate.resumable(tmp_path) == ((), ())


@pytest.mark.full
def test_so_many_are_confirmed_as_were_asked_for(world: Path, tmp_path: Path) -> None:
    """With one objective the front is a single block, or the reference."""
    asked = design(trials=6, more=", confirm: {blocks: 3, seeds: 2}").replace(", peak_kurtosis: min", "")
    done = carry_out(searched(world, asked, "measure.evaluation.every=4"), tmp_path)
    assert done.searched is not None and len(done.searched.chosen) == 3
    assert done.summary is not None and len(done.summary.arms) == 4
    splits = {(seed, split) for split, seed in _splits(tmp_path)}
    assert splits == {(0, "tuning"), (1, "verdict"), (2, "verdict")}


def _splits(results: Path) -> list[tuple[object, ...]]:
    from ablate.store.query import query

    return list(query(results, "SELECT DISTINCT split, seed FROM trials").rows)


@pytest.mark.full
def test_a_confirmation_that_was_stopped_says_nothing_yet(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = space_of(world, ", confirm: {blocks: 1, seeds: 3}", trials=3)
    stopping(monkeypatch, 25)
    seen = set()
    for _ in range(40):
        done = carry_out(space, tmp_path)
        assert done.searched is not None
        seen.add((bool(done.searched.chosen), done.searched.partial, done.summary is not None))
        if not done.ended.interrupted:
            break
        ((left,), _) = ablate.resumable(tmp_path)
        assert left.left >= 1
    assert (True, True, False) in seen  # chosen, and not confirmed yet
    assert (True, False, True) in seen
    assert not seen & {(True, True, True), (False, True, True)}


@pytest.mark.full
def test_a_search_begun_anew_and_stopped_goes_on_anew(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = space_of(world, trials=5)
    carry_out(space, tmp_path)
    stopping(monkeypatch, 25)
    assert carry_out(space, tmp_path, fresh=True).ended.interrupted
    monkeypatch.undo()
    carry_out(space, tmp_path)
    from ablate.store.query import query

    ((attempts,),) = query(tmp_path, "SELECT list(DISTINCT attempt) FROM trials").rows
    assert attempts == [2]


@pytest.mark.full
def test_a_search_that_would_propose_otherwise_says_so(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ablate.execute.search import proposer
    from ablate.execute.search.samplers import evolution

    space = space_of(world, trials=6)
    stopping(monkeypatch, 60)
    assert carry_out(space, tmp_path).ended.interrupted
    monkeypatch.undo()
    monkeypatch.setattr(evolution, "generator", lambda seed, k: proposer.generator(seed + 1, k))
    with pytest.raises(RefusedError, match="would continue with other blocks than it began with: proposal 0"):
        carry_out(space, tmp_path)
