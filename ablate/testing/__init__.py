"""Testing: what components, probes, optimisers, schedules, samplers and corpora hold, for those who write their own.

contract.py    ComponentContract, to inherit in a test of one's own; pytest is not needed to import it
probes.py      ProbeContract, likewise
optimizers.py  OptimizerContract, likewise
schedules.py   ScheduleContract, likewise
samplers.py    SamplerContract, likewise
corpora.py     CorpusContract, likewise
checks.py      the checks of a component, each of a block that holds it
"""

from ablate.testing.contract import ComponentContract
from ablate.testing.corpora import CorpusContract
from ablate.testing.optimizers import OptimizerContract
from ablate.testing.probes import ProbeContract
from ablate.testing.samplers import SamplerContract
from ablate.testing.schedules import ScheduleContract

__all__ = [
    "ComponentContract",
    "CorpusContract",
    "OptimizerContract",
    "ProbeContract",
    "SamplerContract",
    "ScheduleContract",
]
