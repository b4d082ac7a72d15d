"""The normal form of a block: descriptions that train to the same bits have the same normal form.

Rules admitted (each side, compiled as written, trains to the same bits on CPU; see tests/compiler):

* constant arithmetic becomes its number; a fixed gain holds one number, whatever `per` says;
* a component at its transparent values becomes the field it keeps (a residual with fixed skip 0 and gain 1 becomes its
  branch);
* a component at the values at which it declares to be the `Same` as another becomes that one (shaped attention with
  fixed gains 0, 1 and 0 becomes softmax attention);
* components of one list that act at different stages are sorted by stage, unless a pattern over layers is among them.

Not admitted: equality only at initialisation (a trainable gain on a matrix), and a norm directly after a norm, since
their epsilons differ.
"""

from __future__ import annotations

from collections.abc import Mapping

from ablate.block.arithmetic import Expression, number_text
from ablate.block.catalogue import Arithmetic, Catalogue, Transparent
from ablate.block.config_values import Surroundings, inside
from ablate.block.expression import Block, Gain, Node, Sequence, Series, Size, Value, ValueAddress
from ablate.block.layers import at_layer
from ablate.block.sizes import Sizes
from ablate.block.value_addresses import resolved


def normalise(block: Block, catalogue: Catalogue) -> Block:
    """Return the normal form of a block; normalising is idempotent."""
    return _sequence(block, catalogue)


def resolve(block: Block, sizes: Sizes, catalogue: Catalogue) -> Block:
    """Return the block as the layer of `sizes` sees it: arithmetic as numbers, multiples of the width as units.

    Patterns over layers give their alternative there. Raises ArithmeticProblem if an expression has no value,
    InputError if a size that a component sets has none.
    """

    def at(value: Value, here: Surroundings, scope: Mapping[str, float]) -> Value:
        match value:
            case Expression():
                return Expression(number_text(value.at(scope)))
            case Gain():
                return Gain(Expression(number_text(value.value.at(scope))), value.trainable, value.per)
            case Size(units=None):
                return Size(units=units(value, here.sizes.d_model))
            case ValueAddress():
                return resolved(value, scope)
            case Node():
                return node_at(value, here, scope)
            case Sequence():
                return Sequence(tuple(at(child, here, scope) for child in value))  # type: ignore[misc]
            case tuple():
                return tuple(at(child, here, scope) for child in value)  # type: ignore[return-value]
        return value

    def node_at(node: Node, around: Surroundings, scope: Mapping[str, float]) -> Node:
        spec = catalogue[node.name]
        here = inside(node, spec, around)
        scope = scope if here is around else scope_of(here)
        own = {name: kind.sets for name, kind in spec.fields.items() if isinstance(kind, Arithmetic) and kind.sets}
        fields = ((n, set_to(here, own[n], v) if n in own else at(v, here, scope)) for n, v in node.fields)
        return Node(node.name, tuple(fields))

    def set_to(here: Surroundings, size: str, value: Value) -> Value:
        return None if value is None else Expression(number_text(getattr(here.sizes, size)))

    def scope_of(here: Surroundings) -> Mapping[str, float]:
        return here.sizes.scope(here.sizes.layer or 0)

    seen_from = Surroundings(sizes)
    scope = scope_of(seen_from)
    return at(at_layer(block, catalogue, scope), seen_from, scope)  # type: ignore[return-value]


def units(size: Size, width: int) -> int:
    """Return the number of units of a size at a width; ValueError if a multiple of the width is not whole."""
    exact = size.at(width)
    if exact.denominator > 1 or exact < 1:
        raise ValueError(f"{size.ratio} of the width {width} is {float(exact):g}, not a whole number of at least 1")
    return int(exact)


def fixed(value: Value) -> float | None:
    """Return the number of a gain or expression that is constant and not trained; otherwise None."""
    match value:
        case Gain(value=expression, trainable=False):
            return expression.constant
        case Expression():
            return value.constant
        case int() | float() if not isinstance(value, bool):
            return float(value)
    return None


def is_transparent(node: Node, rule: Transparent | None) -> bool:
    """Return whether a node has the values at which its component is equivalent to the field it keeps."""
    return rule is not None and _has(node, rule.when)


def _has(node: Node, values: Mapping[str, float | bool]) -> bool:
    """Return whether the fields of a node hold these values and are not trained."""
    return all(
        node[name] is value if isinstance(value, bool) else fixed(node[name]) == value for name, value in values.items()
    )


def _sequence(parts: Sequence, catalogue: Catalogue) -> Sequence:
    spliced: list[Node] = []
    for part in parts:
        node = _node(part, catalogue)
        rule = catalogue[node.name].transparent
        if rule is not None and is_transparent(node, rule):
            spliced.extend(_kept(node, rule))
        else:
            spliced.append(node)
    return Sequence(tuple(spliced))


def _kept(node: Node, rule: Transparent) -> Sequence:
    kept = Sequence() if rule.keep is None else node[rule.keep]
    assert isinstance(kept, Sequence)
    return kept


def _node(node: Node, catalogue: Catalogue) -> Node:
    reduced = Node(node.name, tuple((name, _value(value, catalogue)) for name, value in node.fields))
    rule = catalogue[node.name].same
    if rule is None or not _has(reduced, rule.when):
        return reduced
    return Node(rule.name, tuple((name, reduced[rule.fields[name]]) for name in catalogue[rule.name].fields))


def _value(value: Value, catalogue: Catalogue) -> Value:
    match value:
        case Expression():
            constant = value.constant
            return value if constant is None else Expression(number_text(constant))
        case Gain(value=expression, trainable=trainable, per=per):
            reduced = _value(expression, catalogue)
            assert isinstance(reduced, Expression)
            return Gain(reduced, trainable, per if trainable else "scalar")
        case Node():
            return _node(value, catalogue)
        case Sequence():
            return _sequence(value, catalogue)
        case Series():
            return Series(tuple(_value(child, catalogue) for child in value))
        case tuple():
            children = [_value(child, catalogue) for child in value]
            if any(isinstance(child, Node) and catalogue[child.name].chooses is not None for child in children):
                return tuple(children)  # type: ignore[return-value]  # their order depends on what stands there
            return tuple(sorted(children, key=lambda c: catalogue[c.name].stage if isinstance(c, Node) else 0))  # type: ignore[return-value]
    return value
