"""The normal form of a block: descriptions that train to the same bits have the same normal form.

Rules admitted (each side, compiled as written, trains to the same bits on CPU; see tests/compiler):

* constant arithmetic becomes its number; a fixed gain holds one number, whatever `per` says;
* a component at its transparent values becomes the field it keeps (a residual with fixed skip 0 and gain 1 becomes its
  branch);
* a component at the values at which it declares to be the `Same` as another becomes that one (shaped attention with
  fixed gains 0, 1 and 0 becomes softmax attention);
* components of one list that act at different stages are sorted by stage.

Not admitted: equality only at initialisation (a trainable gain on a matrix), and a norm directly after a norm, since
their epsilons differ.
"""

from __future__ import annotations

from collections.abc import Mapping

from ablate.block.arithmetic import Expression, number_text
from ablate.block.catalogue import Catalogue, Transparent
from ablate.block.expression import Block, Gain, Node, Sequence, Size, Value


def normalise(block: Block, catalogue: Catalogue) -> Block:
    """Return the normal form of a block; normalising is idempotent."""
    return _sequence(block, catalogue)


def resolve(block: Block, scope: Mapping[str, float]) -> Block:
    """Return the block as one layer sees it: arithmetic as numbers, multiples of the width as units.

    `scope` gives depth, layer, width, heads, head_width and context. Raises ArithmeticProblem if an expression has no
    value.
    """

    def at(value: Value) -> Value:
        match value:
            case Expression():
                return Expression(number_text(value.at(scope)))
            case Gain():
                return Gain(Expression(number_text(value.value.at(scope))), value.trainable, value.per)
            case Size(units=None):
                return Size(units=units(value, int(scope["width"])))
            case Node():
                return Node(value.name, tuple((name, at(child)) for name, child in value.fields))
            case Sequence():
                return Sequence(tuple(at(child) for child in value))  # type: ignore[misc]
            case tuple():
                return tuple(at(child) for child in value)  # type: ignore[return-value]
        return value

    return at(block)  # type: ignore[return-value]


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
        case tuple():
            children = [_value(child, catalogue) for child in value]
            return tuple(sorted(children, key=lambda c: catalogue[c.name].stage if isinstance(c, Node) else 0))  # type: ignore[return-value]
    return value
