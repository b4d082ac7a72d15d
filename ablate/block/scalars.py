"""Reading the fields that hold no other component: numbers, flags, words, widths, arithmetic and gains."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import NoReturn

from ablate.block import arithmetic, which_layers
from ablate.block.arithmetic import ArithmeticProblem, Expression
from ablate.block.catalogue import (
    Arithmetic,
    Bounded,
    FieldType,
    Flag,
    GainField,
    Layers,
    Number,
    ValueField,
    Width,
    Word,
)
from ablate.block.expression import Gain, Size, Value, ValueAddress
from ablate.block.value_addresses import fault_of
from ablate.block.which_layers import WhichLayers
from ablate.source.located import Items, Located, Mapping, Scalar
from ablate.source.problems import Problems, quote

GAIN_KEYS = ("init", "trainable", "per")
EMPTY = (None, "none")
"""How an optional field is left empty."""
SOURCES = (
    "in a layer: layers.first.attention.value, layers.previous.out, layers.(depth+1-layer).out; in this: attention.key",
    "before the layers: tokens, embedding, positions, entry_norm; the stream before the first: layers.first.in",
)
"""What the address of a value looks like."""
LARGEST_MULTIPLE = 1e6
FRACTION = re.compile(r"([0-9]{1,7}) ?/ ?([0-9]{1,7})x")


class Invalid(Exception):
    """Raised after a mistake was noted: the value being read does not exist."""


def read_scalar(
    located: Located,
    kind: FieldType,
    problems: Problems,
    extended: Callable[[Located, FieldType], Value] = lambda located, kind: None,
) -> Value:
    """Read a value of a kind that holds no component; raises Invalid after noting the mistake.

    `extended` reads what only a grammar understands; it returns None for anything else.
    """
    if isinstance(kind, GainField):
        return _gain(located, kind, problems, extended)
    if isinstance(kind, Arithmetic) and kind.optional and isinstance(located, Scalar) and located.value in EMPTY:
        return None
    if isinstance(kind, ValueField):
        if kind.optional and isinstance(located, Scalar) and located.value in EMPTY:
            return None
        return _source(located, kind, problems)
    if isinstance(kind, Layers):
        return _layers(located, problems)
    scalar = _scalar(located, kind, problems)
    match kind:
        case Number():
            return _number(scalar, kind, problems)
        case Flag():
            if not isinstance(scalar.value, bool):
                fail(problems, f"expected true or false, got {shown(scalar)}", scalar)
            return scalar.value
        case Word(choices=choices):
            if scalar.value not in choices:
                fail_unknown(problems, f"unknown word {shown(scalar)}", scalar, choices, "one of")
            return str(scalar.value)
        case Width():
            return _width(scalar, problems)
        case Arithmetic():
            return _arithmetic(scalar, kind, problems)
    raise TypeError(f"{type(kind).__name__} holds more than a scalar")


def fail(problems: Problems, message: str, located: Located, notes: Iterable[str] = ()) -> NoReturn:
    """Note a mistake and give up on the value."""
    problems.add(message, located.span, notes=notes)
    raise Invalid


def fail_unknown(
    problems: Problems,
    message: str,
    word: Scalar,
    choices: Iterable[str],
    lead: str,
    command: str = "",
    notes: Iterable[str] = (),
) -> NoReturn:
    """Note a word that is none of `choices` (see `Problems.add_unknown`), and give up on the value."""
    problems.add_unknown(message, word.span, word.text, choices, lead, command=command, notes=notes)
    raise Invalid


def shown(scalar: Scalar) -> str:
    """Return a scalar as it is shown in a message."""
    return quote(scalar.value) if isinstance(scalar.value, str) else scalar.text or "nothing"


def _scalar(located: Located, kind: FieldType, problems: Problems) -> Scalar:
    if not isinstance(located, Scalar):
        what = "a list" if isinstance(located, Items) else "a mapping"
        fail(problems, f"expected {_described(kind)}, got {what}", located)
    return located


def _described(kind: FieldType) -> str:
    match kind:
        case Number():
            return "a number"
        case Flag():
            return "true or false"
        case Word(choices=choices):
            return f"one of {', '.join(choices)}"
        case Width():
            return "a width"
    return "a number or an expression"


def _source(located: Located, kind: ValueField, problems: Problems) -> ValueAddress:
    """Read the address of a value, as it is or as `{from: address}`."""
    inner = located.entries[0][1] if isinstance(located, Mapping) and [*located] == ["from"] else located
    if not isinstance(inner, Scalar) or not isinstance(inner.value, str):
        what = shown(inner) if isinstance(inner, Scalar) else "a mapping" if isinstance(inner, Mapping) else "a list"
        fail(problems, f"expected the address of a value that stands earlier, got {what}", inner, SOURCES)
    if fault := fault_of(inner.value, several=kind.several):
        problems.add(str(fault), inner.within(fault.start, fault.end), notes=SOURCES)
        raise Invalid
    return ValueAddress(inner.value)


def _number(scalar: Scalar, kind: Number, problems: Problems) -> float:
    if isinstance(scalar.value, bool) or not isinstance(scalar.value, int | float):
        fail(problems, f"expected a number, got {shown(scalar)}", scalar)
    value = float(scalar.value)
    if not math.isfinite(value):
        fail(problems, f"expected a finite number, got {scalar.text}", scalar)
    _check_bounds(value, kind, scalar, problems)
    return value


def _check_bounds(value: float, kind: Bounded, scalar: Scalar, problems: Problems) -> None:
    expected = kind.expected(value)
    if expected is not None:
        fail(problems, f"expected {expected}, got {shown(scalar)}", scalar)


def _width(scalar: Scalar, problems: Problems) -> Size:
    value = scalar.value
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return Size(units=value)
    multiple = read_multiple(value) if isinstance(value, str) else None
    if multiple is not None:
        return Size(multiple=multiple)
    fail(
        problems,
        f"expected a width, got {shown(scalar)}",
        scalar,
        ("a whole number, or a multiple of the model's: 4x, 8/3x",),
    )


def read_multiple(text: str) -> float | Fraction | None:
    """Read a multiple of the model's width such as `4x` or `8/3x`; None for any other text.

    A fraction that is exactly a float becomes that float: `5/2x` is `2.5x`.
    """
    try:
        if fraction := FRACTION.fullmatch(text):
            exact = Fraction(int(fraction[1]), int(fraction[2]))
            multiple = float(exact) if Fraction(float(exact)) == exact else exact
        else:
            multiple = float(text.removesuffix("x")) if text.endswith("x") else math.nan
    except (ValueError, ZeroDivisionError):
        return None
    return multiple if 0 < multiple <= LARGEST_MULTIPLE else None


def _arithmetic(scalar: Scalar, kind: Bounded, problems: Problems) -> Expression:
    """Read arithmetic; a constant must be within its bounds, anything else is checked at the sizes of a model."""
    if isinstance(scalar.value, bool) or scalar.value is None:
        fail(problems, f"expected a number or an expression, got {shown(scalar)}", scalar)
    try:
        expression = arithmetic.parse(scalar.value)
    except ArithmeticProblem as problem:
        notes = (
            f"sizes known here: {', '.join(arithmetic.NAMES)}; and pi",
            f"functions: {', '.join(arithmetic.FUNCTIONS)}; operators: + - * / **",
        )
        problems.add(str(problem), scalar.within(problem.start, problem.end), notes=notes)
        raise Invalid from None
    if expression.constant is not None:
        _check_bounds(expression.constant, kind, scalar, problems)
    return expression


def _layers(located: Located, problems: Problems) -> WhichLayers:
    """Read which layers: a word, `{every: 4}`, or a comparison."""
    notes = ("such as first, last, {every: 4}, layer <= depth/2",)
    if isinstance(located, Mapping):
        if [key.value for key, _ in located.entries] != [which_layers.EVERY]:
            fail(problems, "a mapping can only say {every: 4} here", located, notes)
        number = _number(_scalar(located.entries[0][1], Number(), problems), Number(at_least=2, whole=True), problems)
        return WhichLayers(every=int(number))
    if not isinstance(located, Scalar) or not isinstance(located.value, str):
        what = shown(located) if isinstance(located, Scalar) else "a list"
        fail(problems, f"expected which layers, got {what}", located, notes)
    try:
        return which_layers.parse(located.value)
    except ArithmeticProblem as problem:
        signs = f"sizes known here: {', '.join(sorted(which_layers.KNOWN))}; signs: < <= > >= == and"
        problems.add(str(problem), located.within(problem.start, problem.end), notes=(*notes, signs))
        raise Invalid from None


def _gain(
    located: Located, kind: GainField, problems: Problems, extended: Callable[[Located, FieldType], Value]
) -> Gain:
    if isinstance(located, Scalar):
        return Gain(_arithmetic(located, Arithmetic(), problems))
    if not isinstance(located, Mapping):
        fail(problems, "a gain is a number, an expression, or {init: …, trainable: true}", located)
    for key, _ in located.entries:
        if key.value not in GAIN_KEYS:
            fail_unknown(problems, f"a gain has no {quote(key.text)}", key, GAIN_KEYS, "it has")
    if "init" not in located:
        fail(problems, "a gain needs `init`, the number it is or starts at", located)
    start = extended(located["init"], Arithmetic())
    if start is None:
        start = read_scalar(located["init"], Arithmetic(), problems)
    trainable = read_scalar(located["trainable"], Flag(), problems) if "trainable" in located else True
    per = read_scalar(located["per"], Word(kind.per), problems) if "per" in located else "scalar"
    return Gain(start, bool(trainable), str(per))  # type: ignore[arg-type]  # in a rule, the hole for what it derives
