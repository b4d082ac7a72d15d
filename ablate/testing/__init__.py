"""Testing: what every thing of a kind must hold, for those who write their own.

contract.py    ComponentContract, to inherit in a test of one's own; pytest is not needed to import it
checks.py      its checks, each of a block that holds the component
optimizers.py  OptimizerContract, likewise
"""

from ablate.testing.contract import ComponentContract
from ablate.testing.optimizers import OptimizerContract

__all__ = ["ComponentContract", "OptimizerContract"]
