"""The optimiser of a model: its parameters with their kinds, rates and decays, and the rate of each step.

A parameter's η in a step is its peak (the recipe's rate, or that of its kind) times the schedule's share at the step,
times the multiple that a part sets for its parameter (`rates`). The updates are defined in the files of `optimizers/`.

A parameter is of one kind, which has the peak that `RATES` says, and decays if the recipe's `decays` names it:

    embedding, head, positions   by its address: the table of tokens (a tied head is the same), the head, the positions
    gains                        the factor of a gain, of any shape
    weights                      others with two dimensions or more
    biases                       others that are called bias
    scales                       everything else: the scales of norms, other single numbers and vectors
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import nn, optim

from ablate.block.catalogue import Catalogue
from ablate.compiler.scale import Scale
from ablate.extension.loader import implementation
from ablate.space.choice import Choice
from ablate.space.optimizers import GROUPS, OTHERS, OptimizerSpec, ParameterKind, setting_of_rate
from ablate.train.optimizers.declare import Trained


def build_optimizer(model: nn.Module, chosen: Choice, catalogue: Catalogue) -> optim.Optimizer:
    """Build the chosen optimiser over every trained parameter; ValueError if it leaves one out."""
    spec = catalogue.of_kind(OptimizerSpec)[chosen.name]
    settings = spec.read(chosen.settings)
    parameters = list(trained_parameters(model, settings))
    optimizer: optim.Optimizer = implementation(spec)(parameters, settings)
    held = [id(tensor) for group in optimizer.param_groups for tensor in group["params"]]
    left_out = [each.address for each in parameters if id(each.tensor) not in held]
    if left_out or len(held) != len(parameters):
        wrong = f"leaves out {', '.join(left_out)}" if left_out else "has a parameter twice"
        way = "its groups must hold every parameter exactly once"
        raise ValueError(f"optimiser {chosen.name} ({spec.path}) {wrong}: {way}")
    return optimizer


def trained_parameters(model: nn.Module, settings: Any) -> Iterator[Trained]:
    """Yield every trained parameter once, with its rate and decay by `settings` (all but `lr` optional)."""
    decays = getattr(settings, "decays", ())
    multiples, tables = rate_multiples(model), _tables(model)
    for address, parameter, kind in parameter_kinds(model):
        own = setting_of_rate(settings, kind)
        yield Trained(
            tensor=parameter,
            address=address,
            kind=kind,
            name=OTHERS if own is None else GROUPS[own],
            peak=settings.lr if own is None else getattr(settings, own),
            multiple=multiples.get(address, 1.0),
            weight_decay=settings.weight_decay if kind in decays else 0.0,
            matrix=parameter.ndim == 2 and address not in tables,
        )


def rate_multiples(model: nn.Module) -> dict[str, float]:
    """Return the multiples of the rate that parts set, by the address of the parameter."""
    return {
        f"{address}.{name}".lstrip("."): float(multiple)
        for address, module in model.named_modules()
        for name, multiple in getattr(module, "rates", {}).items()
    }


def _tables(model: nn.Module) -> frozenset[str]:
    """Return the addresses of two-dimensional parameters that their parts declare not to be linear maps."""
    return frozenset(
        f"{address}.{name}".lstrip(".")
        for address, module in model.named_modules()
        for name in getattr(module, "tables", ())
    )


def parameter_kinds(model: nn.Module) -> Iterator[tuple[str, nn.Parameter, ParameterKind]]:
    """Yield every trained parameter once, with its address and kind."""
    gains = {id(p) for module in model.modules() if isinstance(module, Scale) for p in module.parameters()}
    for address, parameter in model.named_parameters():
        if parameter.requires_grad:
            yield address, parameter, _kind(address, parameter, gain=id(parameter) in gains)


def _kind(address: str, parameter: nn.Parameter, *, gain: bool) -> ParameterKind:
    match address.partition(".")[0]:
        case "embedding" | "head" | "positions" as place:
            return place
    if gain:
        return "gains"
    if parameter.ndim >= 2:
        return "weights"
    return "biases" if address.rpartition(".")[2] == "bias" else "scales"


def set_rates(optimizer: optim.Optimizer, share: float) -> dict[str, float]:
    """Set every group to `share` of its peak, times its multiple; return the rate of each name, without multiples."""
    for group in optimizer.param_groups:
        group["lr"] = share * group["peak"] * group["multiple"]
    return {group["name"]: share * group["peak"] for group in optimizer.param_groups}
