"""Named blocks beside what their papers say of them: the output, and what every parameter starts from."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from builders import CATALOGUE
from paper_equations import Array, Place, Weights
from paper_starts import Start
from reading import DEPTHS, transformer
from torch import nn

from ablate.api import read_init
from ablate.block.expression import Block, Node, Sequence
from ablate.block.sizes import Sizes
from ablate.compiler import compile_block

TOLERANCE = 1e-9
GPT2 = "normal: {std: 0.02}"


@dataclass(frozen=True)
class Written:
    """A named block as its paper writes it.

    `output` is its equation; `starts` what each trained number starts from, by address; `init` the model's own init, as
    the paper has it.
    """

    output: Callable[[Array, Weights, Place], Array]
    starts: Callable[[Place], Mapping[str, Start]]
    init: str = GPT2


def with_fields(block: Block, **changes: Any) -> Block:
    """The block with fields of every component that has them changed: eps=0.0, activation=…"""

    def at(value: Any) -> Any:
        match value:
            case Node():
                own = {name: changes[name] for name, _ in value.fields if name in changes}
                return Node(value.name, tuple((n, own.get(n, at(child))) for n, child in value.fields))
            case Sequence():
                return Sequence(tuple(at(child) for child in value))
            case tuple():
                return tuple(at(child) for child in value)
        return value

    changed: Block = at(block)
    return changed


def depth_of(name: str) -> int:
    return DEPTHS.get(name, 6)


def layers_of(depth: int) -> tuple[int, ...]:
    """The first two and the last."""
    return (1, 2, depth)


def sizes_of(depth: int, width: int = 16) -> Sizes:
    return Sizes(n_layers=depth, d_model=width, n_heads=4, seq_len=10, vocab_size=11)


def place_of(sizes: Sizes, layer: int) -> Place:
    return Place(
        layer=layer, depth=sizes.n_layers, width=sizes.d_model, heads=sizes.n_heads, vocabulary=sizes.vocab_size
    )


def block_at(block: Block, sizes: Sizes, layer: int, init: str) -> nn.Module:
    """The block in float64, as it starts, without dropout."""
    scheme = read_init(init, CATALOGUE)
    return compile_block(block, sizes, CATALOGUE, init=scheme, layer=layer, seed=3, dtype=torch.float64).eval()


@functools.cache
def started(name: str, layer: int, init: str = GPT2) -> nn.Module:
    """The named block as it starts, wide enough for statistics; not to be changed."""
    return block_at(transformer().block(name), sizes_of(depth_of(name), 64), layer, init)


def disturb(module: nn.Module, seed: int) -> None:
    """Add random numbers to every parameter, so that none is at a value that hides it."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)


@functools.cache
def disturbed(block: Block, depth: int, layer: int, init: str) -> nn.Module:
    """The block with every parameter disturbed; not to be changed."""
    module = block_at(block, sizes_of(depth), layer, init)
    disturb(module, layer)
    return module


def numbers_of(module: nn.Module) -> dict[str, Array]:
    """Trained or not, by address."""
    return {name: value.detach().numpy() for name, value in module.state_dict().items()}


SIGNALS = tuple(size * np.random.default_rng(0).normal(size=(2, 10, 16)) for size in (0.3, 10.0))
"""Tokens so small that an epsilon of 1e-8 is seen, and so large that scores reach what bounds them."""


def through(module: nn.Module, x: Array) -> Array:
    with torch.no_grad():
        return np.asarray(module(torch.from_numpy(x)).numpy())


def error(ours: Array, theirs: Array) -> float:
    """The largest difference, relative to the largest number."""
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


def largest_error(block: Block, written: Written, depth: int) -> float:
    """Of the block's layers, each alone and all in a row; KeyError where the equation leaves a number unused."""
    return max(value for x in SIGNALS for value in errors(block, written, depth, x))


def errors(block: Block, written: Written, depth: int, x: Array) -> Iterator[float]:
    """Of each layer on `x`, and on what the layers before it make of `x`."""
    ours = theirs = x
    for layer in layers_of(depth):
        module, place = disturbed(block, depth, layer, written.init), place_of(sizes_of(depth), layer)
        weights = Weights(numbers_of(module))
        wanted = written.output(x, weights, place)
        if unused := set(weights) - weights.used:
            raise KeyError(f"the equation does not use {sorted(unused)} in layer {layer}")
        yield error(through(module, x), wanted)
        ours, theirs = through(module, ours), written.output(theirs, weights, place)
        yield error(ours, theirs)


def wrong_starts(name: str, written: Written) -> list[str]:
    """What does not start from what the paper says, in each of the block's layers; and what only one of them has."""
    wrong = []
    for layer in layers_of(depth_of(name)):
        module = started(name, layer, written.init)
        trained = {address: value.detach().numpy() for address, value in module.named_parameters()}
        starts = written.starts(place_of(sizes_of(depth_of(name), 64), layer))
        wrong += [f"{layer}.{address}" for address in sorted(set(trained) ^ set(starts))]
        wrong += [
            f"{layer}.{address}: not {starts[address].says}"
            for address in sorted(set(trained) & set(starts))
            if not starts[address].holds(trained[address])
        ]
    return wrong


def is_written(name: str, written: Written) -> bool:
    """Whether the named block is what is written, in output and starts."""
    block, depth, equation = transformer().block(name), depth_of(name), replace(written, init=GPT2)
    try:
        found = (value for x in SIGNALS for value in errors(block, equation, depth, x))
        same_output = all(value < TOLERANCE for value in found)
    except (KeyError, ValueError):  # one has numbers that the other has not, or there is no such thing at this depth
        return False
    return same_output and not wrong_starts(name, written)


def gradients(block: Block, layer: int = 2) -> dict[str, torch.Tensor]:
    """Of a random direction of the output, by address, at weights of 0.5 where they name no init of their own."""
    module = block_at(block, sizes_of(6), layer, "normal: {std: 0.5}")
    x, direction = torch.randn(2, 2, 10, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    (module(x) * direction).sum().backward()
    return {name: parameter.grad for name, parameter in module.named_parameters() if parameter.grad is not None}
