"""Testing: what every component must hold, for those who write their own.

contract.py  ComponentContract, to inherit in a test of one's own; pytest is not needed to import it
checks.py    the checks themselves, each of a block that holds the component
"""

from ablate.testing.contract import ComponentContract

__all__ = ["ComponentContract"]
