"""What every component must hold, whoever wrote it: a test class inherits it and says what it is run for."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from builders import CATALOGUE, SIZES, architecture, node, sequence

from ablate.block.catalogue import ComponentSpec, Flag
from ablate.block.expression import Block, Node
from ablate.errors import InputError
from ablate.plan.size import cost
from ablate.testing.components import BlockChecks


def settings(spec: ComponentSpec) -> Iterator[Node]:
    """The component with every combination of its flags."""
    flags = [field for field, kind in spec.fields.items() if isinstance(kind, Flag)]
    for values in itertools.product((False, True), repeat=len(flags)):
        yield node(spec.name, **dict(zip(flags, values, strict=True)))


def hosts(component: Node, spec: ComponentSpec) -> Iterator[Block]:
    """Blocks in which the component stands, one for each slot it fills."""
    for slot in spec.slots:
        match slot:
            case "part":
                yield sequence(component)
            case "norm":
                qk_norm = node("qk_norm", norm=component)
                yield sequence(node("attention", pre_qk=component, pre_v=component, entropy=(qk_norm,)))
            case "weight":
                four = dict.fromkeys(("query", "key", "value", "projection"), component)
                three = dict.fromkeys(("up", "gate", "down"), component)
                attention, mlp = node("attention", **four), node("mlp", **three)
                yield sequence(attention, mlp) if costs(sequence(mlp)) else sequence(attention)
            case "init" if "of" in spec.fields:  # follows from the weight beside it, which must start from its own init
                beside = node("dense", init=component["init"])
                yield sequence(node("attention", value=beside, projection=node("dense", init=component)))
            case "init":
                dense = node("dense", init=component)
                yield sequence(node("mlp", up=dense))
            case "activation":
                yield sequence(node("mlp", activation=component))
            case "entropy":
                yield sequence(node("attention", entropy=(component,)))
            case "position":
                yield sequence(node("attention", position=component))
            case "bias":
                yield sequence(node("attention", bias=component))
            case "mask":
                yield sequence(node("attention", mask=component))
            case "matrix":
                yield sequence(node("attention", matrix=component))
            case "gate":
                yield sequence(node("attention", gate=component))
            case "sink":
                yield sequence(node("attention", sink=component))
            case _:
                raise AssertionError(f"the contract does not know how to host slot {slot!r}")


def costs(block: Block) -> bool:
    """Whether the block can be built at all at the sizes of the tests."""
    try:
        cost(architecture(block), CATALOGUE)
    except InputError:
        return False
    return True


class ComponentContract(BlockChecks):
    """Each check takes a block that holds the component under test."""

    sizes = SIZES
