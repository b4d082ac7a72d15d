"""Hypothesis strategies for blocks over the real catalogue: any component in any place that its fields allow."""

from __future__ import annotations

import math
from random import Random
from typing import Any

from builders import CATALOGUE, residual
from example_counts import examples_of
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from ablate.block.arithmetic import Expression, parse
from ablate.block.catalogue import (
    BLOCK,
    Arithmetic,
    Bounded,
    Branches,
    FieldType,
    Flag,
    GainField,
    Number,
    Part,
    Parts,
    Sequenced,
    ValueField,
    Width,
    Word,
)
from ablate.block.expression import Block, Gain, Node, Sequence, Size, Value, ValueAddress
from ablate.block.reader import read_multiple

examples = settings(max_examples=examples_of(50), deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""Enough examples to find what is common, few enough for every push, on machines that are busy."""

NUMBERS = st.one_of(st.integers(0, 40), st.sampled_from([0.3, 0.5, 1e-5, 1e-8, 2.5, 1e17]))
TEXTS = (
    "1/sqrt(2*depth)",
    "1/sqrt(head_width)",
    "-layer/depth",
    "min(1,width/heads)",
    "2**-layer",
    "1/2",
    "exp(-depth)",
)
SOURCES = ("layers.first.in", "layers.previous.out", "layers.(depth+1-layer).mlp", "layers.2.attention.value", "tokens")
SEVERAL = ("layers.*.in", "layers.*.out", "layers.first.in")


def expressions(kind: Arithmetic = Arithmetic()) -> st.SearchStrategy[Expression]:
    """Arithmetic that can be read: its constants are within the bounds, what depends on the sizes may not be."""
    constants = NUMBERS if kind == Arithmetic() else numbers(kind)
    fitting = (text for text in TEXTS if (value := parse(text).constant) is None or kind.expected(value) is None)
    return st.one_of(constants, st.sampled_from(tuple(fitting))).map(parse)


@st.composite
def gains(draw: st.DrawFn, kind: GainField) -> Gain:
    return Gain(draw(expressions()), draw(st.booleans()), draw(st.sampled_from(kind.per)))


@st.composite
def numbers(draw: st.DrawFn, kind: Bounded) -> float:
    low = kind.at_least if kind.at_least is not None else kind.above if kind.above is not None else -3.0
    high = kind.at_most if kind.at_most is not None else kind.below if kind.below is not None else low + 50.0
    shares = st.sampled_from([0.25, 1e-8, 0.5, 1.0 if kind.below is None else 0.75, 0.0 if kind.above is None else 0.1])
    value = low + (high - low) * draw(shares)
    return float(math.ceil(value)) if kind.whole else value


def values(kind: FieldType, depth: int) -> st.SearchStrategy[Any]:
    match kind:
        case Number():
            return numbers(kind)
        case Flag():
            return st.booleans()
        case Word(choices=choices):
            return st.sampled_from(choices)
        case Arithmetic(optional=True):
            return st.none() | expressions(kind)
        case Arithmetic():
            return expressions(kind)
        case ValueField(several=several):
            return st.sampled_from(SEVERAL if several else SOURCES).map(ValueAddress)
        case GainField():
            return gains(kind)
        case Width():
            units = st.integers(1, 4096).map(lambda n: Size(units=n))
            texts = st.builds("{}/{}x".format, st.integers(1, 9999), st.integers(1, 9999))
            multiples = st.sampled_from([0.5, 1.0, 4.0, 2.6667]) | texts.map(read_multiple)
            return units | multiples.map(lambda m: Size(multiple=m))
        case Part(slot=slot, optional=optional):
            found = st.deferred(lambda: nodes(slot, depth))
            return st.none() | found if optional else found
        case Parts(slot=slot):
            names = st.lists(st.sampled_from(CATALOGUE.of_slot(slot)), unique=True, max_size=3)
            return names.flatmap(lambda chosen: st.tuples(*(named(name, depth) for name in chosen)))
        case Sequenced():
            return sequences(depth)
        case Branches():
            return st.lists(sequences(depth), max_size=3).map(tuple)
    raise AssertionError(f"no strategy for {kind}")


def valid(node: Node) -> Node:
    """The node as it can be read: beside the block's own network the numbers of a stack are those without an effect."""
    words = {field: kind for field, kind in CATALOGUE[node.name].fields.items() if isinstance(kind, Word)}
    stacks = [kind.stack for field, kind in words.items() if kind.stack and node[field] == BLOCK]
    return node.replace({field: parse(text) for stack in stacks for field, text in stack})


@st.composite
def named(draw: st.DrawFn, name: str, depth: int) -> Node:
    fields = CATALOGUE[name].fields
    return valid(Node(name, tuple((field, draw(values(kind, depth - 1))) for field, kind in fields.items())))


def nodes(slot: str, depth: int) -> st.SearchStrategy[Node]:
    names = CATALOGUE.of_slot(slot)
    if depth <= 0:
        holding = (Sequenced, Branches)
        names = tuple(n for n in names if not any(isinstance(k, holding) for k in CATALOGUE[n].fields.values()))
    return st.sampled_from(names).flatmap(lambda name: named(name, depth))


def sequences(depth: int) -> st.SearchStrategy[Sequence]:
    return st.lists(st.deferred(lambda: nodes("part", depth)), max_size=3).map(lambda parts: Sequence(tuple(parts)))


def blocks(depth: int = 2) -> st.SearchStrategy[Block]:
    """Any block, combinators nested up to `depth` deep."""
    return sequences(depth)


@st.composite
def relatives(draw: st.DrawFn, block: Block) -> Block:
    """A block that shares much with another: a few of its parts changed, dropped, doubled or wrapped."""
    parts = list(block)
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(parts)))
        match draw(st.sampled_from(["insert", "drop", "double", "change", "branch"])):
            case "insert":
                parts.insert(at, draw(nodes("part", 1)))
            case "drop" if parts:
                parts.pop(at % len(parts))
            case "double" if parts:
                parts.insert(at, parts[at % len(parts)])
            case "change" if parts:
                parts[at % len(parts)] = draw(changed(parts[at % len(parts)]))
            case "branch" if parts:
                parts[at % len(parts)] = draw(rebranched(parts[at % len(parts)]))
    return Sequence(tuple(parts))


@st.composite
def changed(draw: st.DrawFn, node: Node) -> Node:
    """One field of a node redrawn."""
    fields = CATALOGUE[node.name].fields
    if not fields:
        return node
    field = draw(st.sampled_from(sorted(fields)))
    return valid(node.replace({field: draw(values(fields[field], 1))}))


@st.composite
def rebranched(draw: st.DrawFn, node: Node) -> Node:
    """The sequences a node holds, each replaced by a relative."""
    new = {}
    for field, kind in CATALOGUE[node.name].fields.items():
        value = node[field]
        if isinstance(kind, Sequenced) and isinstance(value, Sequence):
            new[field] = draw(relatives(value))
        elif isinstance(kind, Branches) and isinstance(value, tuple):
            new[field] = tuple(draw(relatives(branch)) for branch in value if isinstance(branch, Sequence))
    return node.replace(new)


def pairs() -> st.SearchStrategy[tuple[Block, Block]]:
    """Two blocks, akin or not."""
    return blocks().flatmap(lambda block: st.tuples(st.just(block), relatives(block) | blocks()))


def respelt(value: Value, chance: Random) -> Value:
    """The same said otherwise: bare parts as a skipless residual, numbers as arithmetic, stages out of order."""
    match value:
        case Sequence():
            parts: list[Node] = []
            for part in value:
                part = respelt(part, chance)
                parts.append(residual(part, skip=0) if chance.random() < 0.3 else part)
            return Sequence(tuple(parts))
        case Node(name=name, fields=fields):
            return Node(name, tuple((field, respelt(child, chance)) for field, child in fields))
        case Gain(trainable=False, value=expression) if expression.constant is not None:
            return Gain(type(expression)(f"{expression.text}+0"), False, chance.choice(["scalar", "channel"]))
        case tuple() if all(isinstance(child, Node) for child in value):
            first = [respelt(c, chance) for c in value if CATALOGUE[c.name].stage == 0]
            later = [respelt(c, chance) for c in value if CATALOGUE[c.name].stage != 0]
            return tuple(later + first) if chance.random() < 0.5 else tuple(first + later)
        case tuple():
            return tuple(respelt(child, chance) for child in value)
    return value
