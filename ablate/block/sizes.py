"""Sizes: those that a model is built at, the values that fields of a component have there, and what a part costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor
from numbers import Integral
from typing import Any, NoReturn, Protocol, TypeAlias, TypeVar, runtime_checkable

from ablate.block.arithmetic import ArithmeticProblem, Expression, number_text
from ablate.block.catalogue import (
    BLOCK,
    Arithmetic,
    Bounded,
    Branches,
    ComponentSpec,
    FieldType,
    GainField,
    Number,
    Part,
    Parts,
    Sequenced,
    ValueField,
    Width,
    Word,
    added,
)
from ablate.block.expression import Gain, Node, Path, Sequence, Size, ValueAddress
from ablate.errors import InputError

COUNTED = ("n_layers", "d_model", "n_heads", "seq_len", "vocab_size")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The sizes of a model: n_layers blocks of width d_model with n_heads heads, for seq_len tokens out of vocab_size.

    `kv_heads` are the heads of keys and values, which queries share evenly (None: as many as heads), `head_width` is
    the width of each (None: d_model / n_heads). A component may have heads of its own: see `own_size`.

    `layer` is the block that the sizes are seen from (from 1); None outside the blocks. `repetition` is how often two
    tokens of one sequence are the same, if it was measured on the text: the correlation of their embeddings.
    `separator` is the token that ends a document. `source_len` is the length of the source that a decoder reads beside
    its own tokens (None: it reads none). Of tokens that stand for no text (None: there is none), `padding` fills up
    sequences or sources, `start` comes before a sequence, and `mask` takes the place of a token to be predicted.
    `sentinels` is the first of those that stand for hidden parts, which follow one another.

    Raises InputError for a size below 1 or not whole, and for a layer that the model does not have.
    """

    n_layers: int
    d_model: int
    n_heads: int
    seq_len: int
    vocab_size: int
    causal: bool = True
    layer: int | None = None
    repetition: float | None = None
    kv_heads: int | None = added(None)
    head_width: int | None = added(None)
    separator: int = added(0)
    source_len: int | None = added(None)
    padding: int | None = added(None)
    start: int | None = added(None)
    mask: int | None = added(None)
    sentinels: int | None = added(None)

    def __post_init__(self) -> None:
        counted = COUNTED if self.source_len is None else (*COUNTED, "source_len")
        wrong = [f"{name} is {getattr(self, name)!r}" for name in counted if not _counts(getattr(self, name))]
        if wrong:
            raise InputError(f"{', '.join(wrong)}\n  = each must be a whole number of at least 1")
        layer = self.layer
        if layer is not None and not (_counts(layer) and layer <= self.n_layers):
            raise InputError(
                f"there is no layer {layer!r} in a model of {self.n_layers} layers\n"
                f"  = layers are counted from 1: give one from 1 to {self.n_layers}"
            )

    def at(self, layer: int | None) -> Sizes:
        """Return the same sizes, seen from a layer; InputError if there is no layer of that number."""
        return replace(self, layer=layer)

    @property
    def d_head(self) -> int:
        """The width of one head: its own, or d_model / n_heads."""
        return self.head_width or self.d_model // self.n_heads

    @property
    def query_width(self) -> int:
        """The width of all queries together."""
        return self.n_heads * self.d_head

    @property
    def key_width(self) -> int:
        """The width of all keys together, and of all values."""
        return (self.kv_heads or self.n_heads) * self.d_head

    def scope(self, layer: int) -> dict[str, float]:
        """Return the names that arithmetic in layer `layer` (from 1) may use; unmeasured sizes are left out."""
        measured = {} if self.repetition is None else {"repetition": self.repetition}
        return measured | {
            "depth": self.n_layers,
            "layer": layer,
            "width": self.d_model,
            "heads": self.n_heads,
            "head_width": self.d_head,
            "context": self.seq_len,
            "vocabulary": self.vocab_size,
        }


def _counts(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1


# From the values of a node to the values of a component's Config, whether costs or modules are made of them.
#
# The walk over declared fields is written once, here. Numbers, flags and words are passed on; arithmetic and widths
# become numbers at the sizes of the model; gains, slots and sequences become *makers*, which the caller provides.

Maker: TypeAlias = Callable[..., Any]
"""Makes the thing in a slot: a Cost when costs are computed, a module when a model is built."""


@dataclass(frozen=True, slots=True)
class PartMaker:
    """The maker of one component: calls `make` with the widths of the slot.

    `config` is its Config, for a component around it that needs it, such as an activation shaped by another's curve.
    """

    config: Any
    make: Callable[..., Any]

    def __call__(self, *widths: Any) -> Any:
        return self.make(*widths)


@dataclass(frozen=True, slots=True)
class ValueMaker:
    """The maker of a reader of values that stand earlier: `count` of them, where a field takes several.

    It is called with the width that the values must have, "tokens" for the numbers of the tokens. `name` is the address
    as it is written.
    """

    count: int
    make: Callable[..., Any]
    name: str = ""

    def __call__(self, *width: int | str) -> Any:
        return self.make(*width)


@runtime_checkable
class GainMaker(Protocol):
    """Makes a gain for a number of channels; `value` is its fixed number, None if it is trained."""

    @property
    def value(self) -> float | None: ...

    def __call__(self, width: int) -> Any:
        """Make the gain for a signal of `width` channels (or heads, if it has one number per head)."""


@runtime_checkable
class Makers(Protocol):
    """Makers for the three kinds of field that hold more than a number."""

    def part(self, node: Node, path: Path) -> Maker:
        """Return a maker for the component at `path` of the block, to be called with the widths of its slot."""

    def gain(self, value: float, *, trainable: bool, per: str) -> GainMaker:
        """Return a maker for a gain that is fixed at, or starts at, `value`."""

    def earlier(self, address: ValueAddress, path: Path) -> ValueMaker:
        """Return a maker for the values that the field at `path` reads, to be called with the width they must have."""

    def sequence(self, sequence: Sequence, path: Path) -> Maker:
        """Return a maker for the sequence at `path` of the block, to be called without widths."""


def _no_network() -> NoReturn:
    raise InputError(
        "an activation outside the layers is solved for the network of a block, but it is in none\n"
        "  = give it a network of its own: network: stack"
    )


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The place of a node: the sizes of the model, seen from its layer; as text, `in layer 2 of 6`.

    `network` makes the network of the model's blocks, for what is solved for it (`network.py`).
    """

    sizes: Sizes
    network: Maker = _no_network

    def number(self, expression: Expression, where: str) -> float:
        """Return the value of arithmetic here; InputError if it has none."""
        try:
            if expression.constant is not None:
                return expression.constant
            scope = self.sizes.scope(self.sizes.layer or 0)
            if self.sizes.layer is None:
                del scope["layer"]
            return expression.at(scope)
        except ArithmeticProblem as problem:
            raise InputError(
                f"{where} is {expression.text}, which has no value {self}: {problem}\n"
                "  = change the expression or the sizes of the model"
            ) from None

    def bounded(self, expression: Expression, kind: Bounded, where: str) -> float:
        """Return the value of arithmetic here; InputError if it has none within the bounds."""
        value = self.number(expression, where)

        def message() -> str:
            sized = "" if expression.constant is not None else f", which is {number_text(value)} {self}"
            return f"{where} is {expression.text}{sized}"

        return within(value, kind, message)

    def width(self, size: Size, where: str) -> int:
        """Return the width in units; InputError if a multiple of the model's width is not whole and at least 1."""
        units, width = size.at(self.sizes.d_model), self.sizes.d_model
        if units < 1 or units.denominator > 1:
            parts = size.ratio.denominator
            wider = f", or a width that is a multiple of {parts}" if 1 < parts <= width else ""
            raise InputError(
                f"{where} is {size.ratio if isinstance(size.multiple, Fraction) else f'{size.multiple:g}'} times the "
                f"model's width of {width}, which makes {float(units):g}: not a whole number of units\n"
                f"  = give the number of units itself, such as {max(1, floor(units + Fraction(1, 2)))}{wider}"
            )
        return int(units)

    def __str__(self) -> str:
        layer = self.sizes.layer
        return "outside the layers" if layer is None else f"in layer {layer} of {self.sizes.n_layers}"


S = TypeVar("S", bound=Surroundings)


def inside(node: Node, spec: ComponentSpec, surroundings: S) -> S:
    """Return the surroundings that a component and what is inside it have: with the sizes that it sets for itself.

    Sizes are set in the order in which they are declared, each seen by those after it. Raises InputError as `bounded`.
    """
    for field, kind in spec.sizes_set:
        value = node[field]
        if isinstance(value, Expression):
            size = int(surroundings.bounded(value, kind, f"{node.name}.{field}"))
            sizes = replace(surroundings.sizes, **{kind.sets: size})  # type: ignore[arg-type]
            surroundings = replace(surroundings, sizes=sizes)
    return surroundings


def refuse_pattern(spec: ComponentSpec) -> None:
    """Raise InputError for a pattern over layers: in a layer, its alternative stands in its place (`layers.py`)."""
    if spec.chooses is not None:
        raise InputError(f"{spec.name} is used outside the layers\n  = give a single component there")


def within(value: float, kind: Bounded, message: Callable[[], str]) -> float:
    """Return the value if it is within the bounds; otherwise raise an InputError that starts with `message`."""
    expected = kind.expected(value)
    if expected is not None:
        raise InputError(f"{message()}\n  = give {expected}")
    return value


def field_values(
    node: Node, spec: ComponentSpec, surroundings: Surroundings, makers: Makers, path: Path = ()
) -> dict[str, Any]:
    """Return a value for each field that `spec` declares, ready for its Config: `spec.config(**field_values(...))`.

    `surroundings` are those inside the node, `path` is its place in the block. Raises InputError if arithmetic or a
    width has no value, or if a number is out of its bounds.
    """

    refuse_pattern(spec)

    def filled(field: str, kind: FieldType) -> Any:
        return _filled(node[field], kind, f"{node.name}.{field}", surroundings, makers, (*path, field))

    return {field: filled(field, kind) for field, kind in spec.fields.items()}


def _filled(value: Any, kind: FieldType, where: str, surroundings: Surroundings, makers: Makers, path: Path) -> Any:
    match kind, value:
        case Number(), int() | float():
            return within(value, kind, lambda: f"{where} is {number_text(value)}")
        case Arithmetic(optional=True), None:
            return None
        case Arithmetic(sets=size), Expression() if size:
            return getattr(surroundings.sizes, size)
        case Arithmetic(), Expression():
            return surroundings.bounded(value, kind, where)
        case Word(stack=fields), str() if fields:
            return surroundings.network() if value == BLOCK else None
        case GainField(), Gain():
            return makers.gain(surroundings.number(value.value, where), trainable=value.trainable, per=value.per)
        case Width(), Size():
            return surroundings.width(value, where)
        case ValueField(optional=True), None:
            return None
        case ValueField(), ValueAddress():
            return makers.earlier(value, path)
        case Part(), None:
            return None
        case Part(), Node():
            return makers.part(value, path)
        case Part(several=True), tuple():
            return tuple((node.name, makers.part(node, (*path, node.name))) for node in value)
        case Parts(), tuple():
            return tuple((node.name, makers.part(node, (*path, node.name))) for node in value)
        case Sequenced(), Sequence():
            return makers.sequence(value, path)
        case Branches(), tuple():
            return tuple(makers.sequence(branch, (*path, index)) for index, branch in enumerate(value))
        case ((Arithmetic() | GainField() | Width() | ValueField() | Part() | Parts() | Sequenced() | Branches()), _):
            raise TypeError(f"{where} holds {value!r}, which is no {type(kind).__name__}")
    return value


# What a part costs, in parameters and FLOPs, independently of any machine.

PASSES = 3
"""Training multiplies the FLOPs of a product by this: itself, and one more product for the gradient of each factor."""


@dataclass(frozen=True, slots=True)
class Cost:
    """`parameters` trained, and `flops` of matrix products in one forward pass over one sequence of seq_len tokens.

    A product of [m, k] and [k, n] counts 2·m·k·n; norms, activations and softmax count nothing; causal attention is
    counted in full. This is the convention of `torch.utils.flop_counter`, against which it is tested.

    The backward pass takes twice the FLOPs of the forward pass, less those `spared`: of gradients that are not needed,
    such as that of a frozen matrix, and of products that no loss depends on. What a kernel recomputes in its backward
    pass to save memory is not counted.

    >>> Cost(parameters=3) + Cost(parameters=4, flops=10, spared=5)
    Cost(parameters=7, flops=10, spared=5)
    >>> Cost(flops=10, spared=5).training_flops
    25
    """

    parameters: int = 0
    flops: int = 0
    spared: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.parameters + other.parameters, self.flops + other.flops, self.spared + other.spared)

    @property
    def training_flops(self) -> int:
        """FLOPs of training on one sequence: forward and backward pass, 3 · flops - spared."""
        return PASSES * self.flops - self.spared

    def forward_only(self) -> Cost:
        """Return the cost without gradients: the whole backward pass is spared."""
        return Cost(self.parameters, self.flops, (PASSES - 1) * self.flops)
