"""Attention entropy: how many tokens does a token attend to?

    H = mean over batch, heads and queries of  - Σ_m A_m log A_m        in nats, A the softmax weights of one query

0 if every query attends to one token (entropy collapse). Uniform causal attention over T tokens gives mean_i log i and
not log T. The weights are those after regulation and bias; beside a sink those of the tokens among themselves,
A_m / Σ_m A_m. Queries that are padding are left out.

    Zhai et al. 2023, Section 3, arXiv:2303.06296

Dimension key: B batch, H heads, T time, K head size.
"""

from __future__ import annotations

from ablate.probes.declare import implements, metric, probe


@probe("attention_entropy", reads="attention", source="Zhai et al. 2023, Section 3, arXiv:2303.06296", version=1)
class AttentionEntropy:
    attention_entropy = metric(
        "entropy in nats of the softmax weights of one query, over the keys that it sees within its sequence; "
        "mean over batch, heads and queries",
        "Zhai et al. 2023, Section 3, arXiv:2303.06296",
        better="none",
    )


from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from ablate.kernels import Attend, attention_entropy


@implements(AttentionEntropy)
def mean_entropy(
    core: nn.Module, q: Float[Tensor, "B H T K"], k: Float[Tensor, "B H T K"]
) -> dict[str, Float[Tensor, ""]]:
    if not isinstance(core, Attend):
        raise TypeError(f"attention entropy is read from an Attend, not a {type(core).__name__}")
    q, k = q.double(), k.double()
    hiding: dict[str, Any] = {"causal": core.causal, "mask": core.rule, "padding": core.real_keys}
    entropy_BHT = attention_entropy(q, k, scale=core.scale, logits=core.logits, bias=core.bias(q, k), **hiding)
    if (real := core.real_queries) is not None:
        return {"attention_entropy": entropy_BHT.transpose(1, 2)[real].mean()}
    return {"attention_entropy": entropy_BHT.mean()}
