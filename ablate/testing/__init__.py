"""Testing: what every component, probe, optimiser and schedule must hold, for those who write their own.

contract.py    ComponentContract, to inherit in a test of one's own; pytest is not needed to import it
probes.py      ProbeContract, likewise
optimizers.py  OptimizerContract, likewise
schedules.py   ScheduleContract, likewise
checks.py      the checks of a component, each of a block that holds it
"""

from ablate.testing.contract import ComponentContract
from ablate.testing.optimizers import OptimizerContract
from ablate.testing.probes import ProbeContract
from ablate.testing.schedules import ScheduleContract

__all__ = ["ComponentContract", "OptimizerContract", "ProbeContract", "ScheduleContract"]
