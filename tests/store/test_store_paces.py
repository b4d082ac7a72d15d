"""Paces that are kept: which measurement holds for which plan."""

from dataclasses import asdict, replace

import pytest

from ablate.store import files
from ablate.store.machines import Conditions, Paces, paces_in, paces_of, record_paces

pytestmark = pytest.mark.fast

HERE = Conditions(batch=8, dtype="float32", threads=1)


def paces(at=0.0, *, conditions=HERE, anew=False, **seconds):
    return Paces(reference="base", seconds=seconds, conditions=conditions, machine={"device": "cpu"}, anew=anew, at=at)


def test_what_was_recorded_is_read_back_in_order(tmp_path):
    assert paces_in(tmp_path) == ()
    told = [paces(1.0, base=0.25, a=0.1), paces(2.0, base=0.25, anew=True)]
    for one in told:
        record_paces(tmp_path, one)
    assert paces_in(tmp_path) == tuple(told)


def test_each_is_a_file_and_what_a_newer_version_says_besides_is_left(tmp_path):
    record_paces(tmp_path, paces(1.0, base=0.25))
    files.keep(tmp_path, "paces", {**asdict(paces(2.0, base=0.5)), "colour": "red"}, 2)
    assert len(files.names(tmp_path, "paces")) == 2
    assert [one.seconds for one in paces_in(tmp_path)] == [{"base": 0.25}, {"base": 0.5}]


def test_the_first_measurement_of_all_models_holds_so_that_plans_stay(tmp_path):
    few, first, later = paces(base=1.0), paces(base=1.0, a=2.0), paces(base=9.0, a=9.0, b=9.0)
    assert paces_of([few, first, later], ["base", "a"], HERE) is first
    assert paces_of([few, first, later], ["base", "b"], HERE) is later
    assert paces_of([few, first, later], ["base", "c"], HERE) is None
    assert paces_of([], ["base"], HERE) is None


def test_what_was_measured_anew_holds_from_then_on():
    first, again, third = paces(base=1.0, a=2.0), paces(base=1.5, a=2.5, anew=True), paces(base=3.0, a=3.0)
    assert paces_of([first, again, third], ["base", "a"], HERE) is again
    last = paces(base=7.0, a=7.0, anew=True)
    assert paces_of([first, again, third, last], ["base", "a"], HERE) is last
    assert paces_of([first, paces(base=1.5, anew=True)], ["base", "a"], HERE) is first


@pytest.mark.parametrize("other", [{"batch": 9}, {"dtype": "bfloat16"}, {"threads": 2}])
def test_what_was_measured_under_other_conditions_does_not_hold(other):
    assert paces_of([paces(conditions=replace(HERE, **other), base=1.0)], ["base"], HERE) is None
