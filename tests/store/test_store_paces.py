"""Paces that are kept: which measurement holds for which plan."""

from dataclasses import asdict, replace

import pytest

from ablate.store import files
from ablate.store.step_times import Conditions, Paces, holding, kept, record

pytestmark = pytest.mark.fast

HERE = Conditions(batch=8, dtype="float32", threads=1)


def paces(at=0.0, *, conditions=HERE, anew=False, **seconds):
    return Paces(reference="base", seconds=seconds, conditions=conditions, machine={"device": "cpu"}, anew=anew, at=at)


def test_what_was_recorded_is_read_back_in_order(tmp_path):
    assert kept(tmp_path) == ()
    told = [paces(1.0, base=0.25, a=0.1), paces(2.0, base=0.25, anew=True)]
    for one in told:
        record(tmp_path, one)
    assert kept(tmp_path) == tuple(told)


def test_each_is_a_file_and_what_a_newer_version_says_besides_is_left(tmp_path):
    record(tmp_path, paces(1.0, base=0.25))
    files.keep(tmp_path, "paces", {**asdict(paces(2.0, base=0.5)), "colour": "red"}, 2)
    assert len(files.names(tmp_path, "paces")) == 2
    assert [one.seconds for one in kept(tmp_path)] == [{"base": 0.25}, {"base": 0.5}]


def test_the_first_measurement_of_all_models_holds_so_that_plans_stay(tmp_path):
    few, first, later = paces(base=1.0), paces(base=1.0, a=2.0), paces(base=9.0, a=9.0, b=9.0)
    assert holding([few, first, later], ["base", "a"], HERE) is first
    assert holding([few, first, later], ["base", "b"], HERE) is later
    assert holding([few, first, later], ["base", "c"], HERE) is None
    assert holding([], ["base"], HERE) is None


def test_what_was_measured_anew_holds_from_then_on():
    first, again, third = paces(base=1.0, a=2.0), paces(base=1.5, a=2.5, anew=True), paces(base=3.0, a=3.0)
    assert holding([first, again, third], ["base", "a"], HERE) is again
    last = paces(base=7.0, a=7.0, anew=True)
    assert holding([first, again, third, last], ["base", "a"], HERE) is last
    assert holding([first, paces(base=1.5, anew=True)], ["base", "a"], HERE) is first


@pytest.mark.parametrize("other", [{"batch": 9}, {"dtype": "bfloat16"}, {"threads": 2}])
def test_what_was_measured_under_other_conditions_does_not_hold(other):
    assert holding([paces(conditions=replace(HERE, **other), base=1.0)], ["base"], HERE) is None
