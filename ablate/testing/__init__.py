"""Testing: contracts that components and what else one file adds must meet, to test your own.

components.py  ComponentContract and ProbeContract, to inherit in a test of your own; importing them needs no pytest
recipes.py     OptimizerContract, ScheduleContract and ObjectiveContract, likewise
samplers.py    SamplerContract, likewise
corpora.py     CorpusContract, likewise
contract.py    how a contract runs all of its tests, without pytest too, and reads the YAML that it is given
"""

from ablate.testing.components import ComponentContract, ProbeContract
from ablate.testing.corpora import CorpusContract
from ablate.testing.recipes import ObjectiveContract, OptimizerContract, ScheduleContract
from ablate.testing.samplers import SamplerContract

__all__ = [
    "ComponentContract",
    "CorpusContract",
    "ObjectiveContract",
    "OptimizerContract",
    "ProbeContract",
    "SamplerContract",
    "ScheduleContract",
]
