"""The memory that a trial needs on its device: predicted from its specification, measured once a similar one has run.

At its peak, with P parameters of p bytes (4, or 8 in float64) and batches of b sequences of T tokens, it holds

    Pp + O + max(Pp + A, 2Pp)     weights and optimiser state; gradients and A, or gradients and a step's temporaries
    + Pp                          where the recipe averages the weights

    A = b·T·a·(Σ_l (P_l / D + n·D) + 3·H·T) + 3·b·T·V·max(p, 4)

and, if a component examines the first batch before training (`Profiled`), no less than that pass holds with the whole
batch of B sequences, however it is divided for training: the parameters, and the outputs of one layer's matrices or the
logits,

    Pp + p·B·T·max(P_l / D, V)

O is counted: the optimiser takes a step on a model on the meta device (Adam keeps 2Pp, SGD with momentum Pp, SOAP two
more matrices for each side of a weight); for an optimiser that has to read values 2Pp are assumed.

A is what the forward pass keeps for the backward pass. A matrix of d_in × D numbers keeps its output, d_in numbers per
token, so all of layer l keep P_l / D; each of the n parts of a block (inits excepted) keeps one more tensor of the
width D, or rewrites it. Attentions that hold their scores have H heads in all, and hold them three times (the scores,
what is computed from them, and its gradient); the others never hold any. The head keeps logits, their log-softmax and
its gradient over V tokens, and so again for each block that predicts a token further ahead, which counts as a layer. A
number takes a = p bytes, in half precision 3 on average: norms and sums stay in float32.

Not included: what probes hold temporarily, fixed matrices, and what a device keeps for itself. A test compares the
formula with measurements on shipped blocks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import torch
from torch import nn

from ablate.block.architecture import Architecture
from ablate.block.catalogue import Catalogue
from ablate.block.expression import walk
from ablate.block.layers import at_layer
from ablate.compiler import compile_model
from ablate.compiler.size import inputs_of
from ablate.components.declare import Profiled
from ablate.execute.task import Task
from ablate.kernels import Attend, explain
from ablate.plan.size import part_costs
from ablate.plan.trial import Trial
from ablate.space.choice import Choice
from ablate.train.events import Outcome
from ablate.train.optimizer import build_optimizer

PEAK_MEMORY = "peak_memory"
"""In the detail of an outcome: the most bytes that the trial's tensors took on its GPU."""

UNSURE = 1.5
"""The safety factor on a prediction, for what the formula leaves out and for fragmented memory."""

MARGIN = 1.25
"""The safety factor on a measured peak: the allocator holds more than its tensors take."""

LEAST = 256 * 2**20
"""Bytes that any trial needs: the workspaces of matrix products."""


def predict(trial: Trial, catalogue: Catalogue, *, parts: int = 1, ranks: int = 1, device_type: str = "cuda") -> int:
    """Predict the peak bytes on each device, with each batch divided among `ranks` processes and there in `parts`."""
    architecture, dtype = trial.architecture, trial.recipe.dtype
    sizes = architecture.sizes
    costs = part_costs(architecture, catalogue)
    parameters = sum(cost.parameters for cost in costs.values())
    apart = part_costs(replace(architecture, share=None), catalogue)  # what is shared is computed in every layer
    stacks = ("layers.", "encoder.", "ahead.")
    in_layers = sum(cost.parameters for address, cost in apart.items() if address.startswith(stacks))
    depth, heads = sizes.n_layers, 1 + architecture.ahead
    each = (*range(1, depth + 1), *architecture.ahead * (depth,))
    if architecture.kind == "encoder_decoder":  # bounded by the longer of its two sequences, and the block whole
        each += tuple(min(layer, depth) for layer in range(1, architecture.of_encoder().sizes.n_layers + 1))
    layers = (at_layer(architecture.block, catalogue, sizes.scope(layer)) for layer in each)
    blocks = sum("init" not in catalogue[node.name].slots for block in layers for node in walk(block))
    model = compile_model(architecture, catalogue, device="meta")
    length = max(sizes.seq_len, sizes.source_len or 0)
    scores = _heads_with_scores(model, architecture, dtype, device_type) * length
    width, kept = (8, 8) if dtype == "float64" else (4, 3 if dtype in ("bfloat16", "float16") else 4)
    tokens = math.ceil(trial.recipe.batch / ranks / parts) * length
    numbers = in_layers / sizes.d_model + blocks * sizes.d_model + 3 * scores
    activations = tokens * (kept * numbers + 3 * width * heads * sizes.vocab_size)
    weights = parameters * width
    state = _optimizer_state(trial, model, catalogue, width)
    averaged = 0 if trial.recipe.average is None else weights
    training = weights + averaged + state + max(weights + activations, 2 * weights)
    if not any(isinstance(module, Profiled) for module in model.modules()):
        return math.ceil(training)
    whole = trial.recipe.batch * length
    passing = max(in_layers / len(each) / sizes.d_model, sizes.vocab_size)
    return math.ceil(max(training, weights + whole * width * passing))


def _optimizer_state(trial: Trial, model: nn.Module, catalogue: Catalogue, width: int) -> int:
    """Count the bytes of the optimiser's state, for numbers of `width` bytes."""
    optimizer = build_optimizer(model, trial.recipe.optimizer, catalogue)
    trained: list[nn.Parameter] = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for parameter in trained:
        parameter.grad = torch.zeros_like(parameter)
    try:
        optimizer.step()
    except (NotImplementedError, RuntimeError):  # a plug-in's may read a value, and tensors on meta have none
        return 2 * width * sum(parameter.numel() for parameter in trained)
    finally:
        optimizer.zero_grad()
    kept = (value for state in optimizer.state.values() for value in state.values())
    return width * sum(value.numel() for value in kept if isinstance(value, torch.Tensor))


def _heads_with_scores(model: nn.Module, architecture: Architecture, dtype: str, device_type: str) -> int:
    """Count the heads of the attentions that hold a [B, H, T, T], by the model itself on the meta device."""
    heads: dict[str, int] = {}
    with ExitStack() as attached:
        for name, module in model.named_modules():
            if isinstance(module, Attend):
                hook = partial(_note_heads, heads, name.rpartition(".")[0])
                attached.callback(module.register_forward_pre_hook(hook).remove)
        choices = explain(model, inputs_of(architecture), device_type=device_type, dtype=dtype)
    return sum(heads[address] for address, choice in choices.items() if choice.name == "eager")


def _note_heads(heads: dict[str, int], address: str, core: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
    heads[address] = inputs[0].shape[1]


class Forecast:
    """The memory that trials will need: as measured if one of the same model, optimiser and batch has run, else as
    predicted.

    `known` are trials of earlier runs with their outcomes (the detail says in how many parts and ranks).
    """

    def __init__(self, catalogue: Catalogue, known: Iterable[tuple[Trial, Outcome]] = ()):
        self._catalogue = catalogue
        self._predicted: dict[_Like, int] = {}
        self._measured: dict[_Like, int] = {}
        for trial, outcome in known:
            self.learn(trial, outcome.detail.get("parts", 1), outcome.detail.get("ranks", 1), outcome)

    def needed(self, task: Task) -> int:
        """Return the bytes to reserve for a task on each of its GPUs."""
        like = _like(task.trial, task.parts, task.ranks)
        if (peak := self._measured.get(like)) is not None:
            return max(LEAST, math.ceil(MARGIN * peak))
        if like not in self._predicted:
            self._predicted[like] = predict(task.trial, self._catalogue, parts=task.parts, ranks=task.ranks)
        return max(LEAST, math.ceil(UNSURE * self._predicted[like]))

    def learn(self, trial: Trial, parts: int, ranks: int, outcome: Outcome) -> None:
        """Record what a trial has needed; one that ran out of memory does not show what it would have needed."""
        peak = outcome.detail.get(PEAK_MEMORY)
        if isinstance(peak, int) and outcome.kind in ("finished", "paused"):
            like = _like(trial, parts, ranks)
            self._measured[like] = max(peak, self._measured.get(like, 0))


_Like = tuple[Architecture, Choice, int, str, bool, int, int]


def _like(trial: Trial, parts: int, ranks: int) -> _Like:
    """Return what two trials must have in common to need the same memory."""
    recipe = trial.recipe
    averaged = recipe.average is not None
    return (trial.architecture, recipe.optimizer, recipe.batch, recipe.dtype, averaged, parts, ranks)
