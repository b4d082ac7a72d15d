"""The network of nonlinear layers and residuals that a model is, as data: what shaped activations are solved for.

    Layer       one nonlinear layer
    Residual    a sum of skip and branches, in shares of its mean square
    Repeated    the same in a row

A network is a sequence of these, and so is each branch. `own_network` makes that of a model's blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from typing import TypeAlias

from ablate.block.catalogue import BLOCK, Branches, Catalogue, ComponentSpec, Word
from ablate.block.expression import Block, Gain, Node, Sequence, Value, ValueAddress, walk
from ablate.block.layers import at_layer
from ablate.block.sizes import Sizes, Surroundings
from ablate.errors import InputError


@dataclass(frozen=True, slots=True)
class Layer:
    """One nonlinear layer."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch of a residual; `share` is its part of the mean square of the sum."""

    share: float
    elements: Elements


@dataclass(frozen=True, slots=True)
class Residual:
    """A sum of skip and branches: `skip` and the shares of the branches are those of the mean square, and add up to 1.

    `residual` makes it from gains.
    """

    skip: float
    branches: tuple[Branch, ...]


@dataclass(frozen=True, slots=True)
class Repeated:
    times: int
    elements: Elements


@dataclass(frozen=True, slots=True)
class OwnNetwork:
    """The network of the `depth` blocks of a model."""

    elements: Elements
    depth: int


Element: TypeAlias = Layer | Residual | Repeated
Elements: TypeAlias = tuple[Element, ...]


def residual(skip: float, *branches: tuple[float, Elements]) -> Residual:
    """Make the residual of a skip and branches with these gains: shares are squares of gains over their sum.

    These are the shares where skip and branches have the same mean square. Raises InputError where all gains are 0.

    >>> residual(2.0, (1.0, (Layer(),)))
    Residual(skip=0.8, branches=(Branch(share=0.2, elements=(Layer(),)),))
    """
    total = skip**2 + sum(gain**2 for gain, _ in branches)
    if not total > 0:
        raise InputError(
            "a residual whose skip and branches have gains of 0 gives nothing\n  = change one of the gains"
        )
    return Residual(skip**2 / total, tuple(Branch(gain**2 / total, elements) for gain, elements in branches))


def layers_in(elements: Elements) -> int:
    return sum(_layers(element) for element in elements)


def _layers(element: Element) -> int:
    match element:
        case Layer():
            return 1
        case Residual(branches=branches):
            return sum(layers_in(branch.elements) for branch in branches)
        case Repeated(times=times, elements=elements):
            return times * layers_in(elements)


# The network that the blocks of a model are, for activations that are solved for it: `network: block`.
#
# All layers are gone through, each as its patterns and its arithmetic make it:
#
#     a part around a shaped activation    that many nonlinear layers
#     skip x + gain Σ_i branch_i(x)        a residual, in shares of mean squares; trained gains count as they start
#     what holds no activation             nothing: attention, norms, weights, dropout
#
# Under equal lengths a norm does not change the correlation of two tokens, and attention is left out as by He et al.
# 2023, arXiv:2302.10322, App. H.1, who choose transformations of activations "without considering attention". So is
# what multiplies an activation (the gate of an MLP), and which experts a router sends a token to.
#
# The shares are those of a skip and branches of equal mean squares, as in normalised residuals and in Post-LN. In
# Pre-LN the stream grows from layer to layer, and the share of its skips with it: there they are those of the first
# residual.


def own_network(block: Block, sizes: Sizes, catalogue: Catalogue) -> OwnNetwork:
    """Return the network of the layers of a model; kept for the next call.

    Raises InputError where there is an activation that is not solved for this network with the same targets, where a
    part reads a value from elsewhere, and for a combinator that does not declare the gains of its sum.
    """
    return _own_network(_Model(block, sizes.at(None), catalogue, id(catalogue)))


@dataclass(frozen=True, slots=True)
class _Model:
    """A model; catalogues are told apart by their `identity`."""

    block: Block
    sizes: Sizes
    catalogue: Catalogue = field(compare=False)
    identity: int


@lru_cache(maxsize=64)
def _own_network(model: _Model) -> OwnNetwork:
    depth = model.sizes.n_layers
    layers = [_InLayer(model, layer) for layer in range(1, depth + 1)]
    activations = [node for layer in layers for node in layer.activations()]
    for node in activations:
        _check_same(node, activations[0])
    made = [layer.elements() for layer in layers]
    runs = ((elements, len([*same])) for elements, same in groupby(made))
    repeated = tuple(Repeated(times, elements) for elements, times in runs if elements)
    return OwnNetwork(repeated, depth)


class _InLayer:
    """The block as it is in one layer."""

    def __init__(self, model: _Model, layer: int):
        sizes = model.sizes.at(layer)
        self.catalogue, self.surroundings = model.catalogue, Surroundings(sizes)
        self.block = at_layer(model.block, model.catalogue, sizes.scope(layer))
        for node in walk(self.block):
            for name, value in node.fields:
                if isinstance(value, ValueAddress):
                    raise InputError(
                        f"an activation is solved for the block's own network, but {node.name}.{name} reads "
                        f"{value.text}, which that network does not follow\n"
                        "  = give the activation a network of its own: network: stack"
                    )

    def activations(self) -> Iterator[Node]:
        """Yield the activations, without those inside of others; InputError for one of another network."""
        for node in _outermost(self.block, self.catalogue):
            if not _is_of_block(node, self.catalogue[node.name]):
                raise InputError(
                    f"an activation is solved for the block's own network, but {node.name}, which is not, is in it "
                    f"{self.surroundings}\n"
                    "  = shape every activation of the block in the same way, or give the network: stack"
                )
            yield node

    def elements(self) -> Elements:
        return self._sequence(self.block)

    def _sequence(self, sequence: Sequence) -> Elements:
        return tuple(element for node in sequence for element in self._part(node))

    def _part(self, node: Node) -> Iterator[Element]:
        spec = self.catalogue[node.name]
        if not spec.holds_sequences:
            yield from (Layer() for _ in _outermost(node, self.catalogue))
            return
        branches = [self._sequence(branch) for branch in _branches(node, spec)]
        if not any(layers_in(branch) for branch in branches):
            return
        if spec.sums is None:
            raise InputError(
                f"an activation is solved for the block's own network, but {node.name} around it does not declare what "
                "the gains of its skip and its branches are\n"
                "  = use residual or parallel, or give the network: stack"
            )
        skip, gain = (self._gain(node, name) for name in spec.sums)
        yield residual(skip, *((gain, branch) for branch in branches))

    def _gain(self, node: Node, name: str) -> float:
        gain = node[name]
        assert isinstance(gain, Gain)
        return float(self.surroundings.number(gain.value, f"{node.name}.{name}"))


def _branches(node: Node, spec: ComponentSpec) -> Iterator[Sequence]:
    for name in spec.holds_sequences:
        value = node[name]
        inside = value if isinstance(spec.fields[name], Branches) else (value,)
        yield from inside  # type: ignore[misc]


def _outermost(value: Value, catalogue: Catalogue) -> Iterator[Node]:
    if isinstance(value, Node):
        if "activation" in catalogue[value.name].slots:
            yield value
        else:
            for _, child in value.fields:
                yield from _outermost(child, catalogue)
    elif isinstance(value, Sequence | tuple):
        for child in value:
            yield from _outermost(child, catalogue)


def _is_of_block(node: Node, spec: ComponentSpec) -> bool:
    return any(isinstance(kind, Word) and kind.stack and node[name] == BLOCK for name, kind in spec.fields.items())


def _check_same(node: Node, first: Node) -> None:
    """Raise InputError for an activation with other targets than the first; what is inside of them may differ."""
    targets, others = ({n: v for n, v in each.fields if not isinstance(v, Node)} for each in (first, node))
    if node.name != first.name or targets != others:
        raise InputError(
            f"activations are solved for the block's own network with different targets: {first} and {node}\n"
            "  = give all of them the same, or each a network of its own: network: stack"
        )
