"""The list of seeded faults fits the code: whoever tries it tries sixty bugs, of all rooms."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import seeded_faults

pytestmark = pytest.mark.fast

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "ablate"
FAULTS = seeded_faults.listed()
NUMBERED = [pytest.param(fault, id=f"{n}-{fault['file']}") for n, fault in enumerate(FAULTS, 1)]


def test_there_are_sixty_and_each_says_what_goes_wrong():
    assert len(FAULTS) == 60
    assert all(fault.keys() == {"file", "line", "fault", "what"} for fault in FAULTS)
    assert all(fault["what"].endswith(".") for fault in FAULTS)


def test_every_room_has_two_or_more():
    rooms = [seeded_faults.room_of(fault) for fault in FAULTS]
    there = {path.parent.name for path in PACKAGE.glob("*/__init__.py")} | {"api"}
    assert set(rooms) == there
    assert not [room for room in there if rooms.count(room) < 2]


def test_every_room_has_tests_of_which_those_of_the_faulty_file_come_first():
    tests = [seeded_faults.tests_of(fault, ROOT) for fault in FAULTS]
    assert all(tests)
    schedule = seeded_faults.tests_of({"file": "ablate/space/schedule.py"}, ROOT)
    assert schedule[0].name == "test_space_rate_schedule.py" and len(schedule) > 5


@pytest.mark.parametrize("fault", NUMBERED)
def test_a_fault_changes_one_line_and_still_compiles(fault):
    text = (ROOT / fault["file"]).read_text(encoding="utf-8")
    changed = seeded_faults.faulted(fault, text)
    differing = [pair for pair in zip(text.split("\n"), changed.split("\n"), strict=True) if pair[0] != pair[1]]
    assert len(differing) == 1
    assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(text))


@pytest.mark.parametrize("text", ["x = 1\n", "x = 2\nx = 2\n"], ids=["not there", "there twice"])
def test_a_line_that_does_not_stand_there_once_is_refused(text):
    with pytest.raises(ValueError, match="times"):
        seeded_faults.faulted({"file": "a.py", "line": "x = 2", "fault": "x = 3"}, text)


def test_the_test_that_failed_is_read_off_the_output():
    output = "FAILED tests/a/test_a.py::test_b[x y - z] - AssertionError: 1 - 2\nERROR tests/a/test_c.py - NameError\n"
    assert seeded_faults.FAILED.findall(output) == ["tests/a/test_a.py::test_b[x y - z]", "tests/a/test_c.py"]
