"""The size of a model in closed form: parameters and FLOPs from what each component declares, without torch.

`compiler/size.py` counts the same on the meta device; a test checks that both agree. Blocks that predict tokens further
ahead (`model.ahead`), and their share of the final norm and the head, are counted as training runs them: an evaluation
takes fewer FLOPs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ablate.block.address import address, name_parts
from ablate.block.architecture import Architecture
from ablate.block.catalogue import Catalogue, ComponentSpec
from ablate.block.classifier import CLASS_TOKEN, CLASSIFIERS, check_kind, embedded, features
from ablate.block.config_values import GainMaker, Maker, PartMaker, Surroundings, ValueMaker, field_values, inside
from ablate.block.cost import Cost
from ablate.block.cross import check_reads_encoder, encoder_block
from ablate.block.expression import Block, Node, Path, Sequence, ValueAddress
from ablate.block.layers import at_layer
from ablate.block.own_network import own_network
from ablate.block.pattern_check import check_patterns
from ablate.block.sharing import WAY_OUT, check_sharing
from ablate.block.sizes import Sizes
from ablate.block.user_code import reporting_errors
from ablate.block.value_addresses import AROUND, ENCODER, TOKENS
from ablate.errors import InputError
from ablate.plan.values_read import SOURCE, ValuesStanding, Width, how_many, reads_values


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
    """Yield the costs of what an encoder has beside its head: segments, a transform, classes of the whole sequence."""
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
    """Return the cost of what embeds images or features: a matrix with a bias, and a class token where it is read."""
    width = architecture.sizes.d_model
    product = features(architecture) * width
    flops = 2 * embedded(architecture) * product
    parameters = product + width * (1 + (architecture.pooling == CLASS_TOKEN))
    return Cost(parameters, flops, flops)  # no gradient of what is given


def _class_head_costs(architecture: Architecture) -> Iterator[tuple[str, Cost]]:
    """Yield the costs of the head of a classifier: one answer for all tokens, and perhaps a layer before it."""
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
    """Return the values that stand before the first layer."""
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
            f"than in layer {source}, whose it would use\n  = {WAY_OUT}"
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
                self.values.gives(path, here.sizes.d_model)
            elif "weight" in spec.slots:
                self.values.gives(path, widths[-1])
            return declared(*widths)

        return PartMaker(config, made)

    def gain(self, value: float, *, trainable: bool, per: str) -> GainMaker:
        return _GainCost(None if trainable else value, per)

    def earlier(self, address: ValueAddress, path: Path) -> ValueMaker:
        def read(width: Width) -> Cost:
            self.values.reads(path, address, width)
            return Cost()

        return ValueMaker(how_many(address, self.surroundings.sizes), read, address.text)

    def sequence(self, sequence: Sequence, path: Path) -> Maker:
        def inside() -> Cost:
            for index, node in enumerate(sequence):
                self.parts[(*path, index)] = self.part(node, (*path, index))()
            return Cost()

        return inside
