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

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from collections.abc import Sequence as Items
from fractions import Fraction
from typing import Any, TypeAlias

from ablate.block.address import resolved_address
from ablate.block.arithmetic import Expression, number_text
from ablate.block.catalogue import (
    Arithmetic,
    Catalogue,
    FieldType,
    Part,
    additions_at_default,
    identity_fields,
    without_added,
)
from ablate.block.expression import Block, Gain, Node, Sequence, Series, Size, Value, ValueAddress, map_nodes
from ablate.block.layers import at_layer
from ablate.block.sizes import Sizes, Surroundings, inside


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
                return resolved_address(value, scope)
        return map_nodes(value, lambda node: node_at(node, here, scope))

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
    return at_layer(block, catalogue, scope).map(lambda node: node_at(node, seen_from, scope))


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


def _has(node: Node, values: Mapping[str, float | bool]) -> bool:
    """True if the fields of a node hold these values and are not trained."""
    return all(
        node[name] is value if isinstance(value, bool) else fixed(node[name]) == value for name, value in values.items()
    )


def _sequence(parts: Sequence, catalogue: Catalogue) -> Sequence:
    spliced: list[Node] = []
    for part in parts:
        node = _node(part, catalogue)
        rule = catalogue[node.name].transparent
        if rule is not None and _has(node, rule.when):
            kept = Sequence() if rule.keep is None else node[rule.keep]
            assert isinstance(kept, Sequence)
            spliced.extend(kept)
        else:
            spliced.append(node)
    return Sequence(tuple(spliced))


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
            children = [_node(c, catalogue) if isinstance(c, Node) else _sequence(c, catalogue) for c in value]
            if any(isinstance(child, Node) and catalogue[child.name].chooses is not None for child in children):
                return tuple(children)  # their order depends on what stands there
            return tuple(sorted(children, key=lambda c: catalogue[c.name].stage if isinstance(c, Node) else 0))
    return value


# The effective form of a block, without what has no effect at the sizes of a model, so that equal models are equal.
#
# `kv_heads` that are as many as the heads, a window as long as the context, parts of the first layer in the second:
# each component says in its own file what it comes to (`effective` of its Config). A normal form holds at all sizes
# and is part of every identity. An effective form holds in one layer of one model, and only says that two variants of
# a plan are the same: each is built as it is written.


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
                return Sequence(tuple(node for part in value for node in components_of(of(part, here))))
            case tuple():
                return tuple(each for part in value if (each := of(part, here)) is not None)  # type: ignore[misc]
        return value

    def of_node(node: Node, here: Surroundings) -> Value:
        spec = catalogue[node.name]
        within = inside(node, spec, here)
        fields = {name: as_field(spec.fields[name], of(value, within)) for name, value in node.fields}
        fields |= {name: None for name in spec.own_inits if own is not None and fields[name] == own}
        reduced, comes_to = Node(node.name, tuple(fields.items())), getattr(spec.config, "effective", None)
        return reduced if comes_to is None else comes_to(reduced, here.sizes)

    def as_field(kind: FieldType, value: Value) -> Value:
        return one_or_more(components_of(value)) if isinstance(kind, Part) else value

    form = of(block, Surroundings(sizes))
    assert isinstance(form, Sequence)
    form = normalise(form, catalogue)
    return form if form == block else effective(form, sizes, catalogue, init)


def effective_component(node: Node, sizes: Sizes, catalogue: Catalogue) -> Node | None:
    """Return the effective form of a component that stands alone, such as the model's own init."""
    parts = effective(Sequence((node,)), sizes, catalogue).parts
    return parts[0] if parts else None


def components_of(value: Value) -> tuple[Node, ...]:
    match value:
        case Sequence():
            return value.parts
        case tuple():
            return tuple(node for part in value for node in components_of(part))
        case Node():
            return (value,)
    return ()


def one_or_more(nodes: tuple[Node, ...]) -> Value:
    """Return components as a slot for several holds them: none, one, or a list."""
    return nodes if len(nodes) > 1 else nodes[0] if nodes else None


# The canonical text of a value, which is equal exactly for equal values, and its hash.

DIGITS = 12
Canonical: TypeAlias = "bool | int | float | str | Items[Canonical] | Mapping[str, Canonical] | None"


def fingerprint(block: Block, catalogue: Catalogue) -> str:
    """Return the first 12 hex digits of the SHA-256 of the block's normal form."""
    return digest(without_added(normalise(block, catalogue), catalogue))


def digest(value: Any, digits: int = DIGITS) -> str:
    """Return the first hex digits of the SHA-256 of `canonical(value)`, keys sorted."""
    text = json.dumps(canonical(value), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


def canonical(value: Any) -> Canonical:
    """Return plain JSON data for an expression, frozen dataclass or document; equal numbers give equal text."""
    match value:
        case None | bool() | str():
            return value
        case int() | float():
            return int(value) if float(value).is_integer() and abs(value) < 2**53 else float(value)
        case Expression(text=text):
            return {"arithmetic": text}
        case Gain():
            return {"gain": value.value.text, "trainable": value.trainable, "per": value.per}
        case Size():
            written = str(value.multiple) if isinstance(value.multiple, Fraction) else canonical(value.multiple)
            return {"multiple": written, "units": value.units}
        case ValueAddress(text=text):
            return {"source": text}
        case Node():
            return {"component": value.name, **{name: canonical(child) for name, child in value.fields}}
        case Sequence() | tuple() | list():
            return [canonical(child) for child in value]
        case dict():
            return {str(key): canonical(child) for key, child in value.items()}
    if dataclasses.is_dataclass(value):
        return {name: canonical(getattr(value, name)) for name in identity_fields(value)}
    if hasattr(value, "model_dump"):
        return canonical(value.model_dump(mode="python", exclude=additions_at_default(value)))
    raise TypeError(f"{type(value).__name__} has no canonical form")
