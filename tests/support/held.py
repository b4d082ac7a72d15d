"""A recorder of what is held while something is computed, forward and backward.

Within an operation PyTorch's fused kernels hold blocks alone, which is theirs to prove; what is seen here is all that
passes from one operation to another, and all that is kept for the backward pass.
"""

import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Held(TorchDispatchMode):
    """The bytes of the tensors alive, and how many there are of `large` bytes or more; the most of each."""

    def __init__(self, large=float("inf")):
        super().__init__()
        self.large = large
        self.alive = {}
        self.most_bytes = self.most_large = self.largest = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        before = {x.untyped_storage()._cdata for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)}
        for made in tree_leaves(result):
            if isinstance(made, torch.Tensor) and made.untyped_storage()._cdata not in before:
                self.follow(made.untyped_storage())
        self.most_bytes = max(self.most_bytes, sum(self.alive.values()))
        self.most_large = max(self.most_large, sum(size >= self.large for size in self.alive.values()))
        return result

    def follow(self, storage):
        if storage._cdata not in self.alive:
            self.alive[storage._cdata] = storage.nbytes()
            self.largest = max(self.largest, storage.nbytes())
            weakref.finalize(storage, self.alive.pop, storage._cdata, None)
