"""Testing: contracts that components and what else one file adds must meet, to test your own.

contract.py    ComponentContract, to inherit in a test of your own; importing it does not need pytest
probes.py      ProbeContract, likewise
optimizers.py  OptimizerContract, likewise
schedules.py   ScheduleContract, likewise
objectives.py  ObjectiveContract, likewise
samplers.py    SamplerContract, likewise
corpora.py     CorpusContract, likewise
checks.py      the checks of a component, each on a block that contains it
"""

from ablate.testing.contract import ComponentContract
from ablate.testing.corpora import CorpusContract
from ablate.testing.objectives import ObjectiveContract
from ablate.testing.optimizers import OptimizerContract
from ablate.testing.probes import ProbeContract
from ablate.testing.samplers import SamplerContract
from ablate.testing.schedules import ScheduleContract

__all__ = [
    "ComponentContract",
    "CorpusContract",
    "ObjectiveContract",
    "OptimizerContract",
    "ProbeContract",
    "SamplerContract",
    "ScheduleContract",
]
