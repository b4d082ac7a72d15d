"""How a component declares itself: the names that every component file starts from.

A component file has two halves. The head declares: name, slot, source, fields and closed-form cost, without torch, so
that checking and planning stay quick. Below the first import of torch stands the `nn.Module` that does it.

    @component("rms_norm", slots=("part", "norm"), source="Zhang & Sennrich 2019, arXiv:1910.07467")
    class Config:
        eps: float = number(at_least=0)

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
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, dataclass_transform

from ablate.block.catalogue import (
    Arithmetic,
    Branches,
    ComponentSpec,
    Flag,
    GainField,
    Number,
    Part,
    Parts,
    Sequenced,
    Transparent,
    Width,
    Word,
)
from ablate.block.sizes import Sizes

__all__ = [
    "Cost",
    "Maker",
    "Sizes",
    "arithmetic",
    "branches",
    "component",
    "flag",
    "scaling",
    "implements",
    "module_of",
    "number",
    "part",
    "parts",
    "sequence",
    "width",
    "word",
]

Maker = Callable[..., Any]
"""Makes the thing in a slot: a Cost when costs are asked, an nn.Module when a model is built."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Cost:
    """`parameters` trained, and `flops` of matrix products in one forward pass over one sequence of seq_len tokens.

    A product of [m, k] and [k, n] counts 2·m·k·n; norms, activations and softmax count nothing; causal attention is
    counted in full. This is the convention of `torch.utils.flop_counter`, against which it is tested.
    """

    parameters: int = 0
    flops: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.parameters + other.parameters, self.flops + other.flops)


def number(
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    above: float | None = None,
    below: float | None = None,
) -> Any:
    """A real number within bounds."""
    return _declared(Number(at_least, at_most, above, below))


def flag() -> Any:
    """true or false."""
    return _declared(Flag())


def word(*choices: str) -> Any:
    """One of a few words."""
    return _declared(Word(choices))


def arithmetic() -> Any:
    """A fixed number or an expression in the model's sizes; the config holds its float."""
    return _declared(Arithmetic())


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


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(dataclasses.field,))
def component(
    name: str,
    *,
    slots: tuple[str, ...],
    source: str,
    role: str | None = None,
    modifier: bool = False,
    shorthand: str | None = None,
    transparent: Transparent | None = None,
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
            stage=stage,
        )
        config.spec = spec  # type: ignore[attr-defined]
        return config

    return declare


def implements(config: Any) -> Callable[[type[T]], type[T]]:
    """Say which declaration a module class carries out."""

    def bind(cls: type[T]) -> type[T]:
        config.implementation = cls
        return cls

    return bind


def module_of(config: Any) -> Any:
    """The class bound to a declaration by `implements`; KeyError-like AttributeError if its file binds none."""
    return config.implementation
