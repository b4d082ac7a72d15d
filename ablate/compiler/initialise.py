"""Initialisation: every parameter from a random stream of its own, seeded by its address.

Two models with the same seed share the numbers of every parameter that has the same address and shape in both, so
variants are paired. Numbers are drawn in float64 on the CPU, then rounded to the dtype and moved to the device.

A weight may start from the numbers of others (as the inverse of the one beside it): these are drawn again in float64,
and once the model is filled, it is checked that the others were indeed filled by the same scheme.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

import torch
from numpy import random as numpy_random
from torch import Tensor, nn

from ablate.compiler.values import running_ahead
from ablate.components.declare import Profiled
from ablate.errors import InputError

# Random streams: code that names no generator draws from one with a seed of its own.
#
# The numbers of `nn.Linear`, `nn.Dropout` or `np.random` would depend on whatever ran before. So code whose numbers
# matter runs on streams of its own, and the process then continues as if nothing had been drawn, as in `with
# seeded(stream_seed(seed, salt, "layers.1.attention.query")): nn.Linear(16, 16)`.
#
# This covers PyTorch's generators (of the CPU, and of the current GPU once CUDA is in use), Python's and NumPy's. A
# generator that code creates itself without a seed, as by `np.random.default_rng()`, is out of reach.


def stream_seed(seed: int, salt: int, address: str) -> int:
    """The seed of the random numbers of an address; PyTorch's CPU generator keeps 32 bits of a seed."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{salt}/{address}".encode()).digest()[:4], "big")


_spare_generators: list[numpy_random.MT19937] = []
"""NumPy generators not in use: creating one takes a hundred times as long as seeding it."""


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Run with the generators of the process at `seed`; afterwards they continue from their previous state.

    NumPy's keeps its state, except for the second of a pair of normal numbers that it had drawn in advance.
    """
    before, python = TorchStreams.here(), random.getstate()
    numpy = numpy_random.get_bit_generator()  # type: ignore[attr-defined]
    ours = _spare_generators.pop() if _spare_generators else numpy_random.MT19937()
    torch.default_generator.manual_seed(seed)
    if before.cuda is not None:
        torch.cuda.manual_seed(seed)
    random.seed(seed)
    numpy_random.set_bit_generator(ours)  # type: ignore[attr-defined]
    numpy_random.seed(seed % 2**32)
    try:
        yield
    finally:
        before.go_on()
        random.setstate(python)
        numpy_random.set_bit_generator(numpy)  # type: ignore[attr-defined]
        _spare_generators.append(ours)


@dataclass(frozen=True, slots=True)
class TorchStreams:
    """The states of PyTorch's generators, including that of the current GPU; None if CUDA is not in use."""

    cpu: Tensor
    cuda: Tensor | None

    @staticmethod
    def here() -> TorchStreams:
        cuda = torch.cuda.get_rng_state() if torch.cuda.is_initialized() else None  # type: ignore[no-untyped-call]
        return TorchStreams(torch.get_rng_state(), cuda)

    def go_on(self) -> None:
        torch.set_rng_state(self.cpu)
        if self.cuda is not None:
            torch.cuda.set_rng_state(self.cuda)


class TrainingStreams:
    """The random streams of one trial's training, used by nothing else: masks of dropout, and draws of its components.

    PyTorch's generators continue from step to step (`torch` holds their states). Python's and NumPy's are reseeded at
    each step from the seed and the step's name, so no checkpoint needs them.
    """

    def __init__(self, seed: int):
        self.seed = seed
        with seeded(seed):
            self.torch = TorchStreams.here()

    def resume(self, cpu: Tensor, cuda: Tensor | None) -> None:
        """Continue from states of PyTorch's generators; RuntimeError or TypeError for anything else."""
        with seeded(self.seed):
            TorchStreams(cpu, cuda).go_on()
            self.torch = TorchStreams.here()

    @contextmanager
    def during(self, step: str) -> Iterator[None]:
        with seeded(stream_seed(self.seed, 0, step)):
            self.torch.go_on()
            try:
                yield
            finally:
                self.torch = TorchStreams.here()


VERSION: Final = 1
"""The version of the numbers that parameters start from: see `plan/versions.py`."""


@runtime_checkable
class Init(Protocol):
    """The scheme that a component of the slot `init` implements."""

    def fill(self, tensor: Tensor, d_in: int, d_out: int, generator: torch.Generator) -> None:
        """Fill [d_out, d_in] in place."""


@runtime_checkable
class InitAfter(Protocol):
    """The alternative to `Init`, for numbers that follow from those of other weights."""

    def fill_after(self, tensor: Tensor, d_in: int, d_out: int, draw: Any, name: str) -> None:
        """Fill [d_out, d_in] in place; `draw` has the address of the module, and gives the numbers of others."""


@runtime_checkable
class Initialised(Protocol):
    """A module with parameters that do not start at the constants it was constructed with."""

    def initialise(self, draw: Any) -> None:
        """Fill each of them by `draw`, under its name in the module."""


Name: TypeAlias = tuple[str, str]  # the address of a module, and the name of one of its weights


@dataclass(frozen=True, slots=True)
class Numbers:
    """A request for the numbers of a weight [d_out, d_in]: the scheme that fills it, and its shape."""

    scheme: Init | InitAfter
    d_in: int
    d_out: int


@dataclass(frozen=True, slots=True)
class Draw:
    """Fills the parameters of the module at `address`, by `scheme` where they name none of their own.

    `drawn` are the weights filled so far, `presumed` those from whose numbers another weight was computed.
    """

    seed: int
    salt: int
    scheme: Init | InitAfter
    address: str = ""
    drawn: dict[Name, Numbers] = field(default_factory=dict)
    presumed: dict[Name, Numbers] = field(default_factory=dict)

    def weight(self, name: str, parameter: Tensor, scheme: Init | InitAfter | None, *, d_in: int, d_out: int) -> None:
        """Fill a matrix by `scheme`, or by the model's if that is None."""
        request = Numbers(scheme or self.scheme, d_in, d_out)
        self._give(parameter, self._made(name, request))
        self.drawn[self.address, name] = request

    def normal(self, name: str, parameter: Tensor, std: float) -> None:
        """Fill with independent normal numbers of standard deviation `std`."""
        numbers = torch.zeros(parameter.shape, dtype=torch.float64)
        self._give(parameter, numbers.normal_(0.0, std, generator=self.stream(name)))

    def at(self, address: str) -> Draw:
        return replace(self, address=address)

    def numbers(self, name: str, scheme: Init | InitAfter, *, d_in: int, d_out: int) -> Tensor:
        """The numbers, [d_out, d_in] in float64, that `scheme` gives a weight here: presumed, later checked."""
        request = Numbers(scheme, d_in, d_out)
        self.presumed[self.address, name] = request
        return self._made(name, request)

    def stream(self, name: str) -> torch.Generator:
        address = f"{self.address}.{name}".lstrip(".")
        return torch.Generator().manual_seed(stream_seed(self.seed, self.salt, address))

    def check(self) -> None:
        """Raise InputError if a weight of this module starts from numbers other than those another weight presumed."""
        for (address, name), presumed in list(self.presumed.items()):
            inside = not self.address or address.startswith(f"{self.address}.")
            there = self.drawn.get((address, name))
            if inside and (there is None or not self.at(address)._same(name, presumed, there)):
                raise InputError(
                    f"a weight is computed from the initial numbers of {address}, which starts from other numbers\n"
                    "  = give the same init in both places"
                )

    def _same(self, name: str, presumed: Numbers, actual: Numbers) -> bool:
        if presumed.scheme is actual.scheme:
            return True
        return (presumed.d_in, presumed.d_out) == (actual.d_in, actual.d_out) and torch.equal(
            self._made(name, presumed), self._made(name, actual)
        )

    def _made(self, name: str, request: Numbers) -> Tensor:
        numbers = torch.zeros(request.d_out, request.d_in, dtype=torch.float64)
        if isinstance(request.scheme, InitAfter):
            request.scheme.fill_after(numbers, request.d_in, request.d_out, self, name)
        else:
            request.scheme.fill(numbers, request.d_in, request.d_out, self.stream(name))
        return numbers

    @staticmethod
    def _give(parameter: Tensor, numbers: Tensor) -> None:
        with torch.no_grad():
            parameter.copy_(numbers)


def initialise(model: nn.Module, draw: Draw, sources: Mapping[str, str] | None = None) -> None:
    """Fill every parameter of `model`, whose own address is that of `draw`.

    `sources` are the addresses of modules that start from the numbers of other ones, and those of the others. Raises
    InputError if a weight was computed from numbers of another that does not start from them.
    """
    instead: dict[str, str] = {}
    for name, module in model.named_modules():
        if own := in_its_place(module):
            instead[f"{name}.{own}"] = _address(name, instead)
        if isinstance(module, Initialised):
            own_address = f"{draw.address}.{_address(name, instead)}".strip(".")
            here = draw.at(_source(own_address, sources or {}))
            with seeded(stream_seed(draw.seed, draw.salt, f"{here.address} initialised")):
                module.initialise(here)
    draw.check()


def in_its_place(module: object) -> str:
    """The slot of a module, or class, whose weight has the numbers it would have alone there (`blend`); or nothing."""
    return str(getattr(module, "in_its_place", ""))


def _address(name: str, instead: Mapping[str, str]) -> str:
    """The address of a module in the model, without the words of slots that stand for what they are in."""
    for end in range(len(name), 0, -1):
        if (end == len(name) or name[end] == ".") and name[:end] in instead:
            return instead[name[:end]] + name[end:]
    return name


def _source(address: str, sources: Mapping[str, str]) -> str:
    """The address whose numbers a module starts from: its own, unless it is inside one with a source."""
    inside = (module for module in sources if address.startswith(f"{module}."))
    return next((f"{sources[module]}{address.removeprefix(module)}" for module in inside), address)


# Profile: initialisation from data, for the few components that declare it.
#
# A model without such components is left alone: no pass, no cost. Otherwise its initial values depend on a declared
# batch, which is part of the trial: the first batch of its seed, on which the model then trains.


@torch.no_grad()
def profile(model: nn.Module, inputs: Tensor | tuple[Tensor, ...]) -> None:
    """Calibrate, in place, the modules of `model` that are `Profiled`, by one forward pass over a batch's `inputs`.

    The pass is in evaluation mode, on random numbers that are the same for every model, and changes nothing else. Each
    module is calibrated from the measurements of the earlier modules of its class. A second profile would give another
    result, since it starts from calibrated modules: a resumed trial takes them from its checkpoint.
    """
    if not any(isinstance(module, Profiled) for module in model.modules()):
        return
    shown: list[tuple[Profiled, Any]] = []
    training = {module: module.training for module in model.modules()}

    def look(module: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        shown.append((module, module.measure(inputs[0], output)))

    with seeded(stream_seed(0, 0, "profile")):
        with ExitStack() as attached:
            for module in model.modules():
                if isinstance(module, Profiled):
                    attached.callback(module.register_forward_hook(look).remove)
            model.eval()
            try:
                with running_ahead(model):
                    model(*((inputs,) if isinstance(inputs, Tensor) else inputs))
            finally:
                for module, was_training in training.items():
                    module.training = was_training
        for place, (asking, _) in enumerate(shown):
            asking.calibrate([measured for other, measured in shown[:place] if type(other) is type(asking)])
