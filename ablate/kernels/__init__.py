"""Kernels: attention backends behind one function, and what several components compute in the same way.

    attend.py             `attend`, and the module that wraps it at an address
    choose.py             which backend computes an attention, and why
    explain.py            the same for every attention of a model, without computing anything
    gate.py               the check against float64 that a backend must pass before training
    eager.py              attention exactly as in its equation: the reference for all others
    sdpa.py               PyTorch's fused attention
    flex.py               FlexAttention, on CUDA
    flex_masked.py        and under a mask, with padding, or with its log-sum-exp
    xformers.py           xformers' memory-efficient attention, on CUDA
    xformers_library.py   whether xformers can be used here, and why not
    bias.py               what is added to the scores: biases, and the mask
    mask.py               which keys a query sees: a rule on places, and padding
    sink.py               one more logit of each query's softmax, of a key without a value
    scale.py              the scale of the scores in the form that fused backends need
    precision.py          the dtype in which attention is computed
    entropy.py            the entropy of attention, without the whole matrix
    largest.py            the largest logit of each head, without all of them
    kept.py               cached constants that layers and models share
    prescribed.py         attention that equals a given matrix while queries and keys are orthogonal
    uniform.py            attention at a query-key product of zero
    shaped_activation.py  activations between affine maps
    spectral.py           the largest singular value of a matrix, by power iteration

Never here: knowledge of blocks, parameters, or a whole [B, H, T, T] where a backend does not need it.
"""

from ablate.kernels.attend import Attend, attend, attend_lse
from ablate.kernels.choose import BackendChoice, Needs, choose, order
from ablate.kernels.entropy import attention_entropy
from ablate.kernels.explain import asked_of, explain
from ablate.kernels.mask import Mask

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
