"""How a component declares itself: the names that every component file starts from.

A component file has two halves. The head declares: name, slot, source, fields and closed-form cost, without torch, so
that checking and planning stay quick. Below the first import of torch stands the `nn.Module` that does it.

    @component("rms_norm", slots=("part", "norm"), source="Zhang & Sennrich 2019, arXiv:1910.07467")
    class Config:
        eps: float = number(at_least=0.0)

        def cost(self, sizes: Sizes, width: int | None = None) -> Cost:
            return Cost(parameters=width or sizes.d_model)

    import torch
    from torch import nn

    @implements(Config)
    class RMSNorm(nn.Module):
        def __init__(self, config: Config, sizes: Sizes, width: int | None = None): ...

A `Config` holds one value for each field. Numbers, flags and words are themselves. A gain, a slot or a sequence is a
*maker*: called with the widths it should have, it gives a `Cost` to `cost` and a module to the constructor, so the two
read alike and no component imports another. An empty slot is None.

`cost(sizes, …)` and the constructor `(config, sizes, …)` end with the widths that the slot is filled with:

    slot          widths        the module maps                        besides
    part                        [B, T, D] -> [B, T, D]
    norm          width         [..., width] -> [..., width]           without a width: the model's
    weight        d_in, d_out   [..., d_in] -> [..., d_out]            initialise(draw)
    activation                  elementwise
    entropy       d_head        on_queries_keys(q, k) -> (q, k), on_logits(scores) -> scores, or both; on_weights(…)
    position      d_head        (q, k) -> (q, k), each [B, H, T, K]
    bias          d_head        bias(q, k, scale) -> [1 or B, 1 or H, T, S], added to the scores
    matrix        d_head        (attend, q, k, v) -> [B, H, T, K]; may have a bias(q, k, scale) too
    init                        fill(tensor, d_in, d_out, generator); no module, no parameters

`sizes.layer` is the layer (from 1) that the component stands in, None outside the blocks. A maker of a part has
`.config`, the declaration of what it makes. An activation's gives, torch-free and in float64 arrays, its
`curve(x)` -> (f, f', f''), and its `kinks` where it has any: the inputs at which f' jumps.

A matrix that may leave attention out says in its Config whether it `attends`, and one that asks for C v
(`attend.uniform`) that it is `centred`: attention counts its products by them.

A sequence is made as a plain callable, [B, T, D] -> [B, T, D], never as an `nn.Module`: each part is registered once,
on the block, under its own address, and a combinator only holds on to what it calls.

**Initialisation.** A module constructs its parameters at their constants (ones, zeros) where they start at one. A
module with parameters that start elsewhere implements `initialise(draw)` and hands each to `draw.weight`, under its
name, with its scheme (None: the model's). The random numbers depend on the seed and the parameter's address alone, so
two models that share an address and a shape there share those numbers, whatever else differs between them. An init
whose numbers follow from those of other weights implements `fill_after(tensor, d_in, d_out, draw, name)` instead.

What PyTorch's own layers draw for themselves (`nn.Linear`, `nn.Embedding`, `torch.randn` in a constructor, `nn.init`
in `initialise`) is as certain, and keeps PyTorch's own scheme, not the model's `init`: each part is constructed on the
CPU, on a random stream that begins at the seed of its address, in PyTorch's default type (float32), then rounded and
moved like the rest. Two models that share a part's address share its numbers in the order in which it draws them, so
one whose first layer has another width shares none of those behind it; `draw.weight` pairs each parameter for itself.
Masks of dropout, and what else is drawn while training, come from the trial's own stream, which a checkpoint holds.

A module whose parameters start from data is `Profiled`: it is shown one forward pass over the trial's first batch.

**Rates.** A module whose parameters learn at another rate has `rates`, from their names in it to multiples of the rate.

**Equation.** Each Config says itself as text, with makers that give text, so `ablate show` prints a whole block:

    part, norm, activation   equation(x)       "RMSNorm(x)"; `details()` gives the lines that define an attention or MLP
    weight                   equation(x, w)    "x W", with `w` the weight's symbol: "W^Q"
    entropy                  equation(x)       of queries and keys, or of the scores, by what it acts on
    position                 equation(x)       of queries and keys
    bias                     equation()        the entry for query i and key j: "-m_h (i - j)"
    matrix                   equation(a)       "α I + β A - γ C", with `a` the softmax's symbol

`details()` gives the lines that define what the equation names, the function itself first: "RMSNorm(x) = x / √(…)". A
gain called with a width gives its number or its letter, which is then said below: `weighted(config.gain, term)` of
`block/notation.py` leaves out a factor of 1 and a term of 0. A component without `equation` is shown as name(x).
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ablate.block.catalogue import (
    Arithmetic,
    Branches,
    ComponentSpec,
    Flag,
    GainField,
    Number,
    Part,
    Parts,
    Same,
    Sequenced,
    Transparent,
    Width,
    Word,
)
from ablate.block.cost import Cost
from ablate.block.fill import GainMaker, Maker
from ablate.block.sizes import Sizes
from ablate.components.protocols import (
    Draw,
    GivesBias,
    Profiled,
    RegulatesLogits,
    RegulatesQueriesKeys,
    RegulatesWeights,
)

__all__ = [
    "Cost",
    "Draw",
    "GainMaker",
    "GivesBias",
    "Maker",
    "Profiled",
    "RegulatesLogits",
    "RegulatesQueriesKeys",
    "RegulatesWeights",
    "Same",
    "Sizes",
    "Transparent",
    "arithmetic",
    "branches",
    "component",
    "flag",
    "implements",
    "module_of",
    "number",
    "part",
    "parts",
    "scaling",
    "sequence",
    "width",
    "word",
]

T = TypeVar("T")


def number(
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    above: float | None = None,
    below: float | None = None,
    whole: bool = False,
) -> Any:
    """A real number within bounds; the config holds it as a float."""
    return _declared(Number(at_least, at_most, above, below, whole))


def flag() -> Any:
    """true or false."""
    return _declared(Flag())


def word(*choices: str) -> Any:
    """One of a few words."""
    return _declared(Word(choices))


def arithmetic(
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    above: float | None = None,
    below: float | None = None,
    whole: bool = False,
) -> Any:
    """A fixed number or an expression in the model's sizes, of a value within bounds; the config holds its float."""
    return _declared(Arithmetic(at_least, at_most, above, below, whole))


def scaling(*, per: tuple[str, ...] = ("scalar",)) -> Any:
    """A gain. The config holds a maker with `.value` (its fixed number, None if trainable): `config.gain(width)`."""
    return _declared(GainField(per))


def width() -> Any:
    """A width; the config holds it as an int."""
    return _declared(Width())


def part(slot: str, *, optional: bool = False) -> Any:
    """One component of `slot`; the config holds its maker, or None."""
    return _declared(Part(slot, optional))


def parts(slot: str) -> Any:
    """Components of `slot`; the config holds a tuple of (name, maker)."""
    return _declared(Parts(slot))


def sequence() -> Any:
    """A sequence of parts; the config holds one maker, called without widths."""
    return _declared(Sequenced())


def branches() -> Any:
    """Sequences side by side; the config holds a tuple of makers."""
    return _declared(Branches())


def _declared(kind: Any) -> Any:
    return dataclasses.field(metadata={"field": kind})


def component(
    name: str,
    *,
    slots: tuple[str, ...],
    source: str,
    role: str | None = None,
    modifier: bool = False,
    shorthand: str | None = None,
    transparent: Transparent | None = None,
    same: Same | None = None,
    stage: int = 0,
) -> Callable[[type[T]], type[T]]:
    """Declare a component; its file's docstring opens with the line that `ablate list components` shows."""

    def declare(cls: type[T]) -> type[T]:
        config = dataclass(frozen=True, kw_only=True)(cls)
        frame_globals = inspect.getmodule(cls).__dict__ if inspect.getmodule(cls) else {}
        document = inspect.cleandoc(frame_globals.get("__doc__") or cls.__doc__ or "")
        spec = ComponentSpec(
            name=name,
            slots=slots,
            role=role or name,
            modifier=modifier,
            fields={f.name: f.metadata["field"] for f in dataclasses.fields(config)},  # type: ignore[arg-type]
            summary=document.splitlines()[0] if document else "",
            source=source,
            config=config,
            path=Path(frame_globals.get("__file__", "")),
            shorthand=shorthand,
            transparent=transparent,
            same=same,
            stage=stage,
        )
        config.spec = spec  # type: ignore[attr-defined]
        return config

    return declare


def implements(config: Any) -> Callable[[type[T]], type[T]]:
    """Say which declaration a module class carries out; the class gets it as `Config`."""

    def bind(cls: type[T]) -> type[T]:
        config.implementation = cls
        cls.Config = config  # type: ignore[attr-defined]
        return cls

    return bind


def module_of(config: Any) -> Any:
    """The class bound to a declaration by `implements`; AttributeError if its file binds none."""
    return config.implementation
