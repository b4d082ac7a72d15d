"""Every schedule that ships holds the contract; each part of it can fail."""

import pytest

from ablate.extension.declaration import SCHEDULE
from ablate.extension.loader import shipped
from ablate.testing import ScheduleContract

pytestmark = pytest.mark.fast

WITH = {"polynomial": "polynomial: {power: 2}", "wsd": "wsd: {over: 20%, shape: sqrt}"}


@pytest.fixture(params=[WITH.get(spec.name, spec.name) for spec in shipped(SCHEDULE)])
def schedule(request):
    return request.param


class TestShipped(ScheduleContract):
    @pytest.fixture(autouse=True)
    def named(self, schedule):
        self.schedule = schedule


PLUGIN = '''
"""Half: half the peak once the hold is over."""
from ablate.train.schedules.declare import Behind, Document, schedule

CALLS = []

@schedule("half", source="this test")
class Half(Document):
    """No settings."""

    def share(self, at: Behind) -> float:
        return 1.0 if at.done == 0 else 0.5
'''
BROKEN = {
    "rates_are_shares_of_the_peak": ("0.5", "1.5"),
    "never_below_the_floor": ("0.5", "0.2"),
    "begins_at_the_peak": ("1.0", "0.9"),
    "a_function_of_the_step_alone": ("0.5", "CALLS.append(0) or 1 / (1 + len(CALLS))"),
    "free_of_torch": ("CALLS = []", "import math\nTORCH = __import__('torch'); torch = TORCH"),
}


def of_plugin(folder, text):
    path = folder / "half.py"
    path.write_text(text, encoding="utf-8")
    of = ScheduleContract()
    of.plugins, of.schedule = (path,), "half"
    return of


def test_one_of_a_plugin_holds_it(tmp_path):
    of_plugin(tmp_path, PLUGIN).check_all()


@pytest.mark.parametrize("broken", BROKEN)
def test_each_part_of_it_can_fail(tmp_path, broken):
    before, after = BROKEN[broken]
    assert before in PLUGIN
    with pytest.raises(AssertionError):
        getattr(of_plugin(tmp_path, PLUGIN.replace(before, after)), f"test_{broken}")()


def test_there_is_a_twin_for_each_part():
    assert {f"test_{name}" for name in BROKEN} == {name for name in dir(ScheduleContract) if name.startswith("test_")}
