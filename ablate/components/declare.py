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

`ablate docs component` gives the rest: the widths and the module of each slot, initialisation, losses, equations and
forecasts.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from ablate.block.catalogue import (
    BLOCK,
    EVERY_SLOT,
    STACK,
    Arithmetic,
    Branches,
    Chooses,
    ComponentSpec,
    Flag,
    GainField,
    InSlot,
    Layers,
    Number,
    Part,
    Parts,
    Same,
    Sequenced,
    Several,
    Transparent,
    ValueField,
    Width,
    Word,
)
from ablate.block.expression import Node, Value
from ablate.block.normal_form import fixed
from ablate.block.sizes import Cost, GainMaker, Maker, Sizes
from ablate.components.kept import Kept
from ablate.components.protocols import (
    AcrossRanks,
    ActsAfterStep,
    Draw,
    GivesBias,
    OffersLosses,
    Profiled,
    RegulatesLogits,
    RegulatesQueriesKeys,
    RegulatesWeights,
    WatchesLogits,
)
from ablate.extension.declaration import (
    COMPONENT,
    WORD,
    DeclarationError,
    DeclarationFault,
    common_faults,
    implements,
    place_of,
)
from ablate.signal.network_shaping import Mixing
from ablate.source.problems import suggest

if TYPE_CHECKING:
    from ablate.signal.propagation import Signal
else:  # with NumPy, which planning does not load to see what is declared
    Signal = Any

__all__ = [
    "AcrossRanks",
    "ActsAfterStep",
    "Cost",
    "DeclarationError",
    "DeclarationFault",
    "Draw",
    "GainMaker",
    "GivesBias",
    "Kept",
    "Maker",
    "Mixing",
    "Node",
    "OffersLosses",
    "Profiled",
    "RegulatesLogits",
    "RegulatesQueriesKeys",
    "RegulatesWeights",
    "Same",
    "Signal",
    "Sizes",
    "Transparent",
    "Value",
    "WatchesLogits",
    "alternative",
    "alternatives",
    "arithmetic",
    "branches",
    "component",
    "earlier",
    "fixed",
    "flag",
    "implements",
    "layers",
    "network",
    "number",
    "own_size",
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


def network(**stack: str) -> Any:
    """The network that an activation is solved for: a `stack`, which these fields describe, or the model's own `block`.

    The config holds None for a stack, and for a block its `OwnNetwork` (`block/network.py`). Beside `block` those
    fields have the values that are given here: whoever writes another one is told that it has no effect.
    """
    return _declared(Word((STACK, BLOCK), tuple(stack.items())))


def arithmetic(
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    above: float | None = None,
    below: float | None = None,
    whole: bool = False,
    optional: bool = False,
) -> Any:
    """A fixed number or an expression in the model's sizes, of a value within bounds; the config holds its float.

    It may be `none` where `optional`; the config then holds None.
    """
    return _declared(Arithmetic(at_least, at_most, above, below, whole, optional))


def own_size(of: str) -> Any:
    """A size that the component may have for itself: `n_heads`, `kv_heads` or `head_width`; none is the model's.

    The config holds an int or None. `sizes` of the component, and of all that is inside it, have the size already.
    """
    return _declared(Arithmetic(at_least=1, whole=True, optional=True, sets=of))


def scaling(*, per: tuple[str, ...] = ("scalar",)) -> Any:
    """A gain. The config holds a maker with `.value` (its fixed number, None if trainable): `config.gain(width)`."""
    return _declared(GainField(per))


def width() -> Any:
    """A width, in units or as a multiple of the model's (`4x`, `8/3x`); the config holds it as an int."""
    return _declared(Width())


def part(slot: str, *, optional: bool = False, several: bool = False) -> Any:
    """One component of `slot`; the config holds its maker, or None.

    Where `several`, a list is allowed too; of two or more the config holds a tuple of (name, maker), as of `parts`.
    """
    return _declared(Part(slot, optional, several))


def parts(slot: str) -> Any:
    """Components of `slot`; the config holds a tuple of (name, maker)."""
    return _declared(Parts(slot))


def earlier(*, several: bool = False, optional: bool = False) -> Any:
    """The address of a value that stands earlier in the model: `layers.first.attention.value`, `tokens`.

    The config holds a maker, called with the width that the value must have ("tokens" for the tokens): a zero Cost, or
    what gives the value when called in `forward`: a tensor, or, where `several`, a tuple of tensors. It may be `none`
    where `optional`; the config then holds None.
    """
    return _declared(ValueField(several, optional))


def sequence() -> Any:
    """A sequence of parts; the config holds one maker, called without widths."""
    return _declared(Sequenced())


def branches() -> Any:
    """Sequences side by side; the config holds a tuple of makers."""
    return _declared(Branches())


def alternative() -> Any:
    """Of a pattern over layers: a value of the slot in which it stands."""
    return _declared(InSlot())


def alternatives() -> Any:
    """Of a pattern over layers: two or more values of the slot in which it stands."""
    return _declared(Several())


def layers() -> Any:
    """Of a pattern over layers: which layers (`block/arithmetic.py`)."""
    return _declared(Layers())


def _declared(kind: Any) -> Any:
    return dataclasses.field(metadata={"field": kind})


FIELDS = "number, arithmetic, own_size, scaling, width, flag, word, earlier, part, parts, sequence, branches"
"""The makers of fields."""


def component(
    name: str,
    *,
    slots: tuple[str, ...] = (),
    source: str = "",
    role: str | None = None,
    modifier: bool = False,
    shorthand: str | None = None,
    transparent: Transparent | None = None,
    same: Same | None = None,
    stage: int = 0,
    sums: tuple[str, str] | None = None,
    added: Mapping[str, Any] = MappingProxyType({}),
    chooses: Chooses | None = None,
    version: int = 1,
) -> Callable[[type[T]], type[T]]:
    """Declare a component; its file's docstring opens with the line that `ablate list components` shows.

    `version` is that of its numbers: it rises whenever a change of its code changes them. `added` are the fields that
    came after version 1 was published, each with the value at which it has no effect: None for an empty slot.
    `ComponentSpec`, `Transparent` and `Same` (`block/catalogue.py`) describe the other keywords.

    `sums` are the gains of a combinator skip x + gain Σ branch(x), by their fields: ("skip", "gain").

    `chooses` makes it a pattern over layers, without slots of its own, cost or module: from its node and the scope of a
    layer, it gives the way to the alternative that stands there, such as ("items", 1).

    Raises DeclarationError with everything that is wrong with the class.
    """
    if isinstance(name, type):
        way = '@component("a_name", slots=("part",), source="the paper")'
        fault = DeclarationFault("@component needs a name, slots and a source", "name", (f"write {way}",))
        raise DeclarationError(name.__qualname__, (fault,))

    filled = slots if chooses is None else (EVERY_SLOT,)

    def declare(cls: type[T]) -> type[T]:
        faults = (
            *_faults_of(name, filled, source, role, version),
            *_faults_in(cls, shorthand, transparent, same, sums, added, counted=chooses is None),
        )
        if faults:
            raise DeclarationError(cls.__qualname__, faults)
        config = dataclass(frozen=True, kw_only=True)(cls)
        if plain := [f.name for f in dataclasses.fields(config) if not _is_field(f)]:  # type: ignore[arg-type]
            raise DeclarationError(cls.__qualname__, tuple(_plain(name, dataclasses.MISSING) for name in plain))
        spec = ComponentSpec(
            name=name,
            slots=filled,
            role=role or name,
            modifier=modifier,
            fields={f.name: f.metadata["field"] for f in dataclasses.fields(config)},  # type: ignore[arg-type]
            source=source,
            config=config,
            version=version,
            **place_of(cls),
            shorthand=shorthand,
            transparent=transparent,
            same=same,
            stage=stage,
            sums=sums,
            added=added,
            chooses=chooses,
        )
        config.spec = spec  # type: ignore[attr-defined]
        return config

    return declare


def _faults_of(
    name: str, slots: tuple[str, ...], source: str, role: str | None, version: int
) -> Iterator[DeclarationFault]:
    yield from common_faults(COMPONENT, name, source, version)
    if not isinstance(role or "word", str) or WORD.fullmatch(role or "word") is None:
        way = "give letters, digits and _, as in rms_norm: it is part of addresses"
        yield DeclarationFault(f"the role of a component must be a word, not {role!r}", "role", (way,))
    if not isinstance(slots, tuple) or not slots or not all(isinstance(slot, str) for slot in slots):
        way = 'give a tuple of names, such as slots=("part", "norm"); "part" is a place in a sequence'
        yield DeclarationFault("a component must say which slots it may fill", "slots", (way,))


def _faults_in(
    cls: type,
    shorthand: str | None,
    transparent: Transparent | None,
    same: Same | None,
    sums: tuple[str, str] | None,
    added: Mapping[str, Any],
    *,
    counted: bool,
) -> Iterator[DeclarationFault]:
    """Fields without a field maker, a missing cost, and words that name no field."""
    inherited = getattr(cls, "__dataclass_fields__", {})
    own = [name for name, kind in inspect.get_annotations(cls).items() if "ClassVar" not in str(kind)]
    for name in own:
        value = vars(cls).get(name, dataclasses.MISSING)
        if not _is_field(value):
            yield _plain(name, value)
    for name, _ in inspect.getmembers_static(cls, _is_field):
        if name not in own and name not in inherited:
            mine = name in vars(cls)
            way = f"give it a type, such as {name}: float = …"
            way = way if mine else "decorate the class that defines it with @dataclass(frozen=True, kw_only=True)"
            message = (
                f"field {name!r} has no type, so it would be ignored" if mine else f"field {name!r} is not inherited"
            )
            yield DeclarationFault(message, name if mine else "class", (way,))
    fields = {*own, *inherited}
    if counted and not callable(getattr(cls, "cost", None)):
        way = "add def cost(self, sizes, …) -> Cost: its parameters, and the FLOPs of its products for one sequence"
        yield DeclarationFault("a component must declare its cost", "class", (way,), "this class has no cost")
    named = [("shorthand", word) for word in (shorthand,) if word is not None]
    if transparent is not None:
        named += [("transparent", word) for word in (*transparent.when, transparent.keep) if word is not None]
    if same is not None:
        named += [("same", word) for word in (*same.when, *same.fields.values())]
    named += [("sums", word) for word in sums or ()]
    named += [("added", word) for word in added]
    for at, word in named:
        if word not in fields:
            way = f"the fields are: {', '.join(sorted(fields)) or 'none'}"
            yield DeclarationFault(f"there is no field {word!r}", at, (way,), suggest(word, fields) or "", word)


def _is_field(value: object) -> bool:
    return isinstance(value, dataclasses.Field) and "field" in value.metadata


def _plain(name: str, value: object) -> DeclarationFault:
    """The fault of a field with a plain value, or without one, and the maker that it needs."""
    meant = (
        f"{value.__name__}()"
        if inspect.isfunction(value) and value.__name__ in FIELDS.split(", ")
        else "flag()"
        if isinstance(value, bool)
        else "number()"
        if isinstance(value, int | float)
        else f"word({value!r}, …)"
        if isinstance(value, str)
        else "number()"
    )
    return DeclarationFault(
        f"field {name!r} is not made by one of the field makers"
        + ("" if value is dataclasses.MISSING else ": it has a plain value"),
        name,
        (
            f"a field is made by one of: {', '.join(f'{maker}()' for maker in FIELDS.split(', '))}",
            "its value is written in YAML: in a block, or for all blocks under `defaults:` of the grammar",
        ),
        f"write {name}: … = {meant}",
    )
