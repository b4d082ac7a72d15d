"""What follows from a search's values, against independent computations."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from example_counts import examples_of
from hypothesis import given, settings
from hypothesis import strategies as st
from searched_fixtures import ELOSS, KURTOSIS, TOKEN, WORLDS, entry, record, ties

from ablate.report.searched.analysis import BEYOND, analyse, difference, losses_of
from ablate.report.searched.record import SearchObjective, SearchRecord

quick = settings(deadline=None, max_examples=examples_of(60))
numbers = st.integers(1, 6).map(float)


def searches(objectives: tuple[SearchObjective, ...], most: int = 9) -> st.SearchStrategy[SearchRecord]:
    """Small searches with many ties; None stands for a block that diverged."""
    values = st.one_of(st.none(), st.tuples(*(numbers for _ in objectives)))

    def build(rows: list[tuple[float, ...] | None]) -> SearchRecord:
        made = tuple(
            entry(k, values=row or (), outcome="diverged" if row is None else "finished") for k, row in enumerate(rows)
        )
        return record(entries=made, objectives=objectives)

    return st.lists(values, min_size=1, max_size=most).map(build)


def better(a: float, b: float, objective: SearchObjective) -> bool:
    return a < b if objective.goal == "min" else a > b


def finished(found: SearchRecord) -> list[int]:
    return [one.number for one in found.entries if one.outcome == "finished"]


UP = replace(TOKEN, goal="max")
GOALS = [(ELOSS, KURTOSIS), (ELOSS, UP), (ELOSS, KURTOSIS, UP)]


@quick
@given(st.sampled_from(GOALS).flatmap(searches))
def test_front_and_beating_against_brute_force(found: SearchRecord) -> None:
    reckoned, goals = analyse(found), found.objectives
    of = {place: found.entries[place].values for place in finished(found)}

    def dominated(place: int) -> bool:
        return any(
            all(not better(of[place][i], one[i], goal) for i, goal in enumerate(goals))
            and any(better(one[i], of[place][i], goal) for i, goal in enumerate(goals))
            for one in of.values()
        )

    assert set(reckoned.front) == {place for place in of if not dominated(place)}
    firsts = [of[place][0] for place in reckoned.front]
    assert firsts == sorted(firsts)
    beating = {
        place
        for place in of
        if place and 0 in of and all(better(of[place][i], of[0][i], g) for i, g in enumerate(goals))
    }
    assert set(reckoned.beating) == beating


def volume_by_cells(points: list[tuple[float, ...]], side: int) -> float:
    """The dominated share of the unit box, counted cell by cell: exact for points on multiples of 1/side."""
    from itertools import product

    corners = product(range(side), repeat=len(points[0]) if points else 1)
    hit = sum(any(all(p * side <= c + 1e-9 for p, c in zip(point, corner)) for point in points) for corner in corners)
    return hit / side ** len(points[0]) if points else 0.0


@quick
@given(st.sampled_from([(ELOSS, UP), (ELOSS, TOKEN, UP)]).flatmap(searches))
def test_hypervolume_against_counted_cells(found: SearchRecord) -> None:
    """Values are whole numbers of at most 5 apart: in shares of 1.1 × the range they lie on a grid of 11 × range."""
    curve = analyse(found).curve
    of = {place: found.entries[place].values for place in finished(found)}
    if not curve:
        assert len(set(of.values())) <= 1
        return
    columns = list(zip(*of.values()))
    ranges = [round(max(column) - min(column)) for column in columns]
    side = 11 * math.lcm(*(r for r in ranges if r))
    if side ** len(columns) > 60_000:
        return
    for stop in {0, len(found.entries) // 2, len(found.entries) - 1}:
        points = []
        for place, values in of.items():
            if place <= stop:
                shares = [
                    0.0 if not r else (v - min(c) if goal.goal == "min" else max(c) - v) / (r * (1 + BEYOND))
                    for v, c, r, goal in zip(values, columns, ranges, found.objectives)
                ]
                points.append(tuple(shares))
        expected = volume_by_cells(points, side)
        assert (curve[stop] or 0.0) == pytest.approx(expected, abs=1e-9)


@quick
@given(st.sampled_from([*GOALS, (ELOSS,), (UP,)]).flatmap(lambda goals: searches(goals, most=20)))
def test_the_curve_never_falls_back(found: SearchRecord) -> None:
    reckoned = analyse(found)
    assert len(reckoned.curve) in (0, len(found.entries))
    sign = -1 if len(found.objectives) == 1 and found.objectives[0].goal == "min" else 1
    known = [sign * value for value in reckoned.curve if value is not None]
    assert known == sorted(known)
    none = [value is None for value in reckoned.curve]
    assert none == sorted(none, reverse=True)
    if len(found.objectives) > 1:
        assert all(0 <= value <= 1 for value in known)
        assert all(a == b for (i, a), (_, b) in pairwise(enumerate(reckoned.curve)) if i + 1 not in reckoned.compared)


@pytest.mark.fast
@quick
@given(searches((ELOSS, TOKEN)), st.floats(0.1, 50), st.floats(-20, 20))
def test_the_share_of_the_box_has_no_unit(found: SearchRecord, scale: float, shift: float) -> None:
    moved = replace(
        found,
        entries=tuple(
            replace(one, values=(one.values[0] * scale + shift, one.values[1])) if one.values else one
            for one in found.entries
        ),
    )
    assert analyse(moved).curve == pytest.approx(analyse(found).curve, nan_ok=True)


@pytest.mark.fast
@quick
@given(searches((ELOSS, KURTOSIS)))
def test_the_log_scale_is_that_of_the_logarithms(found: SearchRecord) -> None:
    logs = replace(
        found,
        objectives=(ELOSS, replace(KURTOSIS, log=False)),
        entries=tuple(
            replace(one, values=(one.values[0], math.log(one.values[1]))) if one.values else one
            for one in found.entries
        ),
    )
    assert analyse(logs).curve == pytest.approx(analyse(found).curve)


@pytest.mark.fast
def test_one_objective_is_its_best_so_far() -> None:
    values: list[float | None] = [None, 3.0, 4.0, None, 2.0]
    made = tuple(
        entry(k, values=() if v is None else (v,), outcome="diverged" if v is None else "finished")
        for k, v in enumerate(values)
    )
    assert analyse(record(entries=made, objectives=(ELOSS,))).curve == (None, 3.0, 3.0, 3.0, 2.0)
    assert analyse(record(entries=made, objectives=(UP,))).curve == (None, 3.0, 4.0, 4.0, 4.0)


@pytest.mark.fast
def test_ties_are_all_on_the_front_and_beat_nothing() -> None:
    found = analyse(ties())
    assert found.front == found.compared == tuple(range(6))
    assert found.beating == () and found.better_in == ((), ())
    assert found.curve == ()


@pytest.mark.fast
def test_values_of_a_rung_are_of_another_time() -> None:
    one = entry(1, values=(1.0, 1.0))
    goals = (ELOSS, KURTOSIS)
    assert losses_of(one, goals) == (1.0, 0.0)
    assert losses_of(replace(one, until=75, outcome="pruned"), goals) is None
    assert losses_of(replace(one, until=75), goals) is None
    assert difference(replace(one, until=75), entry(0), 0, ELOSS) is None
    assert difference(one, entry(0), 1, KURTOSIS) == pytest.approx(math.log(1 / 3))
    assert difference(replace(one, values=(1.0, 0.0)), entry(0), 1, KURTOSIS) is None


@pytest.mark.fast
@pytest.mark.parametrize("name", WORLDS)
def test_the_reference_is_no_winner(name: str) -> None:
    found = analyse(WORLDS[name]())
    assert 0 not in found.beating and all(0 not in column for column in found.better_in)
