"""Reader: a block from located YAML, against a catalogue; each mistake is noted at its place, and reading continues."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from collections.abc import Mapping as Map
from fractions import Fraction
from typing import NoReturn, TypeVar

from ablate.block import arithmetic
from ablate.block.address import address_fault
from ablate.block.arithmetic import ArithmeticProblem, Expression, WhichLayers
from ablate.block.catalogue import (
    BLOCK,
    STACK,
    Arithmetic,
    Bounded,
    Branches,
    Catalogue,
    ComponentSpec,
    FieldType,
    Flag,
    GainField,
    Layers,
    Number,
    Part,
    Parts,
    Sequenced,
    Several,
    ValueField,
    Width,
    Word,
    in_slot,
    value_before,
)
from ablate.block.expression import Block, Gain, Node, Sequence, Series, Size, Value, ValueAddress
from ablate.source.located import Items, Located, Mapping, Scalar
from ablate.source.problems import Problems, nearest, quote
from ablate.source.yaml import parse_yaml

T = TypeVar("T")
Extension = Callable[[Located, FieldType], "Value | None"]
"""Reads what only a grammar understands (`$rule`, `let`, `one_of`, `between`); None for anything else."""

LISTING = "ablate list components"
OF_YOUR_OWN = "for a component of your own: --plugin FILE, or a package with the entry point ablate.components"

MOST_PARTS = 12  # the most parts in a row: the work of comparing two blocks grows with a high power of this number
MOST_IN_A_RULE = 2 * MOST_PARTS
"""The most parts in a row in a rule, where some may derive nothing; derived blocks are compared when proposed."""


class Reader:
    """Reads block expressions. `defaults` are the values, still located, of fields that may be left out."""

    def __init__(
        self,
        catalogue: Catalogue,
        defaults: Map[str, Map[str, Located]],
        problems: Problems,
        extension: Extension | None = None,
    ):
        self.catalogue, self.problems, self.extension = catalogue, problems, extension
        self._located_defaults = defaults
        self._defaults: dict[tuple[str, str], Value] = {}
        self._under_way: set[tuple[str, str]] = set()
        self._plain: Reader = self

    def extended(self, extension: Extension) -> Reader:
        """Return a reader that also reads what `extension` understands; defaults are read once, without it."""
        other = Reader(self.catalogue, self._located_defaults, self.problems, extension)
        other._defaults, other._under_way, other._plain = self._defaults, self._under_way, self._plain
        return other

    def block(self, located: Located) -> Block | None:
        """Read a whole block; None if it has mistakes (they are in the problems)."""
        try:
            value = self.value(located, Sequenced())
        except Invalid:
            return None
        assert isinstance(value, Sequence)
        return value

    def value(self, located: Located, kind: FieldType) -> Value:
        """Read a value of one kind; raises Invalid after noting the mistakes."""
        if (extended := self._extended(located, kind)) is not None:
            return extended
        match kind:
            case Part():
                return self._part(located, kind)
            case Parts():
                return self._parts(located, kind)
            case Sequenced():
                return self._sequence(located)
            case Branches():
                return self._branches(located)
            case Several():
                return self._several(located, kind)
        return read_scalar(located, kind, self.problems, self._extended)

    def default(self, component: str, field: str) -> Value:
        """Read the default of a component's field; KeyError if the grammar gives none."""
        key = (component, field)
        if key not in self._defaults:
            located = self._located_defaults[component][field]
            if key in self._under_way:
                fail(self.problems, f"the default of {component}.{field} contains itself", located)
            self._under_way.add(key)
            try:
                self._defaults[key] = self._plain.value(located, self.catalogue[component].fields[field])
            finally:
                self._under_way.discard(key)
        return self._defaults[key]

    def node(self, name: Scalar, body: Located | None, kind: Part | Parts | Sequenced) -> Node:
        """Read one component from its name and its body; `kind` is that of the place in which it stands."""
        spec = self._spec(name, _slot(kind))
        written = self._written(spec, body)
        self._refuse_stack_beside_block(spec, written)
        known = self._located_defaults.get(spec.name, {})
        given = {*written, *known, *spec.added}
        missing = [field for field in spec.fields if field not in given]
        if missing:
            self._note_missing(spec, missing, name)
        there = tuple(field for field in spec.fields if field not in missing)
        fields = self._each(there, lambda field: (field, self._field(spec, field, written, kind)))
        if missing:
            raise Invalid
        return Node(spec.name, tuple(fields))

    def _extended(self, located: Located, kind: FieldType) -> Value:
        """Read a reference with the grammar; None for anything else. Outside the rules of a grammar it is a mistake."""
        if self.extension is not None and (extended := self.extension(located, kind)) is not None:
            return extended
        if is_reference(located):
            what = quote(located.value) if isinstance(located, Scalar) else "this"
            notes = ("write the value itself here",)
            fail(self.problems, f"{what} is only allowed in the rules of a grammar", located, notes)
        return None

    def _field(self, spec: ComponentSpec, field: str, written: Map[str, Located], place: FieldType) -> Value:
        if field in written:
            return self.value(written[field], in_slot(spec.fields[field], place))
        if field in spec.added and field not in self._located_defaults.get(spec.name, {}):
            return value_before(spec, field)
        return self.default(spec.name, field)

    def _refuse_stack_beside_block(self, spec: ComponentSpec, written: Map[str, Located]) -> None:
        """Refuse fields of a stack beside the block's own network, except at the values that stand there anyway."""
        for field, value in written.items():
            kind = spec.fields[field]
            if isinstance(kind, Word) and kind.stack and isinstance(value, Scalar) and value.value == BLOCK:
                beside = [name for name, text in kind.stack if name in written and not _reads(written[name], text)]
                for name in beside:
                    message = f"{spec.name}.{name} has no effect beside {field}: {BLOCK}, whose skips and layers count"
                    way_out = f"leave {name} out, or write {field}: {STACK}"
                    self.problems.add(message, written[name].span, notes=(way_out,))
                if beside:
                    raise Invalid

    def _note_missing(self, spec: ComponentSpec, missing: list[str], name: Scalar) -> None:
        values = "a value" if len(missing) == 1 else "values"
        message = f"{spec.name} needs {values} for {', '.join(missing)}"
        written = ", ".join(f"{field}: …" for field in missing)
        way_out = f"here, or for every {spec.name} in the grammar: `defaults: {{{spec.name}: {{{written}}}}}`"
        self.problems.add(message, name.span, notes=(way_out,))

    def _written(self, spec: ComponentSpec, body: Located | None) -> dict[str, Located]:
        """Return the written value of each field; a body that is no mapping of fields is the value of the shorthand."""
        if body is None:
            return {}
        if spec.shorthand is not None and (not isinstance(body, Mapping) or self._is_value(body, spec)):
            return {spec.shorthand: body}
        if not isinstance(body, Mapping):
            notes = (f"its fields are: {', '.join(spec.fields)}" if spec.fields else "it has none",)
            fail(self.problems, f"{spec.name} takes a mapping of fields", body, notes)
        unknown = [key for key, _ in body.entries if key.value not in spec.fields]
        for key in unknown:
            message = f"{spec.name} has no field {shown(key)}"
            self.problems.add_unknown(message, key.span, key.text, spec.fields, "its fields are")
        if unknown:
            raise Invalid
        return {str(key.value): value for key, value in body.entries}

    def _is_value(self, body: Mapping, spec: ComponentSpec) -> bool:
        """Return whether a mapping is meant as the shorthand's value (a component, a gain) and not as the fields."""
        keys = [str(key) for key in body]
        if "between" not in keys and any(key in spec.fields for key in keys):
            return False
        match spec.fields[str(spec.shorthand)]:
            case GainField():
                return any(key in GAIN_KEYS for key in keys) or is_reference(body)
            case Part() | Parts() | Sequenced():
                named = any(key in self.catalogue for key in keys)
                return named or is_reference(body) or all(nearest(key, spec.fields) is None for key in keys)
        return is_reference(body)

    def _spec(self, name: Scalar, slot: str) -> ComponentSpec:
        accepts = f"slot {slot} accepts"
        fitting = self.catalogue.of_slot(slot)
        if not isinstance(name.value, str) or name.value not in self.catalogue:
            message, notes = f"unknown component {shown(name)} for slot {slot}", (OF_YOUR_OWN,)
            fail_unknown(self.problems, message, name, fitting, accepts, command=LISTING, notes=notes)
        spec = self.catalogue[name.value]
        if slot not in spec.slots and spec.chooses is None:
            message = f"{spec.name} does not fit slot {slot}: it is for slot {' and '.join(spec.slots)}"
            fail_unknown(self.problems, message, name, fitting, accepts, command=LISTING)
        return spec

    def _part(self, located: Located, kind: Part) -> Value:
        if kind.several and isinstance(located, Items) and located.items:
            nodes = self._parts(located, Parts(kind.slot))
            return nodes if len(nodes) > 1 else nodes[0]
        if not _is_none(located):
            return self._component(located, kind)
        if not kind.optional:
            fail(self.problems, f"slot {kind.slot} cannot be empty here", located, (self._accepts(kind.slot),))
        return None

    def _component(self, located: Located, kind: Part | Parts | Sequenced) -> Node:
        slot = _slot(kind)
        if isinstance(located, Scalar):
            return self.node(located, None, kind)
        if not isinstance(located, Mapping) or len(located.entries) != 1:
            what = "a list" if isinstance(located, Items) else f"a mapping of {len(located.entries)} keys"
            notes = ("write its name, or `name: {field: value}`", self._accepts(slot))
            fail(self.problems, f"expected one component for slot {slot}, got {what}", located, notes)
        key, body = located.entries[0]
        return self.node(key, body, kind)

    def _parts(self, located: Located, kind: Parts) -> tuple[Node, ...]:
        if _is_none(located):
            return ()
        items = _items(located)
        nodes = self._each(items, lambda item: self._listed(item, kind))
        names = [node.name for node in nodes if isinstance(node, Node)]
        for index, name in enumerate(names):
            if name in names[:index] and self.catalogue[name].chooses is None:
                way_out = ("name each component once",)
                fail(self.problems, f"{name} is listed twice", items[index], notes=way_out)
        return tuple(nodes)  # type: ignore[arg-type]

    def _listed(self, item: Located, kind: Parts) -> Value:
        extended = self._extended(item, kind)
        return self._component(item, kind) if extended is None else extended

    def _sequence(self, located: Located) -> Sequence:
        if _is_none(located):
            return Sequence()
        parts: list[Node] = []
        for value in self._each(_items(located), self._step):
            parts.extend(value.parts if isinstance(value, Sequence) else [value])
        most = MOST_PARTS if self.extension is None else MOST_IN_A_RULE
        if len(parts) > most:
            notes = ("a block is repeated in every layer: raise model.layers for a deeper model",)
            fail(self.problems, f"{len(parts)} parts in a row, but at most {most} are allowed", located, notes)
        return Sequence(tuple(parts))

    def _step(self, item: Located) -> Node | Sequence:
        if (extended := self._extended(item, Sequenced())) is not None:
            return extended  # type: ignore[return-value]
        if isinstance(item, Items) or _is_none(item):
            return self._sequence(item)
        return self._component(item, Sequenced())

    def _branches(self, located: Located) -> tuple[Sequence, ...]:
        if _is_none(located):
            return ()
        if not isinstance(located, Items):
            fail(self.problems, "expected a list of branches, each a sequence of parts", located)
        return tuple(self._each(located.items, self._sequence))

    def _several(self, located: Located, kind: Several) -> Series:
        if not isinstance(located, Items) or len(located.items) < 2:
            fail(self.problems, "expected a list of at least two alternatives", located)
        return Series(tuple(self._each(located.items, lambda item: self.value(item, kind.of))))

    def _each(self, items: tuple[object, ...], read: Callable[..., T]) -> list[T]:
        """Read every item, so that all mistakes are noted, and then raise Invalid if there was one."""
        values: list[T] = []
        invalid = False
        for item in items:
            try:
                values.append(read(item))
            except Invalid:
                invalid = True
        if invalid:
            raise Invalid
        return values

    def _accepts(self, slot: str) -> str:
        return f"slot {slot} accepts: {', '.join(self.catalogue.of_slot(slot))}"


def read_component(text: str, slot: str, catalogue: Catalogue) -> Node:
    """Read a component of a slot from YAML, with every field written out; InputError shows the mistakes in it."""
    problems = Problems()
    try:
        value = Reader(catalogue, {}, problems).value(parse_yaml(text, slot), Part(slot))
    except Invalid:
        problems.raise_if_any()
        raise
    assert isinstance(value, Node)
    return value


def is_reference(located: Located) -> bool:
    """Return whether a grammar expands a value: `$rule`, `{let: …, in: …}`, `{one_of: …}`, `{between: …, …}`."""
    if isinstance(located, Scalar):
        return isinstance(located.value, str) and located.value.startswith("$")
    if not isinstance(located, Mapping):
        return False
    keys = set(located)
    return keys in ({"let", "in"}, {"one_of"}) or "between" in keys or {"points", "scale"} <= keys


def _slot(kind: Part | Parts | Sequenced) -> str:
    return "part" if isinstance(kind, Sequenced) else kind.slot


def _is_none(located: Located) -> bool:
    return isinstance(located, Scalar) and located.value in (None, "none")


def _items(located: Located) -> tuple[Located, ...]:
    return located.items if isinstance(located, Items) else (located,)


def _reads(located: Located, text: str) -> bool:
    return isinstance(located, Scalar) and str(located.value) == text


# The fields that hold no other component: numbers, flags, words, widths, arithmetic and gains.

GAIN_KEYS = ("init", "trainable", "per")
SOURCES = (
    "in a layer: layers.first.attention.value, layers.previous.out, layers.(depth+1-layer).out; in this: attention.key",
    "before the layers: tokens, embedding, positions, entry_norm; the stream before the first: layers.first.in",
)
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
    if isinstance(kind, Arithmetic | ValueField) and kind.optional and _is_none(located):
        return None
    if isinstance(kind, ValueField):
        return _value_address(located, kind, problems)
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
    problems.add_unknown(message, word.span, word.text, choices, lead, command=command, notes=notes)
    raise Invalid


def shown(scalar: Scalar) -> str:
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


def _value_address(located: Located, kind: ValueField, problems: Problems) -> ValueAddress:
    """Read the address of a value, as it is or as `{from: address}`."""
    inner = located.entries[0][1] if isinstance(located, Mapping) and [*located] == ["from"] else located
    if not isinstance(inner, Scalar) or not isinstance(inner.value, str):
        what = shown(inner) if isinstance(inner, Scalar) else "a mapping" if isinstance(inner, Mapping) else "a list"
        fail(problems, f"expected the address of a value that stands earlier, got {what}", inner, SOURCES)
    if fault := address_fault(inner.value, several=kind.several):
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
    notes = ("a whole number, or a multiple of the model's: 4x, 8/3x",)
    fail(problems, f"expected a width, got {shown(scalar)}", scalar, notes)


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
    notes = ("such as first, last, {every: 4}, layer <= depth/2",)
    if isinstance(located, Mapping):
        if [key.value for key, _ in located.entries] != [arithmetic.EVERY]:
            fail(problems, "a mapping can only say {every: 4} here", located, notes)
        number = _number(_scalar(located.entries[0][1], Number(), problems), Number(at_least=2, whole=True), problems)
        return WhichLayers(every=int(number))
    if not isinstance(located, Scalar) or not isinstance(located.value, str):
        what = shown(located) if isinstance(located, Scalar) else "a list"
        fail(problems, f"expected which layers, got {what}", located, notes)
    try:
        return arithmetic.parse_layers(located.value)
    except ArithmeticProblem as problem:
        signs = f"sizes known here: {', '.join(sorted(arithmetic.COMPARED_SIZES))}; signs: < <= > >= == and"
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
