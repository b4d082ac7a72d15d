"""Kernels: attention backends behind one function, and what several components compute in the same way.

    attend.py             `attend`, the module that wraps it at an address, and FlexAttention under a mask
    choose.py             which backend computes an attention, and why; whether xformers can be used here
    gate.py               the backend of every attention of a model, and the check against float64 that it must pass
                          before training
    eager.py              attention exactly as in its equation: the reference for all others
    sdpa.py               PyTorch's fused attention, also with a sink as one more key
    flex.py               FlexAttention, on CUDA
    xformers.py           xformers' memory-efficient attention, on CUDA
    bias.py               what is added to the scores: biases, and the mask; attention by these alone
    mask.py               which keys a query sees: a rule on places, and padding; constants that layers and models
                          share
    scale.py              the scale of the scores and the dtype of attention, the largest logit, the entropy
    prescribed.py         attention that equals a given matrix while queries and keys are orthogonal; activations
                          between affine maps
    spectral.py           the largest singular value of a matrix, by power iteration

Dimension key, where a file has no other: B batch, H heads, T queries, S keys, K width of a head.

Never here: knowledge of blocks, parameters, or a whole [B, H, T, T] where a backend does not need it.
"""

from ablate.kernels.attend import Attend, attend, attend_lse
from ablate.kernels.choose import BackendChoice, Needs, choose, order
from ablate.kernels.gate import asked_of, explain
from ablate.kernels.mask import Mask
from ablate.kernels.scale import attention_entropy

__all__ = [
    "Attend",
    "BackendChoice",
    "Mask",
    "Needs",
    "asked_of",
    "attend",
    "attend_lse",
    "attention_entropy",
    "choose",
    "explain",
    "order",
]
