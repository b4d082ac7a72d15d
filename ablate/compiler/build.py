"""Building: from the nodes of an expression to the modules of a block, each registered under its address."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ablate.block.address import is_several, name_parts, sublayers, values_named
from ablate.block.catalogue import Catalogue, ComponentSpec, reporting_errors
from ablate.block.expression import Block as Expression
from ablate.block.expression import Node, Path, Sequence, ValueAddress
from ablate.block.layers import at_layer
from ablate.block.network import own_network
from ablate.block.sizes import (
    GainMaker,
    Maker,
    PartMaker,
    Sizes,
    Surroundings,
    ValueMaker,
    field_values,
    inside,
    refuse_pattern,
)
from ablate.compiler.initialise import in_its_place, seeded, stream_seed
from ablate.compiler.values import KeptValues, ValuesRead
from ablate.components.registry import implementation
from ablate.extension.loader import is_complete


@dataclass(eq=False)
class Chain:
    """Modules applied one after another; without any it is the identity.

    Not an `nn.Module`: the parts belong to the block. Not a closure: a copied block's chains call the copied parts.
    """

    parts: tuple[nn.Module, ...]

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x


class Block(nn.Module):
    """One block of a model.

    `parts` are registered under their names, which state keys and result rows share; `chain` applies them in order;
    `sublayers` gives, for each mixer, the part at which its sub-layer begins (`block.address.sublayers`).
    """

    def __init__(self, parts: Mapping[str, nn.Module], chain: Chain, sublayers: Mapping[str, str]):
        super().__init__()
        self.sublayers = sublayers
        for name, part in parts.items():
            self.add_module(name, part)
        self.chain = chain

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        return self.chain(x)


# Scale: a gain as a module, recognised by probes and by the optimiser's groups through its class.


class Scale(nn.Module):
    """y = g * x, where g is fixed or trained: one number, one per channel (LayerScale, arXiv:2103.17239) or per head.

    A trained gain is the parameter `factor`, which starts at `start`: of shape [], [channels], or [heads, 1, 1] on a
    signal [..., heads, T, K]. A fixed one is a plain number, exact in every dtype; a fixed gain of 1 returns its input.
    """

    factor: nn.Parameter | None

    def __init__(self, start: float, *, shape: tuple[int, ...] = (), trainable: bool = False):
        super().__init__()
        self.start = float(start)
        self.factor = nn.Parameter(torch.full(shape, self.start)) if trainable else None

    @property
    def value(self) -> float | Tensor:
        return self.start if self.factor is None else self.factor

    def initialise(self, draw: object) -> None:
        """Reset a trained gain to its start, at its current precision."""
        if self.factor is not None:
            nn.init.constant_(self.factor, self.start)

    def forward(self, x: Float[Tensor, "*rest D"]) -> Float[Tensor, "*rest D"]:
        return x if self.factor is None and self.start == 1 else self.value * x

    def extra_repr(self) -> str:
        return f"{self.start:g}, trainable={self.factor is not None}"


@dataclass(frozen=True, slots=True)
class ScaleMaker:
    """Maker of the Scale of one field; `value` is its fixed number, None if it is trained."""

    start: float
    trainable: bool
    per: str

    @property
    def value(self) -> float | None:
        return None if self.trainable else self.start

    def __call__(self, width: int) -> Scale:
        """For a signal of `width` channels, or heads."""
        shapes = {"scalar": (), "channel": (width,), "head": (width, 1, 1)}
        return Scale(self.start, shape=shapes[self.per], trainable=self.trainable)


@dataclass(frozen=True, slots=True)
class SlotAddress:
    """The place of construction: the seed and salt of the model, and the address of the slot that is filled."""

    seed: int = 0
    salt: int = 0
    name: str = ""

    def at(self, *names: int | str) -> SlotAddress:
        return replace(self, name=".".join(str(name) for name in (self.name, *names) if name != ""))


@dataclass
class Builder:
    """Makers of modules. Modules made for the places of sequences are kept by path, for the block to register.

    Each module is constructed on random streams of its own, which begin at the seed of its address: `address` is that
    of the block, `names` are those of its parts, and the module in a slot of a part is addressed by the field
    (`layers.1.attention.query`). Draws of an inner constructor do not advance the streams of the outer one.
    """

    catalogue: Catalogue
    surroundings: Surroundings
    address: SlotAddress = SlotAddress()
    names: Mapping[Path, str] = field(default_factory=dict)
    parts: dict[Path, nn.Module] = field(default_factory=dict)
    read: ValuesRead = field(default_factory=ValuesRead)
    _slots: dict[Path, SlotAddress] = field(default_factory=dict)
    _made: Counter[SlotAddress] = field(default_factory=Counter)

    def part(self, node: Node, path: Path) -> Maker:
        """The maker is called with the widths of its slot."""
        spec = self.catalogue[node.name]
        refuse_pattern(spec)
        module = _implementation(spec)
        address = self._address(path)
        makes = issubclass(module, nn.Module)
        if not makes:  # it returns the module of one of its slots (`by_layer`), which then has its address
            self._slots |= {(*path, slot): address for slot in spec.fields}
        if own := in_its_place(module):
            self._slots[*path, own] = address
        here = inside(node, spec, self.surroundings)
        config = module.Config(**field_values(node, spec, here, replace(self, surroundings=here), path))

        def made(*widths: int) -> nn.Module:
            self._made[address] += makes and not own
            ordinal = self._made[address]
            seed = stream_seed(address.seed, address.salt, f"{address.name} constructed {ordinal}")
            with reporting_errors(spec, "its module"), seeded(seed):
                built: nn.Module = module(config, here.sizes, *widths)
            return built

        return PartMaker(config, made)

    def _address(self, path: Path) -> SlotAddress:
        if path in self._slots:
            return self._slots[path]
        if path in self.names or not path:
            return self.address.at(self.names.get(path, ""))
        return self._address(path[:-1]).at(path[-1])

    def gain(self, value: float, *, trainable: bool, per: str) -> GainMaker:
        """`value` is fixed, or the start of a trained gain."""
        return ScaleMaker(value, trainable, per)

    def earlier(self, address: ValueAddress, path: Path) -> ValueMaker:
        sizes = self.surroundings.sizes
        kept = [self.read.at(place) for place in values_named(address, sizes.scope(sizes.layer or 0))]
        return ValueMaker(len(kept), lambda *_: KeptValues(kept) if is_several(address) else kept[0], address.text)

    def sequence(self, sequence: Sequence, path: Path) -> Maker:
        """The maker is called without widths."""

        def chain() -> Chain:
            modules = []
            for index, node in enumerate(sequence):
                place = (*path, index)
                modules.append(self.part(node, place)())
                self.parts[place] = modules[-1]
            return Chain(tuple(modules))

        return chain


def _implementation(spec: ComponentSpec) -> Any:
    """The module class of a component; its draws during import are the same in every process."""
    if is_complete(spec):
        return implementation(spec)
    with seeded(stream_seed(0, 0, f"import of {spec.name}")):
        return implementation(spec)


def build_block(
    block: Expression,
    sizes: Sizes,
    catalogue: Catalogue,
    layer: int,
    place: SlotAddress,
    read: ValuesRead,
) -> Block:
    """Build the module of `block` as layer `layer`, weights not filled yet, without the parts that this layer omits.

    `place` is the address that its numbers follow from: its own, or that of a layer whose parameters it is to have. The
    places of the model that it reads are added to `read`.
    """
    seen = sizes.at(layer)
    network = partial(own_network, block, sizes, catalogue)
    block = at_layer(block, catalogue, seen.scope(layer))
    names = dict(name_parts(block, catalogue))
    builder = Builder(catalogue, Surroundings(seen, network), place, names, read=read)
    chain = builder.sequence(block, ())()
    named = {name: builder.parts[path] for path, name in names.items() if path in builder.parts}
    begins = {mixer: part for mixer, part in sublayers(block, catalogue) if mixer in named and part in named}
    return Block(named, chain, begins)
