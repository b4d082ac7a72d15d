"""Searches carried out: the same proposals, trials and rows whoever carries them out, and however often stopped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from search_runs import carry_out, design, searched, tables_of
from tiny_spaces import write_world

import ablate
from ablate.execute import controller, worker
from ablate.space.space import Space
from ablate.store.query import query

CONFIRMED = ", confirm: {blocks: 2, seeds: 2}"
RUNGS = ", pruner: {asha: {first: 34%, factor: 2}}, confirm: {blocks: 1, seeds: 2}"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_world(tmp_path_factory.mktemp("world"), steps=12, seeds=1)


def space_of(world: Path, more: str, **options: object) -> Space:
    return searched(world, design(more=more, **options), "measure.evaluation.every=4")  # type: ignore[arg-type]


@pytest.fixture(
    scope="module", params=[pytest.param(CONFIRMED, marks=pytest.mark.full), RUNGS], ids=["confirmed", "rungs"]
)
def calm(request: pytest.FixtureRequest, world: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple]:
    """A search that nobody disturbed: its space and its tables."""
    space, results = space_of(world, request.param), tmp_path_factory.mktemp("calm")
    done = carry_out(space, results)
    assert done.searched is not None and not done.searched.partial
    yield space, tables_of(results), done


def test_a_search_spends_its_budget_and_confirms(calm) -> None:
    space, tables, done = calm
    searched = done.searched
    assert searched.spent == "8 trials" and searched.why_over == "budget"
    seeds = {seed for _, _, seed in tables["memberships"]}
    assert seeds == {0, 1, 2}
    begun = [row for row in tables["memberships"] if row[2] == 0]
    assert len(begun) == 8
    assert searched.confirmed is not None and len(searched.chosen) >= 1
    assert {arm.name for arm in searched.confirmed.arms} == {"pre_ln", *searched.chosen}
    assert {one.number for one in searched.confirmed.judgements} == {1}
    if space.design.search.pruner != "none":
        kinds = {status for _, status, _ in tables["outcomes"]}
        assert kinds == {"finished", "pruned"}
        assert {step for _, status, step in tables["outcomes"] if status == "pruned"} <= {5, 9}


@pytest.mark.full
def test_confirming_at_more_seeds_judges_the_same_question_again(world: Path, tmp_path: Path) -> None:
    """The seeds advised after a confirmation: held at what the first left, and so said."""
    carry_out(space_of(world, CONFIRMED), tmp_path)
    more = carry_out(space_of(world, CONFIRMED.replace("seeds: 2", "seeds: 3")), tmp_path)
    judged = more.searched.confirmed.judgements
    assert {(one.number, round(one.level, 6)) for one in judged} == {(2, 0.008)}
    assert any("judged a second time, at 0.8 %" in note for note in more.searched.confirmed.notes)
    rows = ablate.query("SELECT DISTINCT number, len(seeds) FROM questions ORDER BY number", results=tmp_path)
    assert rows.values.tolist() == [[1, 2], [2, 3]]


@pytest.mark.full
def test_workers_give_the_same_tables(calm, tmp_path: Path) -> None:
    space, tables, _ = calm
    carry_out(space, tmp_path, executor="local", workers=2)
    assert tables_of(tmp_path) == tables


@pytest.mark.full
def test_stopped_and_gone_on_gives_the_same_tables(calm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space, tables, _ = calm
    monkeypatch.setattr(worker, "SPEAK_EVERY", 0.0)

    def stop_soon(self: controller.Interrupt) -> bool:
        self.calls = getattr(self, "calls", 0) + 1  # type: ignore[attr-defined]
        self.requested = self.calls > 25  # type: ignore[attr-defined]
        return bool(self.requested)

    monkeypatch.setattr(controller.Interrupt, "__call__", stop_soon)
    stopped = 0
    for _ in range(60):
        done = carry_out(space, tmp_path)
        if not done.ended.interrupted:
            break
        assert done.searched is not None
        stopped += 1
    assert stopped >= 5
    assert tables_of(tmp_path) == tables


@pytest.mark.full
def test_again_trains_nothing(calm, tmp_path: Path) -> None:
    space, _, _ = calm
    first = carry_out(space, tmp_path)
    again = carry_out(space, tmp_path)
    assert not again.ended.kinds
    assert again.searched == first.searched


@pytest.mark.full
def test_another_seed_is_another_search(calm, world: Path, tmp_path: Path) -> None:
    """The twin: the comparisons above can fail."""
    space, tables, _ = calm
    other = ablate.load_space(space.path, settings=[*space.settings, "design.search.seed=1"])
    carry_out(other, tmp_path)
    assert tables_of(tmp_path)["proposals"] != tables["proposals"]


@pytest.mark.full
@pytest.mark.parametrize("executor", ["local", pytest.param("ray", marks=pytest.mark.slow)])
def test_the_budget_is_of_all_workers_together(world: Path, tmp_path: Path, executor: str) -> None:
    space = searched(world, design("random", trials=20, parallel=4), "recipe.steps=2", "measure.evaluation.every=2")
    cpus = {"cpus": 0.25} if executor == "ray" else {}
    done = carry_out(space, tmp_path, executor=executor, workers=4, **cpus)
    assert sum(done.ended.kinds.values()) == 20
    assert len(tables_of(tmp_path)["memberships"]) == 20


@pytest.mark.full
def test_what_another_space_has_trained_is_not_trained_again(world: Path, tmp_path: Path) -> None:
    plain = ablate.load_space(world, settings=["design={compare: [pre_ln, op]}", "measure.evaluation.every=4"])
    carry_out(plain, tmp_path)
    done = carry_out(space_of(world, ""), tmp_path)
    # What a compare has trained is of the verdict split; what a search chooses by is not.
    assert sum(done.ended.kinds.values()) == 8
    again = searched(world, design(trials=8, more=", seed: 0").replace("parallel: 2", "parallel: 3"), "space=other")
    again = ablate.load_space(world, settings=[*again.settings, "measure.evaluation.every=4"])
    also = carry_out(again, tmp_path)
    assert also.searched.known >= 1  # proposal 0 is the same whatever runs beside it
    assert sum(also.ended.kinds.values()) == 8 - 1 - also.searched.known


@pytest.mark.full
def test_a_search_that_was_stopped_can_be_resumed(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space = space_of(world, CONFIRMED)
    monkeypatch.setattr(controller.Interrupt, "__call__", _after(40))
    assert carry_out(space, tmp_path).ended.interrupted
    monkeypatch.undo()
    ((found,), refused) = ablate.resumable(tmp_path)
    assert not refused and found.left >= 1
    assert not carry_out(found.space, tmp_path).ended.interrupted
    assert ablate.resumable(tmp_path) == ((), ())


def test_a_search_over_another_start_trains_the_newer_parts_and_can_be_resumed(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = space_of(world, ", start: opened", trials=6)
    whole = carry_out(space, tmp_path / "whole")
    assert whole.searched.grammar == "transformer from opened"
    assert whole.searched.derivations == space.grammar.count > space.grammar.starting("block").count
    (blocks,) = zip(*query(tmp_path / "whole", "SELECT block FROM variants").rows, strict=True)
    assert any(word in " ".join(blocks) for word in ("mask", "kv_heads", "sink", "moe", "lookup", "recall", "gate"))
    monkeypatch.setattr(controller.Interrupt, "__call__", _after(30))
    assert carry_out(space, tmp_path / "stopped").ended.interrupted
    monkeypatch.undo()
    ((found,), refused) = ablate.resumable(tmp_path / "stopped")
    assert not refused and found.space.design.search.start == "opened"
    carry_out(found.space, tmp_path / "stopped")
    assert tables_of(tmp_path / "stopped") == tables_of(tmp_path / "whole")


def _after(calls: int):  # type: ignore[no-untyped-def]
    """Ctrl-C after so many looks at it."""
    left = iter(range(calls))
    return lambda self: next(left, None) is None
