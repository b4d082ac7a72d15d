"""Kernels: attention backends behind one function, and what several components compute alike.

    attend.py             `attend`, and the module that stands for it at an address
    choose.py             which backend computes an attention, and why
    explain.py            the same for every attention of a model, without computing anything
    gate.py               the check of a backend against float64 that it passes before training
    eager.py              attention as its equation reads: the reference for all others
    sdpa.py               PyTorch's fused attention
    flex.py               FlexAttention, on CUDA
    xformers.py           xformers' memory-efficient attention, on CUDA
    bias.py               what is added to the scores: biases and the causal mask
    scale.py              the scale of the scores as fused backends want it
    precision.py          the type that attention is computed in
    entropy.py            the entropy of attention, without the whole matrix
    kept.py               constants that layers and models share
    prescribed.py         attention that is a given matrix while queries and keys are orthogonal
    uniform.py            attention at a query-key product of zero
    shaped_activation.py  activations between affine maps
    spectral.py           the largest singular value of a matrix, by power iteration

Never here: knowledge of blocks, parameters, or a whole [B, H, T, T] where a backend does not need it.
"""

from ablate.kernels.attend import Attend, attend
from ablate.kernels.choose import BackendChoice, Needs, choose, order
from ablate.kernels.entropy import attention_entropy
from ablate.kernels.explain import asked_of, explain

__all__ = ["Attend", "BackendChoice", "Needs", "asked_of", "attend", "attention_entropy", "choose", "explain", "order"]
