"""The effective form of a block, without what has no effect at the sizes of a model, so that equal models are equal.

`kv_heads` that are as many as the heads, a window as long as the context, parts of the first layer in the second: each
component says in its own file what it comes to (`effective` of its Config). A normal form (`normal_form.py`) holds at
all sizes and is part of every identity. An effective form holds in one layer of one model, and only says that two
variants of a plan are the same: each is built as it is written.
"""

from __future__ import annotations

from ablate.block.catalogue import Catalogue, FieldType, Part
from ablate.block.config_values import Surroundings, inside
from ablate.block.expression import Block, Node, Sequence, Value
from ablate.block.normal_form import normalise
from ablate.block.sizes import Sizes


def effective(block: Block, sizes: Sizes, catalogue: Catalogue, init: Node | None = None) -> Block:
    """Return the effective form of a block that is resolved at the layer of `sizes` (`normal_form.resolve`).

    `init` is the model's own, in its effective form: a weight with the same init has none of its own, if that fills a
    weight by its shape alone, so that the sizes around it have no part in its numbers.
    """
    own = init if init is not None and getattr(catalogue[init.name].config, "by_shape", False) else None

    def of(value: Value, here: Surroundings) -> Value:
        match value:
            case Node():
                return of_node(value, here)
            case Sequence():
                return Sequence(tuple(node for part in value for node in parts_of(of(part, here))))
            case tuple():
                return tuple(each for part in value if (each := of(part, here)) is not None)  # type: ignore[return-value]
        return value

    def of_node(node: Node, here: Surroundings) -> Value:
        spec = catalogue[node.name]
        within = inside(node, spec, here)
        fields = {name: as_field(spec.fields[name], of(value, within)) for name, value in node.fields}
        fields |= {name: None for name in spec.own_inits if own is not None and fields[name] == own}
        reduced, comes_to = Node(node.name, tuple(fields.items())), getattr(spec.config, "effective", None)
        return reduced if comes_to is None else comes_to(reduced, here.sizes)

    def as_field(kind: FieldType, value: Value) -> Value:
        return one_or_more(parts_of(value)) if isinstance(kind, Part) else value

    form = of(block, Surroundings(sizes))
    assert isinstance(form, Sequence)
    form = normalise(form, catalogue)
    return form if form == block else effective(form, sizes, catalogue, init)


def effective_component(node: Node, sizes: Sizes, catalogue: Catalogue) -> Node | None:
    """Return the effective form of a component that stands alone, such as the model's own init."""
    parts = effective(Sequence((node,)), sizes, catalogue).parts
    return parts[0] if parts else None


def parts_of(value: Value) -> tuple[Node, ...]:
    """Return the components of a value: one, several, or none."""
    match value:
        case Sequence():
            return value.parts
        case tuple():
            return tuple(node for part in value for node in parts_of(part))
        case Node():
            return (value,)
    return ()


def one_or_more(nodes: tuple[Node, ...]) -> Value:
    """Return components as a slot for several holds them: none, one, or a list."""
    return nodes if len(nodes) > 1 else nodes[0] if nodes else None
