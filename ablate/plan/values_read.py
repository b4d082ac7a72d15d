"""Whether each value that a block reads stands before it, and is as wide as it must be: found without building a model.

While a layer's cost is computed, each part and each weight tells the width of what it gives, and each field that reads
a value tells which, and how wide it must be. When the layer is done, the two are compared. What a value is called, and
which stand earlier, follows `block/value_addresses.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from ablate.block.address import address_at, name_parts
from ablate.block.arithmetic import ArithmeticProblem
from ablate.block.catalogue import Catalogue
from ablate.block.cross import of_source
from ablate.block.expression import Block, Node, Path, Sequence, Value, ValueAddress, walk
from ablate.block.sizes import Sizes
from ablate.block.value_addresses import ENCODER, IN, OUT, TOKENS, ValuePlace, values_named
from ablate.errors import InputError
from ablate.source.problems import nearest

Width = int | str
"""Units, or `tokens` for the numbers of the tokens, or `source` for a signal at the places of the source."""
SOURCE: Final = "source"
FIRST: Final = ", or not in this layer: {where: {layers: first, use: …, otherwise: {from: …}}}"
"""How a block is written whose first layer computes what the others read."""


@dataclass(frozen=True, slots=True)
class _Request:
    """What the field at `path` reads, and the width that it needs."""

    path: Path
    address: ValueAddress
    width: Width


@dataclass
class ValuesStanding:
    """The values that stand in a model, by place, with the width of each; `requests` are those of the layer at hand."""

    widths: dict[ValuePlace, Width] = field(default_factory=dict)
    given: dict[Path, int] = field(default_factory=dict)
    requests: list[_Request] = field(default_factory=list)

    def stands(self, name: str, width: Width) -> None:
        """Add what a part before the layers gives."""
        self.widths[ValuePlace(None, name)] = width

    def gives(self, path: Path, width: int) -> None:
        """Add that the part or weight at `path` gives a value of that width."""
        self.given[path] = width

    def reads(self, path: Path, address: ValueAddress, width: Width) -> None:
        """Add that the field at `path` reads a value of that width."""
        self.requests.append(_Request(path, address, width))

    def end_layer(self, block: Block, sizes: Sizes, catalogue: Catalogue) -> None:
        """Check what the layer of `sizes` reads, and add what it gives; InputError for the first not to be read."""
        layer = sizes.layer or 0
        names = dict(name_parts(block, catalogue))
        here = {path: name for path in self.given if (name := address_at(path, names)) is not None}
        self.widths[ValuePlace(layer, IN)] = sizes.d_model
        elsewhere = tuple(of_source(block, catalogue))
        wide = {path: SOURCE if any(path[: len(of)] == of for of in elsewhere) else w for path, w in self.given.items()}
        mine = {ValuePlace(layer, name): (path, wide[path]) for path, name in here.items()}
        for request in self.requests:
            by = address_at(request.path[:-1], names) or "the block"
            for place in _places(request, by, sizes):
                at = f"{by} reads {request.address.text} in layer {layer} of {sizes.n_layers}"
                if place in mine:
                    self._check_order(request.path, mine[place][0], at, block, catalogue)
                width = mine[place][1] if place in mine else self._standing(place, at, sizes, mine)
                self._check_width(width, request.width, at)
        self.widths |= {place: width for place, (_, width) in mine.items()}
        self.widths[ValuePlace(layer, OUT)] = sizes.d_model
        self.given, self.requests = {}, []

    def _standing(self, place: ValuePlace, at: str, sizes: Sizes, mine: Iterable[ValuePlace]) -> Width:
        """Return the width of a value before this layer; InputError if there is none."""
        layer = sizes.layer or 0
        if place in self.widths:
            return self.widths[place]
        if place.layer is not None and place.layer < 1:
            raise InputError(f"{at}, before which there is no layer\n  = read another{FIRST}")
        if place.layer is not None and place.layer > sizes.n_layers:
            raise InputError(f"{at}, but there is no layer {place.layer}\n  = read what stands earlier in the model")
        if place.layer is not None and (place.layer > layer or (place.layer == layer and place.name == OUT)):
            raise InputError(f"{at}, which does not stand yet\n  = read what stands earlier: a layer before this one")
        if place == ValuePlace(None, ENCODER):
            raise InputError(
                f"{at}, but a model of this kind has none\n"
                "  = set model.kind: encoder_decoder, or source: none where it is set"
            )
        known = sorted(p.name for p in (*self.widths, *mine) if p.layer == place.layer and p.name != IN)
        told = f": did you mean {near!r}?" if (near := nearest(place.name, known)) else ""
        where = "before the layers" if place.layer is None else f"in layer {place.layer}"
        raise InputError(f"{at}, but there is no such value{told}\n  = {where} there are: {', '.join(known)}")

    @staticmethod
    def _check_order(reader: Path, read: Path, at: str, block: Block, catalogue: Catalogue) -> None:
        if reader[: len(read)] == read:
            raise InputError(
                f"{at}, which it is part of: a value cannot be read to compute itself\n  = read another{FIRST}"
            )
        if _order(read, block, catalogue) > _order(reader, block, catalogue):
            raise InputError(f"{at}, which does not stand yet\n  = read what stands before it in the block")

    @staticmethod
    def _check_width(width: Width, wanted: Width, at: str) -> None:
        if width == wanted:
            return
        if SOURCE in (width, wanted):
            of = "at the places of the source" if width == SOURCE else "at the places of the model's own tokens"
            raise InputError(
                f"{at}, which is {of}, not what it needs\n"
                f"  = only the source of an attention reads {ENCODER}, and reads nothing else"
            )
        if TOKENS in (width, wanted):
            way = "`lookup` and masks read the numbers of tokens; anything else reads a signal, such as embedding"
            is_what = "the numbers of the tokens" if width == TOKENS else f"a signal {width} wide"
            raise InputError(f"{at}, which is {is_what}, not what it needs\n  = {way}")
        raise InputError(
            f"{at}, which is {width} wide, but it needs {wanted}\n  = read a value of that width, or give both the same"
        )


def reads_values(block: Block) -> bool:
    """Return whether anything in a block reads a value that stands earlier."""
    return any(isinstance(value, ValueAddress) for node in walk(block) for _, value in node.fields)


def how_many(address: ValueAddress, sizes: Sizes) -> int:
    """Return how many values an address names in the layer of `sizes`; 0 where its layer has no number."""
    try:
        return len(values_named(address, sizes.scope(sizes.layer or 0)))
    except ArithmeticProblem:
        return 0


def _places(request: _Request, by: str, sizes: Sizes) -> tuple[ValuePlace, ...]:
    try:
        read = values_named(request.address, sizes.scope(sizes.layer or 0))
    except ArithmeticProblem as problem:
        raise InputError(f"{by} reads {request.address.text}: {problem}\n  = name a layer by a whole number") from None
    if not read:
        where = f"in layer {sizes.layer} of {sizes.n_layers}"
        raise InputError(
            f"{by} reads {request.address.text} {where}, before which there is none\n"
            "  = read layers.*.in, which the first layer has too, or leave that layer out by a pattern"
        )
    return read


def _order(path: Path, block: Block, catalogue: Catalogue) -> tuple[int, ...]:
    """Return the place of a path in reading order, as numbers that compare."""
    order: list[int] = []
    value: Value = block
    for step in path:
        if isinstance(step, int):
            order.append(step)
            value = value.parts[step] if isinstance(value, Sequence) else value[step]  # type: ignore[index]
        elif isinstance(value, Node):
            order.append([*catalogue[value.name].fields].index(step))
            value = value[step]
        elif isinstance(value, tuple):
            place = next(i for i, child in enumerate(value) if isinstance(child, Node) and child.name == step)
            order.append(place)
            value = value[place]
    return tuple(order)
