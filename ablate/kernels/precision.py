"""The dtype in which attention is computed: the one autocast would choose, chosen once and explicitly.

Autocast is off within a backend: it would lower products of float32 scores, and a bias of hundreds, to bfloat16.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

AUTOCAST = frozenset({"cpu", "cuda"})
"""Device types that autocast supports."""


def working_dtype(v: Tensor) -> torch.dtype:
    """Return the dtype of `v`, or autocast's own where that would lower `v`."""
    device = v.device.type
    if device in AUTOCAST and torch.is_autocast_enabled(device) and v.dtype == torch.float32:
        return torch.get_autocast_dtype(device)
    return v.dtype


def as_given(device_type: str) -> AbstractContextManager[object]:
    """Return a context in which tensors keep their dtypes."""
    off = device_type in AUTOCAST and torch.is_autocast_enabled(device_type)
    return torch.autocast(device_type, enabled=False) if off else nullcontext()
