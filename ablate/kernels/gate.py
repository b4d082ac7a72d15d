"""The gate before training: a backend is used only if it computes attention correctly on the device that will train.

Each is compared with eager in float64, forward and backward, on random numbers: one row of a batch, the attention's own
heads (as many as fit `ROOM`), width of a head, length, dtype, maps, mask and bias, with the mask inside the bias if
training has it there. A row x of the output, or of a gradient, passes if

    |x - x*| <= c · ((u + a) · (|x*| + r) + (a + d) · n)        a = u₃₂ · √(K + S) · s

x* is the row of float64 eager from the same rounded inputs, r the root mean square of all rows' norms, and n the size
of the terms summed in a row, whose sum may be far smaller. u is the rounding unit of the dtype, 2⁻⁸ in bfloat16, 2⁻¹¹
in float16, 2⁻²⁴ in float32. Products are summed in float32 (u₃₂ = 2⁻²⁴, or in the dtype if that is wider): a sum of K +
S products is off by about √(K + S) roundings, and softmax multiplies a relative error in a score of size s by s. Scores
have a standard deviation of 2, so s = 8 is four of them; the batch is 1. c is FORWARD for the output, BACKWARD for
gradients. That of the scores is a difference, in which the rounded output remains when all else cancels (one key has
all the weight): d = u/4 for gradients, 0 for the output. Correct backends needed less than a third of this, most a
tenth (CPU: SDPA and eager in all four dtypes, biases in the hundreds); in float32 an added error of a thousandth
anywhere fails. With dropout, which is random, a backend only has to compute finite numbers, forward and backward.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ablate.errors import RefusedError
from ablate.kernels.attend import BACKENDS, Attend, attend
from ablate.kernels.choose import BackendChoice, Needs, choose, dispatch_xformers
from ablate.kernels.eager import scores
from ablate.kernels.mask import Mask, seen_pairs
from ablate.kernels.scale import as_given

# The backend that each attention of a model will use, with the reason, determined without computing anything.
#
# The model itself answers: build it on the meta device, where a forward pass costs neither memory nor time, and each
# `Attend` reports what it needs. So a bias, a map or dropout of any component counts as it will in training.

Inputs: TypeAlias = Tensor | tuple[Tensor, ...]  # the arguments of a model: tokens, or several tensors


def explain(
    model: nn.Module, inputs: Inputs, *, device_type: str | None = None, dtype: str | None = None
) -> dict[str, BackendChoice]:
    """The first choice for each `Attend` of `model`, by the address of the part that holds it.

    `device_type` is that of training (None: CUDA where this machine has it, else CPU), `dtype` as in `asked_of`. Only
    the training machine knows whether that backend works there (see `gate`).
    """
    device = device_type or ("cuda" if torch.cuda.is_available() else "cpu")
    return {address: choose(needs, device) for address, needs in asked_of(model, inputs, dtype=dtype).items()}


def asked_of(model: nn.Module, inputs: Inputs, *, dtype: str | None = None) -> dict[str, Needs]:
    """The needs of each `Attend` of `model` in training, by address, from one forward pass.

    `dtype` is the one that attention will be computed in (None: that of its values).
    """
    needs_by_address: dict[str, Needs] = {}
    with ExitStack() as attached, torch.enable_grad():
        for name, module in model.named_modules():
            if isinstance(module, Attend):
                hook = _asking(needs_by_address, name.rpartition(".")[0], dtype)
                attached.callback(module.register_forward_pre_hook(hook).remove)
        model(*(inputs if isinstance(inputs, tuple) else (inputs,)))
    return needs_by_address


def _asking(
    needs_by_address: dict[str, Needs], address: str, dtype: str | None
) -> Callable[[nn.Module, tuple[Any, ...]], None]:
    def hook(core: nn.Module, inputs: tuple[Any, ...]) -> None:
        assert isinstance(core, Attend)
        needs = core.needs(*inputs)
        needs_by_address[address] = replace(needs, dtype=dtype) if dtype else needs

    return hook


# The check of a backend against eager in float64.

ROOM = 2**30  # bytes that a check may use: it limits the number of heads, and then of queries at a time

COPIES = 8  # float64 numbers that the reference holds for each query, key and head, including its maps and gradients

FORWARD, BACKWARD = 4.0, 16.0  # c of the output and of gradients: several times what correct backends needed

SPREAD = 2.0  # standard deviation of the scores, before maps and bias

LARGEST = 4 * SPREAD

LOST = ("CUDA error", "device-side assert")  # errors after which the device is unusable for this process
NO_MEMORY = ("out of memory", "DefaultCPUAllocator", "ALLOC_FAILED")


@dataclass(frozen=True, slots=True)
class AttentionSite:
    """An attention of a model, and the sizes of its inputs; `mask` is that of one sequence of a pass."""

    core: Attend
    needs: Needs
    heads: int
    queries: int
    keys: int
    device: torch.device
    mask: Mask | None = None

    @property
    def traits(self) -> Hashable:
        """Everything on which the outcome of a check depends: two sites with the same traits are checked once."""
        named = tuple(_name(function) for function in (*self.core.logits, *self.core.biases))
        shape = (self.heads, self.queries, self.keys)
        deterministic = torch.are_deterministic_algorithms_enabled()
        mask = self.mask if self.needs.mask == "shared" else self.needs.mask
        return (self.needs, shape, str(self.device), self.core.scale, named, self.core.holds_mask, deterministic, mask)


@dataclass
class Gate:
    """Outcomes of checks on this machine, by site and backend: why it is refused, empty if it passes; its operators."""

    outcomes: dict[tuple[Hashable, str], tuple[str, str]] = field(default_factory=dict)

    def choose(self, site: AttentionSite) -> BackendChoice:
        """Return the first backend that passes at `site`, with its operator, and the refusals of those before it."""
        refused: dict[str, str] = {}
        while True:
            choice = choose(site.needs, site.device.type, refused)
            if choice.name == "eager":  # the reference itself
                return choice
            # The function is part of the key: if a backend is replaced, it is checked again.
            key = ((site.traits, BACKENDS[choice.name]), choice.name)
            if key not in self.outcomes:
                self.outcomes[key] = check(choice.name, site)
            refusal, operator = self.outcomes[key]
            if not refusal:
                return BackendChoice(choice.name, choice.reason, operator)
            refused[choice.name] = refusal


THIS_PROCESS = Gate()
"""A process stays on one machine with one set of versions, so outcomes are valid for its lifetime."""


def sites(model: nn.Module, forward: Callable[[], object]) -> dict[str, AttentionSite]:
    """Every attention of `model` that `forward` passes through, by the address of the part that holds it.

    The pass is in evaluation mode with gradients, draws nothing, changes no running state and computes no attention.
    """
    cores = {name: module for name, module in model.named_modules() if isinstance(module, Attend)}
    if not cores:
        return {}
    passed: dict[str, AttentionSite] = {}
    training = {module: module.training for module in model.modules()}
    model.eval()
    try:
        for name, core in cores.items():
            core.observer = partial(_note, passed, name.rpartition(".")[0], core)
        with torch.enable_grad():
            forward()
    finally:
        for core in cores.values():
            core.observer = None
        for module, was_training in training.items():
            module.training = was_training
    return passed


def _note(passed: dict[str, AttentionSite], address: str, core: Attend, q: Tensor, k: Tensor, v: Tensor) -> None:
    rule = core.rule
    mask = None if rule is None else rule.of_one()
    passed[address] = AttentionSite(core, core.needs(q, k, v), q.shape[1], q.shape[2], k.shape[2], q.device, mask)


def check(kernel: str, site: AttentionSite) -> tuple[str, str]:
    """The reason why the backend fails at `site`, empty if it passes; and the operators that it ran, if it names them.

    The caller's parameters, gradients and random numbers do not change. Running out of memory is raised, since it says
    nothing about the backend. RefusedError if the device is lost by the attempt.
    """
    case = _draw(site)
    operator = ""
    if kernel == "xformers":
        dispatched = dispatch_xformers(
            case.q, case.k, case.v, causal=site.needs.causal, scale=site.core.scale, bias=case.bias
        )
        if site.needs.dropout and not dispatched.refusal:
            options: dict[str, Any] = {"causal": site.needs.causal, "scale": site.core.scale, "bias": case.bias}
            dispatched = dispatch_xformers(case.q, case.k, case.v, dropout=site.core.dropout, **options)
        if dispatched.refusal:
            return dispatched.refusal, ""
        operator = dispatched.operators
    cuda = [site.device] if site.device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda), torch.enable_grad(), as_given(site.device.type):
        try:
            off = _off(kernel, site, case)
        except Exception as error:
            if isinstance(error, MemoryError) or any(text in str(error) for text in NO_MEMORY):
                raise
            message = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            if site.device.type == "cuda" and any(text in str(error) for text in LOST):
                raise RefusedError(
                    f"the GPU was lost while the attention backend {kernel} was tested on it: {message}\n"
                    "  = uninstall what does not fit this GPU (xformers for xformers, triton for flex), and run again"
                ) from error
            return f"{kernel} fails here ({message})", operator
    return f"{kernel} gives wrong numbers here ({off})" if off else "", operator


class _Case(NamedTuple):
    q: Tensor
    k: Tensor
    v: Tensor
    direction: Tensor
    bias: Tensor | None
    sink: Tensor | None = None

    @property
    def wanted(self) -> dict[str, Tensor]:
        named = {"q": self.q, "k": self.k, "v": self.v, "bias": self.bias, "sink": self.sink}
        return {name: x for name, x in named.items() if x is not None and x.requires_grad}


def _draw(site: AttentionSite) -> _Case:
    core, needs = site.core, site.needs
    d_head = needs.d_head or 1
    dtype = getattr(torch, needs.dtype)
    generator = torch.Generator().manual_seed(0)
    # Scores of the standard deviation SPREAD, whatever their scale.
    size = math.sqrt(SPREAD / (abs(core.scale) * math.sqrt(d_head))) if core.scale else 1.0

    def drawn(tokens: int, times: float) -> Tensor:
        # Heads after time in memory, as a projection returns them.
        numbers = torch.randn(1, tokens, site.heads, d_head, generator=generator, dtype=torch.float32)
        return (times * numbers).to(site.device, dtype).transpose(1, 2)

    q, k, v = drawn(site.queries, size), drawn(site.keys, size), drawn(site.keys, 1.0)
    direction = drawn(site.queries, 1.0)
    heads = max(1, min(site.heads, ROOM // (8 * COPIES * site.queries * site.keys)))
    bias = _bias(site, q, k, generator, heads)
    q, k, v, direction = (x[:, :heads] for x in (q, k, v, direction))
    if needs.gradient:
        q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
    return _Case(q, k, v, direction, bias, _sink(site, generator, heads))


def _bias(site: AttentionSite, q: Tensor, k: Tensor, generator: torch.Generator, heads: int) -> Tensor | None:
    """The attention's own bias plus noise: a learned one starts at 0, where ignoring it would pass."""
    with torch.no_grad(), as_given(site.device.type):
        own = site.core.bias(q, k)
        if own is None:
            return None
        own = own[:, :heads] if own.shape[1] > 1 else own
        noise = torch.randn(own.shape[-2:], generator=generator, dtype=torch.float32)
        bias = own + noise.to(own)
    return bias.requires_grad_(site.needs.bias_gradient)


def _sink(site: AttentionSite, generator: torch.Generator, heads: int) -> Tensor | None:
    """Random logits in the dtype of the attention's own, as far apart as its scores."""
    own = site.core.logits_of_sink
    if own is None:
        return None
    numbers = torch.randn(heads, 1, generator=generator, dtype=torch.float32)[:, 0]
    return (SPREAD * numbers).to(own).detach().requires_grad_(site.needs.gradient)


def _off(kernel: str, site: AttentionSite, case: _Case) -> str:
    """Describe where the backend's numbers are off; empty if nowhere."""
    core, needs = site.core, site.needs
    options: dict[str, Any] = {"causal": needs.causal, "scale": core.scale, "logits": core.logits}
    options |= {"bias": case.bias, "kernel": kernel, "mask": site.mask, "sink": case.sink, "padding": _padding(site)}
    result = attend(case.q, case.k, case.v, **options, holds_mask=core.holds_mask)
    gradients = _gradients(result, case) if needs.gradient else {}
    exact = _reference(site, case, gradients)
    of_output, of_gradients = _Tolerance(site, FORWARD, 0.0), _Tolerance(site, BACKWARD, 0.25)
    size = _sizes(site, case)
    off = of_output.exceeded("its output", result, exact, size["v"])
    for name, (gradient, place) in gradients.items():
        off = off or of_gradients.exceeded(f"the gradient of {name}", gradient, place, size[f"gradient of {name}"])
    if off:
        return off
    if needs.dropout:
        again = attend(case.q, case.k, case.v, **options, dropout=core.dropout, holds_mask=core.holds_mask)
        drawn = [again, *(x for x, _ in (_gradients(again, case) if needs.gradient else {}).values())]
        if not all(bool(x.isfinite().all()) for x in drawn):
            return "not finite with dropout"
    return ""


def _gradients(result: Tensor, case: _Case) -> dict[str, tuple[Tensor, Tensor]]:
    """For each input that needs one, its gradient and zeros of the same shape for the exact one."""
    actual = torch.autograd.grad(result, list(case.wanted.values()), case.direction.to(result), materialize_grads=True)
    return {
        name: (x, torch.zeros(x.shape, dtype=torch.float64, device=x.device))
        for name, x in zip(case.wanted, actual, strict=True)
    }


def _reference(site: AttentionSite, case: _Case, gradients: Mapping[str, tuple[Tensor, Tensor]]) -> Tensor:
    """The output in float64, some queries at a time; the gradients are added to their places."""
    exact = []
    for rows in _rows(site, case):
        parts = {name: x.detach().double() for name, x in (("q", case.q[:, :, rows]), ("k", case.k), ("v", case.v))}
        if case.bias is not None:
            parts["bias"] = case.bias.detach()[..., rows, :].double()
        if case.sink is not None:
            parts["sink"] = case.sink.detach().double()
        for name in gradients:
            parts[name].requires_grad_()
        options: dict[str, Any] = {"causal": site.needs.causal, "scale": site.core.scale, "logits": site.core.logits}
        size = {"n_queries": rows.stop - rows.start, "n_keys": site.keys, "first": rows.start}
        pairs = seen_pairs(site.mask, _padding(site), causal=site.needs.causal, device=site.device, **size)
        seen = None if pairs is None else pairs.keys
        logits = scores(parts["q"], parts["k"], bias=parts.get("bias"), first=rows.start, seen=seen, **options)
        if "sink" in parts:
            of_sink = parts["sink"][:, None, None].expand(*logits.shape[:-1], 1)
            weights = torch.softmax(torch.cat([logits, of_sink], dim=-1), dim=-1)[..., :-1]
        else:
            weights = torch.softmax(logits, dim=-1)
        result = weights @ parts["v"]
        exact.append(result.detach())
        if not gradients:
            continue
        direction = case.direction[:, :, rows].to(result)
        computed = torch.autograd.grad(result, [parts[name] for name in gradients], direction, materialize_grads=True)
        for (name, (_, place)), gradient in zip(gradients.items(), computed, strict=True):
            (place[..., rows, :] if name in ("q", "bias") else place).add_(gradient)
    return torch.cat(exact, dim=-2)


def _padding(site: AttentionSite) -> Tensor | None:
    """Padding of the last quarter of the keys, if the attention has any."""
    if not site.needs.padding:
        return None
    return torch.arange(site.keys, device=site.device)[None] < site.keys - site.keys // 4


def _rows(site: AttentionSite, case: _Case) -> Iterator[slice]:
    step = max(1, ROOM // (8 * COPIES * case.q.shape[1] * site.keys))
    for first in range(0, site.queries, step):
        yield slice(first, min(first + step, site.queries))


def _sizes(site: AttentionSite, case: _Case) -> dict[str, float]:
    """n: the norm of a row of values, and of the terms summed in a row of each gradient."""
    q, k, v, direction = (float(x.detach().double().square().sum(-1).mean().sqrt()) for x in case[:4])
    of_weight = direction * v / math.sqrt(case.v.shape[-1])
    of_score = abs(site.core.scale) * of_weight
    gradients = {"q": of_score * k, "k": of_score * q, "v": direction, "bias": of_weight}
    gradients["sink"] = of_weight * math.sqrt(site.queries)  # a sum over the queries
    return {"v": v} | {f"gradient of {name}": size for name, size in gradients.items()}


@dataclass(frozen=True, slots=True)
class _Tolerance:
    """The tolerance of a row at `site`; `c` as above, and `d` in units of u."""

    site: AttentionSite
    c: float
    d: float

    def exceeded(self, what: str, actual: Tensor, exact: Float[Tensor, "... N K"], size: float) -> str:
        """The excess in words; empty if every row is close enough."""
        if not bool(actual.isfinite().all()):
            return f"{what} is not finite"
        u, a = rounding(self.site, actual.dtype)
        norms = exact.norm(dim=-1)
        mean = norms.square().mean().sqrt()
        off = (actual.detach().double() - exact).norm(dim=-1)
        # Where everything is 0, `actual` must be 0 too, up to the smallest representable numbers.
        limit = self.c * ((u + a) * (norms + mean) + (a + self.d * u) * size) + torch.finfo(actual.dtype).tiny
        if bool((off <= limit).all()):
            return ""
        return f"{what} is off by {float((off / limit).max()):.3g} times what rounding allows"


def rounding(site: AttentionSite, dtype: torch.dtype) -> tuple[float, float]:
    """u of the dtype that the site computes in, or of `dtype` if that is coarser, and a."""
    u, given = (2.0 ** -BITS[name] for name in (site.needs.dtype, str(dtype).removeprefix("torch.")))
    sums = max(u if site.needs.dtype == "float64" else 2.0**-24, min(given, 2.0**-24))
    return max(u, given), sums * math.sqrt((site.needs.d_head or 1) + site.keys) * LARGEST


BITS = {"bfloat16": 8, "float16": 11, "float32": 24, "float64": 53}
"""Bits of the significand, the leading one included."""


def _name(function: object) -> str:
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__qualname__)}"
