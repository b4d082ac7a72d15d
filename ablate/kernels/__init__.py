"""Kernels: attention backends behind one function, and what several components compute alike.

Here live: `attend` and its module `Attend`, the backends (`eager` is the reference for all others), the rule that
chooses among them and says why, the gate that they pass before training, the entropy of attention, constants that
layers share, and modules that components have in common. Never: knowledge of blocks, parameters, or a whole
[B, H, T, T] where a backend does not need it.
"""

from ablate.kernels.attend import Attend, attend
from ablate.kernels.choose import Choice, Needs, choose, order
from ablate.kernels.entropy import attention_entropy
from ablate.kernels.explain import asked_of, explain

__all__ = ["Attend", "Choice", "Needs", "asked_of", "attend", "attention_entropy", "choose", "explain", "order"]
