"""Size: the parameters and FLOPs of a model in closed form, from what each component declares, without torch.

A test compares the counts with those of `compiler/compile.py` on the meta device. Blocks that predict tokens further
ahead (`model.ahead`), and their share of the final norm and the head, are counted as training runs them: an evaluation
takes fewer FLOPs.

While a layer's cost is computed, each part and weight reports the width of its output, and each field that reads an
earlier value reports which one, and how wide it must be. A block that reads what does not stand yet, or is of another
width, is refused without building a model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from ablate.block.address import (
    AROUND,
    ENCODER,
    IN,
    OUT,
    TOKENS,
    ValuePlace,
    address,
    address_at,
    name_parts,
    values_named,
)
from ablate.block.architecture import (
    CLASS_TOKEN,
    CLASSIFIERS,
    SHARE_OTHERS,
    Architecture,
    check_kind,
    check_patterns,
    check_reads_encoder,
    check_sharing,
    embedded,
    encoder_block,
    features,
    of_source,
)
from ablate.block.arithmetic import ArithmeticProblem
from ablate.block.catalogue import Catalogue, ComponentSpec, reporting_errors
from ablate.block.expression import Block, Node, Path, Sequence, Value, ValueAddress, walk
from ablate.block.layers import at_layer
from ablate.block.network import own_network
from ablate.block.sizes import Cost, GainMaker, Maker, PartMaker, Sizes, Surroundings, ValueMaker, field_values, inside
from ablate.errors import InputError
from ablate.source.problems import nearest


def cost(architecture: Architecture, catalogue: Catalogue) -> Cost:
    """Compute parameters and FLOPs of the whole model; InputError where a component cannot be built at these sizes."""
    return sum(part_costs(architecture, catalogue).values(), Cost())


def part_costs(architecture: Architecture, catalogue: Catalogue) -> dict[str, Cost]:
    """Return the cost of each part by address, in forward order; a combinator's cost is that of its own gains."""
    return dict(_model_costs(architecture, catalogue))


def block_costs(
    block: Block, sizes: Sizes, catalogue: Catalogue, layer: int = 1, standing: ValuesStanding | None = None
) -> dict[str, Cost]:
    """Return the cost of each part of a block by its address in layer `layer`, without parts that the layer omits.

    `standing` are the values before this layer, to which its own are added; InputError if it reads what is not there.
    """
    here = sizes.at(layer)
    network = partial(own_network, block, sizes, catalogue)
    block = at_layer(block, catalogue, here.scope(layer))
    costing = _Costing(catalogue, Surroundings(here, network), standing or ValuesStanding())
    costing.sequence(block, ())()
    if standing is not None:
        standing.end_layer(block, here, catalogue)
    parts = costing.parts
    return {address(layer, name): parts[path] for path, name in name_parts(block, catalogue) if path in parts}


def ahead_costs(
    architecture: Architecture, catalogue: Catalogue, standing: ValuesStanding | None = None
) -> Iterator[tuple[str, Cost]]:
    """Yield the cost of each part of the blocks that predict tokens further ahead: the last layer's, once for each.

    They run in training alone, so these FLOPs are none of an evaluation's.
    """
    last = architecture.sizes.n_layers
    for token in architecture.tokens_ahead():
        costs = block_costs(architecture.block, architecture.sizes, catalogue, last, standing)
        for name, each in costs.items():
            yield f"ahead.{token}.{name.removeprefix(address(last, ''))}", each


def _model_costs(architecture: Architecture, catalogue: Catalogue) -> Iterator[tuple[str, Cost]]:
    sizes = architecture.sizes
    around = _Costing(catalogue, Surroundings(sizes), ValuesStanding())
    check_kind(architecture, catalogue)
    check_patterns(architecture.block, sizes, catalogue)
    check_sharing(architecture, catalogue)
    reads = reads_values(architecture.block)
    standing = _before_the_layers(architecture) if reads else None
    encodes, classifies = architecture.kind == "encoder_decoder", architecture.kind in CLASSIFIERS
    architecture.numbers()  # costs nothing, but refuses expressions without a value at these sizes
    around.part(architecture.init)()
    if architecture.head_init is not None:
        around.part(architecture.head_init)()
    table = sizes.vocab_size * sizes.d_model
    yield "embedding", _embedding_cost(architecture) if classifies else Cost(parameters=table)
    if architecture.positions == "learned":
        yield "positions", Cost(parameters=architecture.rows() * sizes.d_model)
    if architecture.entry_norm is not None:
        yield "entry_norm", around.part(architecture.entry_norm)(sizes.d_model)
    if encodes:
        yield from _encoder_costs(architecture, catalogue)
        assert standing is not None, "some part reads the encoder"
        standing.stands(ENCODER, SOURCE)
    for layer, source in enumerate(architecture.sources(), start=1):
        costs = block_costs(architecture.block, sizes, catalogue, layer, standing)
        yield from (costs if layer == source else _shared(costs, layer, source, architecture, catalogue)).items()
    yield from ahead_costs(architecture, catalogue, standing)
    times = 1 + architecture.ahead
    if architecture.final_norm is not None:
        yield "final_norm", _repeated(around.part(architecture.final_norm)(sizes.d_model), times)
    if classifies:
        yield from _class_head_costs(architecture)
        return
    head = Cost(parameters=0 if architecture.tied else table, flops=2 * sizes.seq_len * table)
    yield "head", _repeated(head, times)
    yield from _beside_the_head(architecture, around)


def _beside_the_head(architecture: Architecture, around: _Costing) -> Iterator[tuple[str, Cost]]:
    sizes, width = architecture.sizes, architecture.sizes.d_model
    square = width * width + width
    if architecture.segments:
        yield "segments", Cost(parameters=architecture.segments * width)
    if architecture.transform != "none":
        yield "head_bias", Cost(parameters=sizes.vocab_size)
        yield "transform.dense", Cost(square, 2 * sizes.seq_len * width * width)
        yield "transform.norm", around.part(architecture.transform_norm())(width)
    if architecture.classes:
        yield "classifier.pooler", Cost(square, 2 * width * width)
        outputs = architecture.classes * width
        yield "classifier.classes", Cost(outputs + architecture.classes, 2 * outputs)


def _embedding_cost(architecture: Architecture) -> Cost:
    width = architecture.sizes.d_model
    product = features(architecture) * width
    flops = 2 * embedded(architecture) * product
    parameters = product + width * (1 + (architecture.pooling == CLASS_TOKEN))
    return Cost(parameters, flops, flops)  # no gradient of what is given


def _class_head_costs(architecture: Architecture) -> Iterator[tuple[str, Cost]]:
    width, classes = architecture.sizes.d_model, architecture.sizes.vocab_size
    if architecture.head_layer:
        yield "head.layer", Cost(width * width + width, 2 * width * width)
    yield "head", Cost(width * classes + classes, 2 * width * classes)


def _repeated(once: Cost, times: int) -> Cost:
    """Return the cost of a part that is applied several times in a pass of training, with the same parameters."""
    return Cost(once.parameters, times * once.flops, times * once.spared)


def _encoder_costs(architecture: Architecture, catalogue: Catalogue) -> Iterator[tuple[str, Cost]]:
    """Yield the costs of the encoder of an encoder-decoder: embedding and positions are counted with the decoder's."""
    check_reads_encoder(architecture)
    of_encoder = architecture.of_encoder()
    check_sharing(of_encoder, catalogue)
    sizes, standing = of_encoder.sizes, _before_the_layers(of_encoder, frames=bool(architecture.input_shape))
    standing.stands(ENCODER, SOURCE)  # what is left reads it in vain, and is told what it may read
    around = _Costing(catalogue, Surroundings(sizes), ValuesStanding())
    if architecture.input_shape:
        product = sizes.d_model * architecture.input_shape[-1]
        flops = 2 * sizes.seq_len * product
        yield "frames", Cost(product + sizes.d_model, flops, flops)  # no gradient of the frames
    if architecture.entry_norm is not None:
        yield "encoder_entry_norm", around.part(architecture.entry_norm)(sizes.d_model)
    for layer, source in enumerate(of_encoder.sources(), start=1):
        layers = replace(of_encoder, block=encoder_block(architecture.block, sizes.at(layer), catalogue))
        costs = block_costs(layers.block, sizes, catalogue, layer, standing)
        costs = costs if layer == source else _shared(costs, layer, source, layers, catalogue)
        yield from ((f"encoder.{name.removeprefix('layers.')}", each) for name, each in costs.items())
    if architecture.final_norm is not None:
        yield "encoder_norm", around.part(architecture.final_norm)(sizes.d_model)


def _before_the_layers(architecture: Architecture, *, frames: bool = False) -> ValuesStanding:
    tokens = not frames and architecture.kind not in CLASSIFIERS
    there = {"embedding": not frames, "positions": architecture.positions != "none"}
    there["entry_norm"] = architecture.entry_norm is not None
    standing = ValuesStanding()
    if tokens:
        standing.stands(TOKENS, TOKENS)
    for name in (name for name in AROUND if there[name]):
        standing.stands(name, architecture.sizes.d_model)
    return standing


def _shared(
    costs: dict[str, Cost], layer: int, source: int, architecture: Architecture, catalogue: Catalogue
) -> dict[str, Cost]:
    """Return the costs of a layer without its parameters, which are those of its source; InputError if they differ."""
    others = block_costs(architecture.block, architecture.sizes, catalogue, source)
    here = {name.removeprefix(address(layer, "")): each.parameters for name, each in costs.items()}
    there = {name.removeprefix(address(source, "")): each.parameters for name, each in others.items()}
    if different := [part for part in {**there, **here} if there.get(part) != here.get(part)]:
        raise InputError(
            f"model.share is {architecture.share}, but {', '.join(different)} has other parameters in layer {layer} "
            f"than in layer {source}, whose it would use\n  = {SHARE_OTHERS}"
        )
    return {name: replace(each, parameters=0) for name, each in costs.items()}


def _declared(spec: ComponentSpec, config: Any, sizes: Sizes, *widths: int) -> Cost:
    with reporting_errors(spec, "cost"):
        declared = config.cost(sizes, *widths)
        if not isinstance(declared, Cost):
            raise TypeError(f"it gives {declared!r}, which is not a Cost")
    return declared


@dataclass(frozen=True, slots=True)
class _GainCost:
    value: float | None
    per: str

    def __call__(self, width: int) -> Cost:
        numbers = 1 if self.per == "scalar" else width
        return Cost(parameters=numbers if self.value is None else 0)


@dataclass
class _Costing:
    """Makers of costs. A sequence costs its parent nothing: the parts inside are kept one by one, by path."""

    catalogue: Catalogue
    surroundings: Surroundings
    values: ValuesStanding
    parts: dict[Path, Cost] = field(default_factory=dict)

    def part(self, node: Node, path: Path = ()) -> Maker:
        spec = self.catalogue[node.name]
        here = inside(node, spec, self.surroundings)
        values = field_values(node, spec, here, replace(self, surroundings=here), path)
        with reporting_errors(spec, "its values"):
            config: Any = spec.config(**values)
        declared = partial(_declared, spec, config, here.sizes)

        def made(*widths: int) -> Cost:
            if path and isinstance(path[-1], int):
                self.values.given[path] = here.sizes.d_model
            elif "weight" in spec.slots:
                self.values.given[path] = widths[-1]
            return declared(*widths)

        return PartMaker(config, made)

    def gain(self, value: float, *, trainable: bool, per: str) -> GainMaker:
        return _GainCost(None if trainable else value, per)

    def earlier(self, address: ValueAddress, path: Path) -> ValueMaker:
        def read(width: Width) -> Cost:
            self.values.requests.append(_ValueRequest(path, address, width))
            return Cost()

        return ValueMaker(how_many(address, self.surroundings.sizes), read, address.text)

    def sequence(self, sequence: Sequence, path: Path) -> Maker:
        def inside() -> Cost:
            for index, node in enumerate(sequence):
                self.parts[(*path, index)] = self.part(node, (*path, index))()
            return Cost()

        return inside


# Values that a block reads: whether each stands before its reader, and is as wide as it must be. Their names follow
# `block/address.py`.

Width = int | str
"""Units, or `tokens` for the numbers of the tokens, or `source` for a signal at the places of the source."""
SOURCE: Final = "source"
FIRST_COMPUTES: Final = ", or not in this layer: {where: {layers: first, use: …, otherwise: {from: …}}}"
"""The way to write a block whose first layer computes values that the others read."""


@dataclass(frozen=True, slots=True)
class _ValueRequest:
    """A value that the field at `path` reads, and the width that it needs."""

    path: Path
    address: ValueAddress
    width: Width


@dataclass
class ValuesStanding:
    """The values that stand in a model, by place, with the width of each; `requests` are those of the layer at hand."""

    widths: dict[ValuePlace, Width] = field(default_factory=dict)
    given: dict[Path, int] = field(default_factory=dict)
    requests: list[_ValueRequest] = field(default_factory=list)

    def stands(self, name: str, width: Width) -> None:
        self.widths[ValuePlace(None, name)] = width

    def end_layer(self, block: Block, sizes: Sizes, catalogue: Catalogue) -> None:
        """Check the reads of the layer of `sizes`, and add its outputs; InputError for the first that is not there."""
        layer = sizes.layer or 0
        names = dict(name_parts(block, catalogue))
        here = {path: name for path in self.given if (name := address_at(path, names)) is not None}
        self.widths[ValuePlace(layer, IN)] = sizes.d_model
        elsewhere = tuple(of_source(block, catalogue))
        wide = {path: SOURCE if any(path[: len(of)] == of for of in elsewhere) else w for path, w in self.given.items()}
        mine = {ValuePlace(layer, name): (path, wide[path]) for path, name in here.items()}
        for request in self.requests:
            by = address_at(request.path[:-1], names) or "the block"
            for place in _places_read(request, by, sizes):
                at = f"{by} reads {request.address.text} in layer {layer} of {sizes.n_layers}"
                if place in mine:
                    self._check_order(request.path, mine[place][0], at, block, catalogue)
                width = mine[place][1] if place in mine else self._standing(place, at, sizes, mine)
                self._check_width(width, request.width, at)
        self.widths |= {place: width for place, (_, width) in mine.items()}
        self.widths[ValuePlace(layer, OUT)] = sizes.d_model
        self.given, self.requests = {}, []

    def _standing(self, place: ValuePlace, at: str, sizes: Sizes, mine: Iterable[ValuePlace]) -> Width:
        layer = sizes.layer or 0
        if place in self.widths:
            return self.widths[place]
        if place.layer is not None and place.layer < 1:
            raise InputError(f"{at}, before which there is no layer\n  = read another{FIRST_COMPUTES}")
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
                f"{at}, which it is part of: a value cannot be read to compute itself\n  = read another{FIRST_COMPUTES}"
            )
        if _reading_order(read, block, catalogue) > _reading_order(reader, block, catalogue):
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
    return any(isinstance(value, ValueAddress) for node in walk(block) for _, value in node.fields)


def how_many(address: ValueAddress, sizes: Sizes) -> int:
    """Return how many values an address names in the layer of `sizes`; 0 where its layer has no number."""
    try:
        return len(values_named(address, sizes.scope(sizes.layer or 0)))
    except ArithmeticProblem:
        return 0


def _places_read(request: _ValueRequest, by: str, sizes: Sizes) -> tuple[ValuePlace, ...]:
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


def _reading_order(path: Path, block: Block, catalogue: Catalogue) -> tuple[int, ...]:
    order: list[int] = []
    value: Value = block
    for step in path:
        if isinstance(step, int):
            order.append(step)
            items = value.parts if isinstance(value, Sequence) else value
            assert isinstance(items, tuple)
            value = items[step]
        elif isinstance(value, Node):
            order.append([*catalogue[value.name].fields].index(step))
            value = value[step]
        elif isinstance(value, tuple):
            place = next(i for i, child in enumerate(value) if isinstance(child, Node) and child.name == step)
            order.append(place)
            value = value[place]
    return tuple(order)
