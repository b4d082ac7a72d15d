"""Machine: the bits of this machine's kernels, the attention backends that work on it, and its speed.

The backends are tried on the kinds of attention that blocks are made of, in each dtype that trials compute in, under
the settings of a trial: each passes the gate, or is listed with the reason. On a GPU that compiles kernels and takes
about a minute.
"""

from __future__ import annotations

import hashlib
import os
import re
import statistics
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import cast

import numpy
import torch
from torch import Tensor, nn
from torch.nn import functional

from ablate.block.catalogue import Catalogue
from ablate.compiler import compile_model
from ablate.compiler.compile import inputs_of
from ablate.errors import InputError, RefusedError
from ablate.execute.gpu import device, device_versions, gpus
from ablate.kernels import asked_of, choose
from ablate.kernels.attend import Attend
from ablate.kernels.choose import PREFERRED, objection, order
from ablate.kernels.gate import AttentionSite, check, sites
from ablate.plan.plan import Plan, Trial
from ablate.store.machines import KERNELS, installed
from ablate.train.data_parallel import pin_threads
from ablate.train.events import Outcome, Step, Training

HEADS, TOKENS, D_HEAD = 2, 128, 64
DTYPE = "float32"  # the dtype of the trials whose kernels are shown; each dtype has its own
TYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


@dataclass(frozen=True, slots=True)
class Tried:
    """A backend at one kind of attention in one dtype: the operator with which it works, or `why` it does not."""

    dtype: str
    attention: str
    kernel: str
    works: bool
    operator: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine: `versions` as recorded with trials, its GPUs, its cores, and the backends tried on its device. Of
    those, trials use the first that works for each kind and dtype."""

    versions: Mapping[str, str]
    gpus: tuple[str, ...]
    cores: int
    tried: tuple[Tried, ...]


def examine() -> Machine:
    pin_threads(torch.get_num_threads())
    return Machine(
        versions=installed() | device_and_kernels(DTYPE),
        gpus=tuple(
            f"{torch.cuda.get_device_name(gpu.number)}, {gpu.memory / 2**30:.0f} GiB, compute capability "
            f"{'.'.join(map(str, torch.cuda.get_device_capability(gpu.number)))}"
            for gpu in gpus()
        ),
        cores=os.cpu_count() or 1,
        tried=tuple(_tried(device())),
    )


def _tried(device_type: str) -> Iterator[Tried]:
    for dtype in TYPES:
        for attention, core in kinds(device_type).items():
            site = _site(core, dtype, device_type)
            able = order(site.needs, device_type)
            names = (*able, *(name for name in PREFERRED[device_type] if name not in able))
            for name in names:
                why, operator = objection(name, site.needs, device_type), ""
                if not why:
                    why, operator = check(name, site)
                yield Tried(site.needs.dtype, attention, name, not why, operator, why)


def kinds(device_type: str) -> dict[str, Attend]:
    learned = nn.Parameter(torch.zeros(1, HEADS, TOKENS, TOKENS, device=device_type))
    fixed = learned.detach()

    def softcap(scores: Tensor) -> Tensor:
        return 30 * torch.tanh(scores / 30)

    scale = D_HEAD**-0.5
    return {
        "plain": Attend(causal=True, scale=scale),
        "fixed bias": Attend(causal=True, scale=scale, biases=(lambda q, k, scale: fixed[...],)),
        "learned bias": Attend(causal=True, scale=scale, biases=(lambda q, k, scale: learned[...],)),
        "map on the scores": Attend(causal=True, scale=scale, logits=(softcap,)),
        "dropout": Attend(causal=True, scale=scale, dropout=0.1),
    }


class _One(nn.Module):
    def __init__(self, core: Attend):
        super().__init__()
        self.core = core

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.core(x, x, x)
        return y


def _site(core: Attend, dtype: torch.dtype, device_type: str) -> AttentionSite:
    model = _One(core)
    x = torch.zeros(1, HEADS, TOKENS, D_HEAD, dtype=dtype, device=device_type, requires_grad=True)
    (site,) = sites(model, lambda: model(x)).values()
    return site


# The digest of a machine's kernels, on small fixed numbers: matrix product, sums, softmax, normalisation, a
# non-linearity and attention, forward and backward, in float32, float64 and the dtype of a trial, on one thread and on
# the device of the trial. A product alone does not tell AVX2 from AVX-512: softmax and attention in float64 do. Same
# digest: trials are taken to have the same bits, and are paired.

DIGEST_DIGITS = 16
ROWS, INNER, COLUMNS = 96, 161, 130
"""Sizes that are no multiples of a vector's length, so that the ends of rows are computed, too."""
DIGEST_HEADS, DIGEST_TOKENS, DIGEST_D_HEAD = 2, 67, 40
DIGEST_SEED = 0


def device_and_kernels(dtype: str) -> dict[str, str]:
    return device_versions() | {KERNELS: kernel_digest(dtype, device())}


@cache
def kernel_digest(dtype: str, on: str) -> str:
    hashed = hashlib.sha256()
    with settings_restored():
        torch.set_num_threads(1)
        for each in dict.fromkeys(("float32", "float64", dtype)):
            for result in _computed_by_kernels(getattr(torch, each), on):
                hashed.update(result.detach().reshape(-1).cpu().view(torch.uint8).numpy().tobytes())
    return hashed.hexdigest()[:DIGEST_DIGITS]


def _computed_by_kernels(dtype: torch.dtype, on: str) -> Iterator[Tensor]:
    # Uniform numbers from integers: those of a normal distribution would depend on the logarithm of this machine.
    numbers = numpy.random.Generator(numpy.random.PCG64(DIGEST_SEED))

    def drawn(*shape: int) -> Tensor:
        values = torch.from_numpy(2 * numbers.random(shape) - 1)
        return values.to(device=on, dtype=dtype).requires_grad_()

    x, w, v = drawn(ROWS, INNER), drawn(INNER, COLUMNS), drawn(COLUMNS)
    product = x @ w
    yield product
    yield product.sum()
    yield product.std(dim=-1)
    normed = functional.layer_norm(product, (COLUMNS,), v)
    soft = torch.softmax(functional.gelu(normed), dim=-1)
    yield from (normed, soft, torch.logsumexp(product, dim=-1))
    queries, keys, values = (drawn(1, DIGEST_HEADS, DIGEST_TOKENS, DIGEST_D_HEAD) for _ in range(3))
    try:
        attended = functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
    except RuntimeError:  # a kernel that there is not for these instructions, as of bfloat16 with AMX but no AVX-512
        attended = 0 * (queries + keys + values)
    yield attended
    yield from torch.autograd.grad(soft.square().sum() + attended.square().sum(), (x, w, v, queries, keys, values))


@contextmanager
def settings_restored() -> Iterator[None]:
    """Restore the threads and the determinism of this process on exit."""
    threads, deterministic = torch.get_num_threads(), torch.get_deterministic_debug_mode()
    filled = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_deterministic_debug_mode(deterministic)
        torch.utils.deterministic.fill_uninitialized_memory = filled  # type: ignore[attr-defined]


# The order in which each variant of a plan will try attention backends, by a model on the meta device. The choice among
# them is made on the machine that trains, before its first trial (see `choose_kernels`).


@dataclass(frozen=True, slots=True)
class KernelOrder:
    """The kernels that the attentions at `address` (`layers.*.attention` where layers agree) try, best first, and the
    `reason` why the first comes first."""

    address: str
    kernels: tuple[str, ...]
    reason: str


def kernel_orders(
    plan: Plan, catalogue: Catalogue, *, device_type: str | None = None
) -> Mapping[str, tuple[KernelOrder, ...]]:
    where, orders = device_type or device(), {}
    for id, work in {trial.variant: trial.work for trial in plan.trials}.items():
        model = compile_model(work.architecture, catalogue, device="meta")
        needed = asked_of(model, inputs_of(work.architecture, work.recipe.batch), dtype=work.recipe.dtype)
        sites = {(re.sub(r"^(layers|encoder|ahead)\.\d+\.", r"\1.*.", at), n): None for at, n in needed.items()}
        orders[id] = tuple(KernelOrder(at, order(n, where), choose(n, where).reason) for at, n in sites)
    return orders


def described_orders(plan: Plan, orders: Mapping[str, tuple[KernelOrder, ...]]) -> str:
    users: dict[KernelOrder, list[str]] = {}
    for variant in plan.variants:
        for kernel_order in orders.get(variant.id, ()):
            users.setdefault(kernel_order, []).append(variant.name)
    lines = [f"  {o.address}  {', then '.join(o.kernels)}: {o.reason}  ({', '.join(v)})" for o, v in users.items()]
    return "\n".join(["attention kernels:", *lines] if lines else ["attention kernels: none needed"])


# The time of a model's training step, relative to that of another model. The two take steps alternately, on real
# batches, with the threads and on the device that a trial would have. The first steps are dropped, and the result is
# the median over the others of the ratio of two consecutive steps, so that a temporary slowdown of the machine affects
# both: under load, seven such ratios varied by 3 %, and ratios of the two medians by 7 % (measured). Nothing is
# evaluated or probed, and learning rates are so small that nothing diverges. If the device cannot hold both models, one
# is measured after the other.

WARM_UP = 2  # steps that are not counted: memory is allocated, kernels are chosen, the first rows are made
FEWEST_STEPS, MOST_STEPS = 15, 200  # counted steps of each model
TIMED_SECONDS = 5.0  # to spend on steps, within those bounds
NEVER = 10**9
RATE = 1e-12


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds of one training step of a model, and of the model `beside` it; `why` they are only assumed, if they are.
    `middle` is the interquartile range of the ratios of two steps, None if steps were not taken in pairs."""

    seconds: float
    beside: float
    middle: tuple[float, float] | None = None
    why: str = ""

    @property
    def ratio(self) -> float:
        return self.seconds / self.beside

    @property
    def spread(self) -> float | None:
        """The width of the interquartile range as a share of the ratio; None if steps were not taken in pairs."""
        return None if self.middle is None else (self.middle[1] - self.middle[0]) / self.ratio


class NoStep(Exception):
    """A model did not finish a step; the text says why. `kind` is that of the outcome a trial would have."""

    def __init__(self, kind: str, why: str):
        super().__init__(why)
        self.kind = kind


def timing_versions() -> dict[str, str]:
    """All that decides the step time on this machine: the device, and the versions of the libraries."""
    return installed() | device_versions()


def pace(trial: Trial, beside: Trial, *, cache: Path, plugins: tuple[Path, ...]) -> Pace:
    """The pace of a trial's model relative to another's; `cache` holds the token streams. NoStep if one of the two
    finishes no step; InputError and RefusedError as a trial does."""
    stepping = [_Stepping(_bare(each), cache, plugins) for each in (trial, beside)]
    with settings_restored(), torch.random.fork_rng():
        try:
            ours, others = _measured(stepping)
        except NoStep as ended:
            if ended.kind != "out_of_memory":
                raise
            (ours,), (others,) = _measured(stepping[:1]), _measured(stepping[1:])
            return Pace(statistics.median(ours), statistics.median(others))
    seconds = statistics.median(others)
    low, ratio, high = statistics.quantiles((a / b for a, b in zip(ours, others, strict=True)), n=4)
    return Pace(seconds * ratio, seconds, (low, high))


@dataclass(frozen=True, slots=True)
class _Stepping:
    trial: Trial
    cache: Path
    plugins: tuple[Path, ...]

    def begin(self) -> Generator[Training, None, None]:
        from ablate.execute.work import compute  # loads SciPy, which an examination of the machine does not need

        events = compute(self.trial, cache=self.cache, plugins=self.plugins, resume=None, should_stop=lambda: False)
        return cast(Generator[Training, None, None], events)

    def step(self, events: Iterator[Training]) -> float:
        began = time.perf_counter()
        try:
            for event in events:
                match event:
                    case Step():
                        if device() == "cuda":
                            torch.cuda.synchronize()
                        return time.perf_counter() - began
                    case Outcome(kind=kind, detail=detail):
                        raise NoStep(kind, str(detail.get("cause", kind)))
        except (InputError, RefusedError, NoStep):
            raise
        except Exception as error:
            raise NoStep("bug", f"{type(error).__name__}: {error}") from error
        raise NoStep("finished", "it has no steps")


def _measured(stepping: Sequence[_Stepping]) -> list[list[float]]:
    times: list[list[float]] = [[] for _ in stepping]
    with ExitStack() as stack:
        events = [stack.enter_context(closing(each.begin())) for each in stepping]
        began = time.perf_counter()
        while len(times[0]) < WARM_UP + FEWEST_STEPS or (
            time.perf_counter() - began < TIMED_SECONDS and len(times[0]) < WARM_UP + MOST_STEPS
        ):
            for each, running, taken in zip(stepping, events, times, strict=True):
                taken.append(each.step(running))
    if device() == "cuda":
        torch.cuda.empty_cache()
    return [taken[WARM_UP:] for taken in times]


def _bare(trial: Trial) -> Trial:
    """The trial without an end, in batches of full size, with a training step and nothing else."""
    recipe, measure = trial.work.recipe, trial.work.measure
    chosen = recipe.optimizer.settings
    slow = {name: RATE for name, value in chosen.items() if name.endswith("lr") and value is not None}
    optimizer = replace(recipe.optimizer, settings={**chosen, **slow})
    schedule = recipe.schedule.model_copy(update={"floor": 0.0})
    evaluation = measure.evaluation.model_copy(update={"every": NEVER, "windows": 1})
    never = {"every": NEVER, "checkpoint_every": NEVER, "probes": (), "evaluation": evaluation}
    update = {"steps": NEVER, "optimizer": optimizer, "schedule": schedule, "batch_ramp": None}
    recipe, measure = recipe.model_copy(update=update), measure.model_copy(update=never)
    return replace(trial, work=replace(trial.work, recipe=recipe, measure=measure))
