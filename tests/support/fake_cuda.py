"""CUDA tensors without a GPU: shapes, types, strides and devices, and no numbers. Enough for a dispatcher to be asked.

A build of PyTorch without CUDA has no autograd for them: there they are to be made with `gradient=False`.
"""

from contextlib import contextmanager
from unittest import mock

import torch
from torch._subclasses import fake_tensor


@contextmanager
def fake_cuda(capability=(9, 0), *, built=None):
    """Within, tensors are fake ones, `cuda` is a device of that capability, and torch says it is `built` for a CUDA."""
    with (
        mock.patch.object(fake_tensor, "init_gpu_context", lambda device: None),
        mock.patch.object(torch.cuda, "get_device_capability", lambda device=None: capability),
        mock.patch.object(torch.version, "cuda", built or torch.version.cuda),
        fake_tensor.FakeTensorMode(),
    ):
        yield


def inputs(dtype=torch.float32, d_head=32, *, tokens=16, heads=4, batch=2, gradient=True, bias="none", device="cuda"):
    """q, k, v as attention hands them over, and a bias: `none`, `fixed` or `learned`."""
    shape = (batch, tokens, heads, d_head)
    qkv = [torch.empty(shape, device=device, dtype=dtype, requires_grad=gradient).transpose(1, 2) for _ in range(3)]
    if bias == "none":
        return (*qkv, None)
    return (*qkv, torch.empty(1, heads, tokens, tokens, device=device, requires_grad=bias == "learned"))
