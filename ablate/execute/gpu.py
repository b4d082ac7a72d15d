"""GPU: the device that trials compute on, and which trials share it by the memory that each needs.

The memory that a trial needs is predicted, then measured, and reserved in a ledger, by which tasks are placed. A
process takes its GPU with its share. Without CUDA the device is the CPU, and there is nothing to share.
"""

from __future__ import annotations

import gc
import math
import shutil
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import torch
from torch import nn

from ablate.block.architecture import Architecture
from ablate.block.catalogue import Catalogue
from ablate.block.expression import walk
from ablate.block.layers import at_layer
from ablate.compiler import compile_model
from ablate.compiler.compile import inputs_of
from ablate.components.declare import Profiled
from ablate.errors import InputError, RefusedError
from ablate.execute.executor import SHARE, Message, Pack, Task, on_a_gpu, outcome_of
from ablate.kernels import Attend, explain
from ablate.plan.plan import Trial
from ablate.plan.size import part_costs
from ablate.space.documents import Choice
from ablate.store.machines import version_of
from ablate.train.events import Outcome
from ablate.train.loop import lacks_memory
from ablate.train.optimizer import build_optimizer


def device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def device_name() -> str:
    """The name of the device as recorded with a trial: numbers of different devices are not paired."""
    if device() == "cpu":
        return "cpu"
    major, minor = torch.cuda.get_device_capability()
    return f"{torch.cuda.get_device_name()} sm_{major}{minor}"


def device_versions() -> dict[str, str]:
    """The device and, on a GPU, the versions of its kernel libraries, as recorded with a trial."""
    if device() == "cpu":
        return {"device": "cpu"}
    libraries = {name: version_of(name) for name in ("xformers", "triton")}
    return {"device": device_name(), "cuda": str(torch.version.cuda or torch.version.hip)} | libraries


def gpus() -> tuple[Gpu, ...]:
    """The GPUs that this process sees, with their total memory, whether or not others use it."""
    if device() == "cpu":
        return ()
    numbers = range(torch.cuda.device_count())
    return tuple(Gpu(number, torch.cuda.get_device_properties(number).total_memory) for number in numbers)


# The GPU of a trial, taken and given back by its process, and the memory it needed. Without CUDA this does nothing.

UNSEEN = (
    "this machine has a GPU that PyTorch cannot use, so trials are computed on the CPU\n"
    "  = install the PyTorch build for its driver's CUDA, or check with nvidia-smi; --gpus 0 uses no GPU"
)


def take(gpu: int | None, memory: float | None, contexts: int = 0) -> None:
    """Compute on `gpu` of those that this process sees (None: the first), with at most the share `memory` of the memory
    that the CUDA contexts of `contexts` processes leave; reset the memory statistics. RefusedError if that is not
    possible."""
    if not torch.cuda.is_available():
        return
    chosen, size = gpu or 0, torch.cuda.device_count()
    if chosen >= size:
        raise RefusedError(
            f"a trial was assigned GPU {chosen}, but only {size} {'is' if size == 1 else 'are'} visible here, from 0\n"
            "  = CUDA_VISIBLE_DEVICES says which are visible; a trial of several processes takes one for each"
        )
    try:
        torch.cuda.set_device(chosen)
        torch.empty(1, device="cuda")  # creates the context here, so that its failure is not the trial's
        total = torch.cuda.get_device_properties(chosen).total_memory
        torch.cuda.set_per_process_memory_fraction(1.0 if memory is None else memory * usable(total, contexts))
        torch.cuda.reset_peak_memory_stats()
    except RuntimeError as error:
        if lacks_memory(error):
            raise
        raise RefusedError(
            f"GPU {chosen} cannot be used: {str(error).partition(chr(10))[0]}\n"
            "  = if it allows only one process at a time (nvidia-smi: Compute M. E. Process), use --pack 1"
        ) from error


def usable(total: int, contexts: int) -> float:
    """The share of a GPU of `total` bytes that the contexts of `contexts` processes leave, at least half."""
    return max(total - contexts * CONTEXT, total // 2) / total


def give_back() -> bool:
    """Release the memory that PyTorch caches: others on the GPU may need it. Return whether the GPU still works."""
    if not _in_use():
        return True
    gc.collect()
    try:
        torch.cuda.empty_cache()
    except RuntimeError:
        return False
    return True


def spoils(outcome: Outcome) -> bool:
    """True if a process must not be reused after a trial with this outcome: an error on a GPU (a failed assertion, an
    illegal access, ECC) destroys the process's context, and which bugs are of that kind cannot be told."""
    return outcome.kind == "bug" and _in_use()


def peak() -> dict[str, int]:
    """`peak_memory`, the most bytes that tensors took at once since `take`; empty without CUDA."""
    try:
        return {"peak_memory": torch.cuda.max_memory_allocated()} if torch.cuda.is_available() else {}
    except RuntimeError:  # the GPU is lost, but the outcome must still be reported
        return {}


def unseen() -> bool:
    """Return whether this machine has a GPU (a real one, not just one declared to Ray) that PyTorch does not see."""
    return not torch.cuda.is_available() and (Path("/dev/nvidia0").exists() or shutil.which("nvidia-smi") is not None)


def _in_use() -> bool:
    """Not by `is_available`, which queries the device, perhaps a lost one."""
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


# The memory that a trial needs on its device: predicted from its specification, measured once a similar one has run.

PEAK_MEMORY = "peak_memory"  # in the detail of an outcome: the most bytes that the trial's tensors took on its GPU
UNSURE = 1.5  # the safety factor on a prediction, for what the formula leaves out and for fragmented memory
MARGIN = 1.25  # the safety factor on a measured peak: the allocator holds more than its tensors take
LEAST_MEMORY = 256 * 2**20  # bytes that any trial needs: the workspaces of matrix products


def predict_memory(
    trial: Trial, catalogue: Catalogue, *, parts: int = 1, ranks: int = 1, device_type: str = "cuda"
) -> int:
    """Predict the peak bytes on each device, with each batch divided among `ranks` processes and there in `parts`.

    At its peak, with P parameters of p bytes (4, or 8 in float64) and batches of b sequences of T tokens, it holds

        Pp + O + max(Pp + A, 2Pp)    weights and optimiser state; gradients and A, or gradients and a step's temporaries
        + Pp                         where the recipe averages the weights

        A = b·T·a·(Σ_l (P_l / D + n·D) + 3·H·T) + 3·b·T·V·max(p, 4)

    and, if a component examines the first batch before training (`Profiled`), no less than that pass holds with the
    whole batch of B sequences, however it is divided for training: the parameters, and the outputs of one layer's
    matrices or the logits,

        Pp + p·B·T·max(P_l / D, V)

    O is counted: the optimiser takes a step on a model on the meta device (Adam keeps 2Pp, SGD with momentum Pp, SOAP
    two more matrices for each side of a weight); for an optimiser that has to read values 2Pp are assumed.

    A is what the forward pass keeps for the backward pass. A matrix of d_in × D numbers keeps its output, d_in numbers
    per token, so all of layer l keep P_l / D; each of the n parts of a block (inits excepted) keeps one more tensor of
    the width D, or rewrites it. Attentions that hold their scores have H heads in all, and hold them three times (the
    scores, what is computed from them, and its gradient). The head keeps logits, their log-softmax and its gradient
    over V tokens, and so again for each block that predicts a token further ahead, which counts as a layer. A number
    takes a = p bytes, in half precision 3 on average: norms and sums stay in float32.

    Temporaries of probes, fixed matrices, and a device's own needs are not included.
    """
    architecture, dtype = trial.work.architecture, trial.work.recipe.dtype
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
    width, stored = (8, 8) if dtype == "float64" else (4, 3 if dtype in ("bfloat16", "float16") else 4)
    tokens = math.ceil(trial.work.recipe.batch / ranks / parts) * length
    numbers = in_layers / sizes.d_model + blocks * sizes.d_model + 3 * scores
    activations = tokens * (stored * numbers + 3 * width * heads * sizes.vocab_size)
    weights = parameters * width
    state = _optimizer_state(trial, model, catalogue, width)
    averaged = 0 if trial.work.recipe.average is None else weights
    training = weights + averaged + state + max(weights + activations, 2 * weights)
    if not any(isinstance(module, Profiled) for module in model.modules()):
        return math.ceil(training)
    whole = trial.work.recipe.batch * length
    passing = max(in_layers / len(each) / sizes.d_model, sizes.vocab_size)
    return math.ceil(max(training, weights + whole * width * passing))


def _optimizer_state(trial: Trial, model: nn.Module, catalogue: Catalogue, width: int) -> int:
    optimizer = build_optimizer(model, trial.work.recipe.optimizer, catalogue)
    trained: list[nn.Parameter] = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for parameter in trained:
        parameter.grad = torch.zeros_like(parameter)
    try:
        optimizer.step()
    except (NotImplementedError, RuntimeError):  # a plug-in's may read a value, and tensors on meta have none
        return 2 * width * sum(parameter.numel() for parameter in trained)
    finally:
        optimizer.zero_grad()
    values = (value for state in optimizer.state.values() for value in state.values())
    return width * sum(value.numel() for value in values if isinstance(value, torch.Tensor))


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


class MemoryForecast:
    """The memory that trials will need: as measured if one of the same model, optimiser and batch has run, else as
    predicted. `known` are trials of earlier runs with their outcomes (the detail says in how many parts and ranks)."""

    def __init__(self, catalogue: Catalogue, known: Iterable[tuple[Trial, Outcome]] = ()):
        self._catalogue = catalogue
        self._predicted: dict[_Like, int] = {}
        self._measured: dict[_Like, int] = {}
        for trial, outcome in known:
            self.learn(trial, outcome.detail.get("parts", 1), outcome.detail.get("ranks", 1), outcome)

    def needed(self, task: Task) -> int:
        like = _like(task.trial, task.parts, task.ranks)
        if (peak := self._measured.get(like)) is not None:
            return max(LEAST_MEMORY, math.ceil(MARGIN * peak))
        if like not in self._predicted:
            self._predicted[like] = predict_memory(task.trial, self._catalogue, parts=task.parts, ranks=task.ranks)
        return max(LEAST_MEMORY, math.ceil(UNSURE * self._predicted[like]))

    def learn(self, trial: Trial, parts: int, ranks: int, outcome: Outcome) -> None:
        """Record the peak of a trial; one that ran out of memory does not show what it would have needed."""
        peak = outcome.detail.get(PEAK_MEMORY)
        if isinstance(peak, int) and outcome.kind in ("finished", "paused"):
            like = _like(trial, parts, ranks)
            self._measured[like] = max(peak, self._measured.get(like, 0))


_Like = tuple[Architecture, Choice, int, str, bool, int, int]


def _like(trial: Trial, parts: int, ranks: int) -> _Like:
    recipe = trial.work.recipe
    averaged = recipe.average is not None
    return (trial.work.architecture, recipe.optimizer, recipe.batch, recipe.dtype, averaged, parts, ranks)


# A ledger of the memory reserved for each trial on a GPU before it begins. Its process is limited to that (see
# `Task.memory`), so a trial that turns out to need more fails itself and not its neighbour.

CONTEXT = 2**29  # bytes that a process takes on every GPU that it has ever used, beyond its tensors


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU of this machine, by its number, with `memory` bytes to give away."""

    number: int
    memory: int


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of a trial: the GPU, and the trial's `share` of its memory, above 0 and at most 1."""

    gpu: int
    share: float


@dataclass(slots=True)
class _Books:
    gpu: Gpu
    promised: dict[str, int] = field(default_factory=dict)

    @property
    def left(self) -> int:
        return self.gpu.memory - sum(self.promised.values())


class Ledger:
    """Reservations of up to `most` trials on each of `gpus`, never more than fit into its memory.

    Each trial gets what it needs, and at least 1/`most` of the GPU, since that much would otherwise be unused. It goes
    to the GPU with the fewest trials, since they share its time as well; among those, to the one with the least memory
    left over (best fit). A trial that needs more than the largest GPU has gets that GPU to itself, since its need is
    only predicted.
    """

    def __init__(self, gpus: Iterable[Gpu], *, most: int):
        self._books = {gpu.number: _Books(gpu) for gpu in gpus}
        self._most = most
        if most < 1:
            raise InputError(f"{most} trials on a GPU\n  = give at least one")
        if not self._books or any(books.gpu.memory < most for books in self._books.values()):
            raise ValueError("a ledger needs GPUs with memory")
        self._largest = max(books.gpu.memory for books in self._books.values())

    @property
    def slots(self) -> int:
        return self._most * len(self._books)

    def reserve(self, trial_id: str, needed: int | None) -> Slot | None:
        """Reserve a place for a trial that needs `needed` bytes (None: a GPU to itself); None if it has to wait."""
        if any(trial_id in books.promised for books in self._books.values()):
            raise ValueError(f"trial {trial_id} has a place already")
        wanted = self._largest if needed is None else min(needed, self._largest)
        fitting = [(books, amount) for books in self._books.values() if (amount := self._amount(books, wanted))]
        if not fitting:
            return None
        books, amount = min(fitting, key=lambda fit: (len(fit[0].promised), fit[0].left - fit[1], fit[0].gpu.number))
        books.promised[trial_id] = amount
        return Slot(books.gpu.number, amount / books.gpu.memory)

    def release(self, trial_id: str) -> None:
        """KeyError if nothing is reserved for the trial."""
        for books in self._books.values():
            if trial_id in books.promised:
                del books.promised[trial_id]
                return
        raise KeyError(trial_id)

    def _amount(self, books: _Books, wanted: int) -> int:
        amount = max(wanted, books.gpu.memory // self._most)
        return amount if amount <= books.left else 0


class Packer:
    """Places up to `pack` trials on each of `gpus`, at most `workers` in all. A trial of several `ranks` gets as many
    consecutive GPUs to itself; its task names the first. `known` are trials of earlier runs with their outcomes."""

    def __init__(
        self,
        gpus: Iterable[Gpu],
        catalogue: Catalogue,
        *,
        workers: int,
        pack: Pack = None,
        ranks: int = 1,
        known: Iterable[tuple[Trial, Outcome]] = (),
    ):
        there = tuple(gpus)
        self._memory = {gpu.number: gpu.memory for gpu in there}
        self._usable = {gpu.number: usable(gpu.memory, workers) for gpu in there}
        most = min(min(on_a_gpu(gpu.memory, pack) for gpu in there), -(-workers // len(there))) if ranks == 1 else 1
        firsts = there[: len(there) // ranks * ranks : ranks]
        self._ledger = Ledger((Gpu(g.number, int(self._usable[g.number] * g.memory)) for g in firsts), most=most)
        self._forecast = MemoryForecast(catalogue, known)

    @property
    def slots(self) -> int:
        return self._ledger.slots

    def placed(self, task: Task) -> Task | None:
        """None while there is no room for the task."""
        slot = self._ledger.reserve(task.trial.id, None if task.memory == 1.0 else self._forecast.needed(task))
        if slot is None:
            return None
        # A trial that has a GPU to itself has no memory limit.
        memory = slot.share if slot.share == 1.0 else slot.share * self._usable[slot.gpu]
        return replace(task, gpu=slot.gpu, memory=memory)

    def share(self, task: Task) -> float | None:
        if task.memory is None or task.gpu is None:
            return task.memory
        return task.memory * self._memory[task.gpu] / max(self._memory.values())

    def over(self, task: Task, message: Message) -> None:
        self._ledger.release(task.trial.id)
        if (outcome := outcome_of(message)) is not None:
            self._forecast.learn(task.trial, task.parts, task.ranks, outcome)


def with_share(message: Message, share: float | None) -> Message:
    if share is None or share >= 1:
        return message
    events = (
        replace(event, detail=event.detail | {SHARE: share}) if isinstance(event, Outcome) else event
        for event in message.events
    )
    return replace(message, events=tuple(events))
