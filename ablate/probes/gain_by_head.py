"""Gains by head: how the trained factors of each head develop.

    gain_of_head = g_h        at the address of the gain and `head_h`, h from 1

It must be requested by name; the mean, root mean square and sd over heads are always read (`gain`).

    He & Hofmann 2024, Eq. 5 and Fig. 17 to 19, arXiv:2311.01906
"""

from __future__ import annotations

from ablate.probes.declare import implements, metric, probe


@probe("gain_by_head", reads="parameters", source="He & Hofmann 2024, Fig. 17 to 19, arXiv:2311.01906", version=1)
class GainByHead:
    gain_of_head = metric(
        "value of a trainable gain of one head, at the gain's address and head_1, head_2, …",
        "He & Hofmann 2024, Fig. 17 to 19, arXiv:2311.01906",
        better="none",
    )


from collections.abc import Iterator

from torch import nn

from ablate.probes.gain import trained
from ablate.probes.reading import Reading


@implements(GainByHead)
def gains_of_heads(model: nn.Module) -> Iterator[Reading]:
    """Read the trainable gains of shape [heads, 1, 1]."""
    for address, module in model.named_modules():
        factor = trained(module)
        if factor is None or factor.ndim != 3:
            continue
        for head, value in enumerate(factor.flatten(), 1):
            yield Reading("gain_of_head", f"{address}.head_{head}", value)
