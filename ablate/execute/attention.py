"""The attention backends of a trial, chosen on the device that trains it, before its first step.

The attentions are collected from the model itself, by one pass over two sequences of its first batch in which no
attention is computed; each candidate backend is then tested by the gate (`kernels.gate`) and used, or rejected with a
reason. A worker does this once per shape, so a second trial of the same shape costs only that pass. The ranks of one
trial agree on a backend that works on all of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from torch import nn

from ablate.compiler.ahead import running_ahead
from ablate.data.batch import Tensors, changed
from ablate.kernels import BackendChoice, choose, order
from ablate.kernels.gate import THIS_PROCESS, AttentionSite, sites
from ablate.plan.trial import Trial
from ablate.train.data_parallel import Ranks
from ablate.train.events import Attending, KernelUse
from ablate.train.loss import device_of, forward
from ablate.train.microbatches import BatchShares

SEQUENCES = 2
"""Sequences of the first batch: two, to tell a bias that varies along the batch from one that does not."""

HELD = 3
"""Copies of the scores in a backend that keeps them: the scores, what is computed from them, and its gradient."""


def choose_kernels(model: nn.Module, trial: Trial, inputs: Tensors, cut: BatchShares) -> Attending:
    """Set the backend of each attention of `model`; return which, and why. RefusedError if that crashes the device.

    `inputs` are those of the first batch, the same on all ranks.
    """
    device = device_of(model)
    few = changed(inputs, lambda tensor: tensor[:SEQUENCES].to(device))
    with running_ahead(model):
        by_address = sites(model, lambda: forward(model, few, trial.recipe.dtype))
    mine = {address: THIS_PROCESS.choose(site) for address, site in by_address.items()}
    chosen = agreed(mine, by_address, cut.ranks)
    uses: dict[KernelUse, int] = {}
    rows = -(-trial.recipe.batch // cut.ranks.size // cut.parts)
    for address, choice in chosen.items():
        site = by_address[address]
        site.core.kernel = choice.name
        use = KernelUse(
            address=re.sub(r"^(layers|encoder|ahead)\.\d+\.", r"\1.*.", address),
            kernel=choice.name,
            reason=choice.reason,
            operator=choice.operator,
            refused=choice.name != choose(site.needs, device.type).name,
            memory=rows * scores_of(site) if choice.name == "eager" else 0,
        )
        uses[use] = uses.get(use, 0) + 1
    return Attending(tuple(replace(use, memory=count * use.memory) for use, count in uses.items()))


def agreed(
    mine: Mapping[str, BackendChoice], by_address: Mapping[str, AttentionSite], ranks: Ranks
) -> dict[str, BackendChoice]:
    """Return for each address the backend that all ranks can use: of those chosen, the last in order of preference."""
    if ranks.size == 1:
        return dict(mine)
    all_ranks: list[dict[str, BackendChoice]] = ranks.gathered(dict(mine))
    result = {}
    for address, site in by_address.items():
        names = order(site.needs, site.device.type)
        result[address] = max((theirs[address] for theirs in all_ranks), key=lambda choice: names.index(choice.name))
    return result


def scores_of(site: AttentionSite) -> int:
    """Return the bytes of all copies of one sequence's scores held during a step: in float32 at least."""
    return HELD * site.heads * site.queries * site.keys * (8 if site.needs.dtype == "float64" else 4)
