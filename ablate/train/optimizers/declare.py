"""How an optimiser declares itself: the names that every file of an optimiser starts from.

Such a file declares a class of settings, without torch, and below it a function that builds a `torch.optim.Optimizer`:
`ablate docs optimizer`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from ablate.extension.declaration import declare_settings, implements
from ablate.space.documents import Count, Decay, Document, NotNegative, Positive, Share
from ablate.space.recipe import OTHERS, Betas, OptimizerSpec, ParameterKind, Rate, Settings

if TYPE_CHECKING:
    from torch import nn

__all__ = [
    "OTHERS",
    "Betas",
    "Count",
    "Decay",
    "Document",
    "NotNegative",
    "ParameterKind",
    "Positive",
    "Rate",
    "Settings",
    "Share",
    "Trained",
    "groups",
    "implements",
    "optimizer",
]

S = TypeVar("S", bound=Document)


def optimizer(name: str, *, source: str = "", version: int = 1) -> Callable[[type[S]], type[S]]:
    """Declare an optimiser by its settings; the first line of its file is what `ablate list optimizers` shows.

    `version` is that of its numbers: raise it when a change of the code changes them.

    Raises DeclarationError for a class that cannot be its settings, with everything that is wrong with it.
    """
    return declare_settings(OptimizerSpec, name, source=source, version=version, needs=("lr",))


@dataclass(frozen=True, slots=True)
class Trained:
    """A trained parameter: its `tensor`, `address` and `kind`, its rate and its decay.

    `matrix`: it has two dimensions and maps vectors to vectors, or is an embedding; a table of biases is not one.
    Its rate in a step is the schedule's share of `peak`, times the `multiple` that its part sets. `name` is the name of
    `peak` where rates are reported: `weights` for the recipe's rate; `embedding`, `head` and `norms` for their own.
    """

    tensor: nn.Parameter
    address: str
    kind: ParameterKind
    name: str
    peak: float
    multiple: float
    weight_decay: float
    matrix: bool


def groups(parameters: Iterable[Trained], **settings: Any) -> list[dict[str, Any]]:
    """Group parameters as torch.optim takes them: one group per name, peak, multiple and decay, with `settings`."""
    by_rule: dict[tuple[str, float, float, float], dict[str, Any]] = {}
    for each in parameters:
        rule = {"name": each.name, "peak": each.peak, "multiple": each.multiple, "weight_decay": each.weight_decay}
        key = (each.name, each.peak, each.multiple, each.weight_decay)
        by_rule.setdefault(key, {"params": [], **rule, **settings})["params"].append(each.tensor)
    return list(by_rule.values())
