"""What computes the attentions of a trial: found on the device that trains it, before its first step.

The model itself is asked, by one pass over two sequences of its first batch in which no attention is computed; each
backend that is about to be used then passes the gate (`kernels.gate`) or is passed over with its reason. A worker has
gone through this once for each shape, so a second trial of one costs that one pass. Ranks of one trial agree on the
backend that does on all of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from jaxtyping import Int
from torch import Tensor, nn

from ablate.kernels import BackendChoice, choose, order
from ablate.kernels.gate import THIS_PROCESS, AttentionSite, sites
from ablate.plan.trial import Trial
from ablate.train.data_parallel import Ranks
from ablate.train.events import Attending, KernelUse
from ablate.train.loss import device_of, forward
from ablate.train.microbatches import BatchShares

SEQUENCES = 2
"""Of the first batch: a bias that varies along the batch is told from one that does not."""

HELD = 3
"""Times that a backend which holds all scores holds them: the scores, what is made of them, and its gradient."""


def choose_kernels(model: nn.Module, trial: Trial, tokens: Int[Tensor, "B T"], cut: BatchShares) -> Attending:
    """Give each attention of `model` its backend, and say which, and why. RefusedError where the device is lost by it.

    `tokens` are those of the first batch, as all ranks have it.
    """
    device = device_of(model)
    few = tokens[:SEQUENCES].to(device)
    found = sites(model, lambda: forward(model, few, trial.recipe.dtype))
    chosen = agreed({address: THIS_PROCESS.choose(site) for address, site in found.items()}, found, cut.ranks)
    uses: dict[KernelUse, int] = {}
    rows = -(-trial.recipe.batch // cut.ranks.size // cut.parts)
    for address, choice in chosen.items():
        site = found[address]
        site.core.kernel = choice.name
        use = KernelUse(
            address=re.sub(r"^layers\.\d+\.", "layers.*.", address),
            kernel=choice.name,
            reason=choice.reason,
            operator=choice.operator,
            refused=choice.name != choose(site.needs, device.type).name,
            memory=rows * scores_of(site) if choice.name == "eager" else 0,
        )
        uses[use] = uses.get(use, 0) + 1
    return Attending(tuple(replace(use, memory=count * use.memory) for use, count in uses.items()))


def agreed(
    mine: Mapping[str, BackendChoice], found: Mapping[str, AttentionSite], ranks: Ranks
) -> dict[str, BackendChoice]:
    """At each address what the ranks can all use: of what they chose, the last in the order."""
    if ranks.size == 1:
        return dict(mine)
    all_ranks: list[dict[str, BackendChoice]] = ranks.gathered(dict(mine))
    result = {}
    for address, site in found.items():
        names = order(site.needs, site.device.type)
        result[address] = max((theirs[address] for theirs in all_ranks), key=lambda choice: names.index(choice.name))
    return result


def scores_of(site: AttentionSite) -> int:
    """Bytes of the scores of one sequence, as often as they are held for a step: in float32 at least."""
    return HELD * site.heads * site.queries * site.keys * (8 if site.needs.dtype == "float64" else 4)
