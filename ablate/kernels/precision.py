"""The type that attention is computed in: what autocast would choose, chosen once and in the open.

Within a backend autocast is off: it would take products of float32 scores, and a bias of hundreds, down to bfloat16.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

AUTOCAST = frozenset({"cpu", "cuda"})
"""Types of devices that autocast knows."""


def working_dtype(v: Tensor) -> torch.dtype:
    """The type of `v`, or autocast's own where that would take `v` down."""
    device = v.device.type
    if device in AUTOCAST and torch.is_autocast_enabled(device) and v.dtype == torch.float32:
        return torch.get_autocast_dtype(device)
    return v.dtype


def as_given(device_type: str) -> AbstractContextManager[object]:
    """Within, tensors keep the types that they have."""
    off = device_type in AUTOCAST and torch.is_autocast_enabled(device_type)
    return torch.autocast(device_type, enabled=False) if off else nullcontext()
