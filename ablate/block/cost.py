"""What a part costs, in numbers that need no machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cost:
    """`parameters` trained, and `flops` of matrix products in one forward pass over one sequence of seq_len tokens.

    A product of [m, k] and [k, n] counts 2·m·k·n; norms, activations and softmax count nothing; causal attention is
    counted in full. This is the convention of `torch.utils.flop_counter`, against which it is tested.

    >>> Cost(parameters=3) + Cost(parameters=4, flops=10)
    Cost(parameters=7, flops=10)
    """

    parameters: int = 0
    flops: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.parameters + other.parameters, self.flops + other.flops)
