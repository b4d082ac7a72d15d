"""What a part costs, in parameters and FLOPs, independently of any machine."""

from __future__ import annotations

from dataclasses import dataclass

PASSES = 3
"""Training multiplies the FLOPs of a product by this: itself, and one more product for the gradient of each factor."""


@dataclass(frozen=True, slots=True)
class Cost:
    """`parameters` trained, and `flops` of matrix products in one forward pass over one sequence of seq_len tokens.

    A product of [m, k] and [k, n] counts 2·m·k·n; norms, activations and softmax count nothing; causal attention is
    counted in full. This is the convention of `torch.utils.flop_counter`, against which it is tested.

    The backward pass takes twice the FLOPs of the forward pass, less those `spared`: of gradients that are not needed,
    such as that of a frozen matrix, and of products that no loss depends on. What a kernel recomputes in its backward
    pass to save memory is not counted.

    >>> Cost(parameters=3) + Cost(parameters=4, flops=10, spared=5)
    Cost(parameters=7, flops=10, spared=5)
    >>> Cost(flops=10, spared=5).training_flops
    25
    """

    parameters: int = 0
    flops: int = 0
    spared: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.parameters + other.parameters, self.flops + other.flops, self.spared + other.spared)

    @property
    def training_flops(self) -> int:
        """FLOPs of training on one sequence: forward and backward pass, 3 · flops - spared."""
        return PASSES * self.flops - self.spared

    def forward_only(self) -> Cost:
        """Return the cost without gradients: the whole backward pass is spared."""
        return Cost(self.parameters, self.flops, (PASSES - 1) * self.flops)
