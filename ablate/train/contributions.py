"""What parts of a model contribute to its training: losses beside the cross-entropy, and what they do after an update.

    L = cross-entropy + Σ added        the sum is what is minimised; `train_loss` and `eval_loss` are the cross-entropy

Each added loss has rows of its own, and so has each number that a part gives after a step, at the address of the part
and the name: `layers.3.mlp.balance`. Which parts there are is found once, before the first step; a model without any
trains as if this file did not exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ablate.components.declare import ActsAfterStep, OffersLosses
from ablate.probes.reading import Reading
from ablate.train.data_parallel import Ranks
from ablate.train.definitions import ADDED_LOSS, AFTER_STEP


def offering(model: nn.Module) -> tuple[tuple[str, OffersLosses], ...]:
    """Return the parts that offer losses, with their addresses."""
    return tuple((address, part) for address, part in model.named_modules() if isinstance(part, OffersLosses))


def acting(model: nn.Module) -> tuple[tuple[str, ActsAfterStep], ...]:
    """Return the parts that act after a step, with their addresses."""
    return tuple((address, part) for address, part in model.named_modules() if isinstance(part, ActsAfterStep))


def collected(parts: Sequence[tuple[str, OffersLosses]]) -> Iterator[tuple[str, Tensor]]:
    """Yield the losses of the forward pass that just ran, by place; ValueError for one that is not a single number."""
    for address, part in parts:
        for name, loss in part.losses().items():
            if not isinstance(loss, Tensor) or loss.ndim:
                given = f"a tensor of shape {list(loss.shape)}" if isinstance(loss, Tensor) else repr(loss)
                raise ValueError(f"the loss {name!r} of {address or 'the model'} is {given}: give a tensor, one number")
            yield placed(address, name), loss


def recorded(added: Mapping[str, float]) -> Iterator[Reading]:
    """Yield the losses of a step, by place, as they are recorded."""
    for place, value in added.items():
        yield Reading(ADDED_LOSS, place, torch.tensor(value, dtype=torch.float64))


@torch.no_grad()
def after_step(parts: Sequence[tuple[str, ActsAfterStep]], ranks: Ranks) -> list[Reading]:
    """Let every part act, and return what they give to be recorded."""
    return [
        Reading(AFTER_STEP, placed(address, name), torch.as_tensor(number))
        for address, part in parts
        for name, number in part.after_step(_Across(ranks)).items()
    ]


@dataclass(frozen=True, slots=True)
class _Across:
    ranks: Ranks

    def __call__(self, value: Tensor) -> Tensor:
        return self.ranks.total(value)

    def largest(self, value: Tensor) -> Tensor:
        return self.ranks.largest(value)


def placed(address: str, name: str) -> str:
    """Return where the rows of a number of a part are."""
    return f"{address}.{name}".lstrip(".")
