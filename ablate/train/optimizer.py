"""Optimiser: a model's parameters with their kinds, rates and decays, the clipped gradient, and averaged weights.

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
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn, optim
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from ablate.block.catalogue import Catalogue
from ablate.compiler.build import Scale
from ablate.extension.loader import implementation
from ablate.space.documents import Choice
from ablate.space.recipe import (
    GROUPS,
    OTHERS,
    AverageOfLast,
    MovingAverage,
    OptimizerSpec,
    ParameterKind,
    Recipe,
    setting_of_rate,
)
from ablate.train.optimizers.declare import Trained


def build_optimizer(model: nn.Module, chosen: Choice, catalogue: Catalogue) -> optim.Optimizer:
    """ValueError if the optimiser leaves a trained parameter out."""
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
    return {
        f"{address}.{name}".lstrip("."): float(multiple)
        for address, module in model.named_modules()
        for name, multiple in getattr(module, "rates", {}).items()
    }


def _tables(model: nn.Module) -> frozenset[str]:
    return frozenset(
        f"{address}.{name}".lstrip(".")
        for address, module in model.named_modules()
        for name in getattr(module, "tables", ())
    )


def parameter_kinds(model: nn.Module) -> Iterator[tuple[str, nn.Parameter, ParameterKind]]:
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


# The global gradient norm, and clipping to it.
#
# |g| = sqrt(Σ_θ |∂L/∂θ|²)        g ← g · min(1, clip / (|g| + 1e-6))
#
# Pascanu et al. 2013, arXiv:1211.5063, as in `torch.nn.utils.clip_grad_norm_`


def gradient_norm(model: nn.Module) -> Tensor:
    """The 2-norm over all gradients; none is changed, so that a non-finite norm can still be traced."""
    return get_total_norm([p.grad for p in model.parameters() if p.grad is not None])


def clip_gradients(model: nn.Module, clip: float | None, norm: Tensor) -> None:
    """Scale the gradients down to norm `clip` if `norm` is larger; do nothing if `clip` is None."""
    if clip is not None:
        clip_grads_with_norm_(model.parameters(), clip, norm)


# The average of the weights over training, on which a trial is evaluated once more at its end.
#
#     w̄ ← w̄ + r (w - w̄)       after an update that counts, for every trained parameter
#
#     {last: K, every: N}     the mean of K checkpoints, N steps apart, the last at the end: after steps S, S - N, …,
#                             S - (K - 1) N of S (those of them that there are); r = 1 / k for the k-th of them
#     {ema: d}                w̄_n = Σ_(i≤n) d^(n-i) w_i / Σ_(i≤n) d^(n-i), over every step; r = (1 - d) / (1 - d^n)
#
# One copy of the parameters is held, from the first that counts. Other state, such as vectors of power iterations, is
# that of the end. Averaging changes no other number.
#
#     Vaswani et al. 2017, arXiv:1706.03762, Sec. 6.1, the last checkpoints, as for MuST-C in arXiv:2403.09635,
#     Table 27; Polyak & Juditsky 1992, doi:10.1137/0330046; the moving average without a start at 0, as
#     Kingma & Ba 2015, arXiv:1412.6980, Sec. 7.2


@dataclass
class WeightAverage:
    """The average of a model's trained parameters: `held` by address, over `taken` of its updates."""

    model: nn.Module
    rule: AverageOfLast | MovingAverage
    steps: int
    taken: int = 0
    held: dict[str, Tensor] = field(default_factory=dict)

    @torch.no_grad()
    def after(self, step: int) -> None:
        if not self._counts(step):
            return
        self.taken += 1
        rate = self._rate()
        for address, parameter in self._trained():
            if self.taken == 1:
                self.held[address] = parameter.detach().clone()
            else:
                self.held[address].lerp_(parameter, rate)

    def _counts(self, step: int) -> bool:
        if isinstance(self.rule, MovingAverage):
            return True
        before_end = self.steps - step
        return before_end % self.rule.every == 0 and before_end // self.rule.every < self.rule.last

    def _rate(self) -> float:
        if isinstance(self.rule, MovingAverage):
            return (1 - self.rule.ema) / (1 - self.rule.ema**self.taken)
        return 1 / self.taken

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Give the model the averaged parameters, and its own back on exit; nothing is copied."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        for address, parameter in self._trained():
            parameter.data, self.held[address] = self.held[address], parameter.data

    def _trained(self) -> Iterator[tuple[str, nn.Parameter]]:
        return ((address, each) for address, each in self.model.named_parameters() if each.requires_grad)

    def state(self) -> dict[str, Any]:
        return {"taken": self.taken, "held": self.held}

    def resume(self, state: dict[str, Any]) -> None:
        """ValueError where the state is not of this model."""
        if type(state["taken"]) is not int or (state["taken"] > 0) != bool(state["held"]):
            raise ValueError("an average is held as soon as something is taken in")
        trained = dict(self._trained())
        if state["held"] and state["held"].keys() != trained.keys():
            raise ValueError("the average has other parameters")
        self.taken = state["taken"]
        self.held = {name: torch.empty_like(trained[name]).copy_(held) for name, held in state["held"].items()}


def average_of(model: nn.Module, recipe: Recipe) -> WeightAverage | None:
    return None if recipe.average is None else WeightAverage(model, recipe.average, recipe.steps)
