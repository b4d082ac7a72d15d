"""Rules of a grammar: read as they are written, and expanded to templates of all that they derive.

* `$rule` draws anew at every place; `$rule(a, b)` passes it arguments, which are themselves drawn anew at each use.
* `{let: {n: $norm}, in: …}` draws once; `$n` is that same derivation wherever it is used.
* `{one_of: […]}` is an inline choice, as is `{between: [0.1, 1], points: 10, scale: log}`, between ordered numbers.
* A rule that reaches itself must declare `max_depth`; at that depth it has no further alternatives.
* The derivations of a rule are counted exactly, up to numbers of a thousand digits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping as Map
from dataclasses import dataclass, field, replace
from decimal import Context, Decimal
from itertools import count
from typing import NoReturn

from ablate.block.arithmetic import number_text
from ablate.block.catalogue import Arithmetic, FieldType, GainField, Number, Width
from ablate.block.expression import Value
from ablate.block.reader import Invalid, Reader, is_reference, shown
from ablate.grammar.derivation import (
    Alternatives,
    FixedValue,
    Hole,
    Let,
    Named,
    Product,
    Scale,
    SharedDraw,
    Template,
    twice,
)
from ablate.source.compose import ValueProblem, resolve
from ablate.source.located import Items, Located, Mapping, Scalar, Span
from ablate.source.problems import Problems, missing_keys, note_unknown, quote, shorten

# A rule as written: name, parameters, bound on recursion, and alternatives that are not yet read.

RULE_HEAD = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\(\s*([A-Za-z_][\w\s,]*)\))?")
RULE_KEYS = ("one_of", "max_depth")


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule `name(parameters)`; it may nest in itself at most `max_depth` levels deep."""

    name: str
    parameters: tuple[str, ...]
    max_depth: int | None
    alternatives: tuple[Located, ...]
    key: Scalar


def read_rules(located: Located, problems: Problems) -> dict[str, Rule]:
    if not isinstance(located, Mapping):
        problems.add("rules must be a mapping from names to alternatives", located.span)
        return {}
    rules: dict[str, Rule] = {}
    for key, body in located.entries:
        rule = _read_rule(key, body, problems)
        if rule is not None and rule.name in rules:
            problems.add(f"rule {rule.name!r} is declared twice", key.span)
        elif rule is not None:
            rules[rule.name] = rule
    return rules


def _read_rule(key: Scalar, body: Located, problems: Problems) -> Rule | None:
    match = RULE_HEAD.fullmatch(str(key.value))
    if match is None:
        problems.add(f"{key.text!r} is not a rule name", key.span, notes=("write name or name(parameter, …)",))
        return None
    parameters = tuple(word.strip() for word in (match[2] or "").split(",") if word.strip())
    max_depth: int | None = None
    alternatives = body
    if isinstance(body, Mapping) and "max_depth" in body:
        note_unknown(body, RULE_KEYS, problems, "a rule has no")
        depth = body["max_depth"]
        if not isinstance(depth, Scalar) or type(depth.value) is not int or not 1 <= depth.value <= 50:
            problems.add("max_depth must be a whole number from 1 to 50", depth.span)
        else:
            max_depth = depth.value
        if "one_of" not in body:
            problems.add("a rule with max_depth needs its alternatives under one_of", key.span)
            return None
        alternatives = body["one_of"]
    items = alternatives.items if isinstance(alternatives, Items) else (alternatives,)
    if not items:
        problems.add(f"rule {match[1]!r} has no alternatives", key.span)
        return None
    return Rule(match[1], parameters, max_depth, items, key)


# Ordered numbers: `{between: [0.1, 1], points: 10, scale: log}`, read into the numbers that it stands for.
#
# They run from the lower end to the higher one, both included, evenly spaced (`linear`) or evenly spaced in their
# logarithms (`log`), each rounded to six significant digits. They are computed in decimal arithmetic, so that they
# are the same on every machine.

BETWEEN_KEYS = ("between", "points", "scale")
SCALES: tuple[Scale, ...] = ("linear", "log")
MOST_POINTS = 1_000
DIGITS = 6
LARGEST = 1e300  # the largest number that arithmetic accepts
BETWEEN_EXAMPLE = "such as {between: [0.1, 1], points: 10, scale: linear}; scale is linear or log"
EXACT = Context(prec=30)
ROUNDED = Context(prec=DIGITS)


@dataclass(frozen=True, slots=True)
class Between:
    """Distinct numbers in ascending order, and their spacing."""

    numbers: tuple[int | float, ...]
    scale: Scale


def read_between(located: Mapping, problems: Problems) -> Between:
    """Read the numbers of a choice between two; raises Invalid after noting every mistake."""
    unknown = [key for key, _ in located.entries if key.value not in BETWEEN_KEYS]
    for key in unknown:
        message = f"a choice between numbers has no {shown(key)}"
        problems.add_unknown(message, key.span, key.text, BETWEEN_KEYS, "it has")
    for word in missing_keys(located, BETWEEN_KEYS, unknown):
        problems.add(f"a choice between numbers needs `{word}`", located.span, notes=(BETWEEN_EXAMPLE,))
    ends, points, scale = (located.get(key) for key in BETWEEN_KEYS)
    low_high = None if ends is None else _ends(ends, problems)
    number = None if points is None else _points(points, problems)
    how = None if scale is None else read_scale(scale, problems)
    if how == "log" and low_high is not None and low_high[0] <= 0:
        assert isinstance(ends, Items)
        problems.add("a log scale needs numbers above 0", ends.items[0].span, notes=("or use scale: linear",))
        how = None
    if unknown or low_high is None or number is None or how is None:
        raise Invalid
    numbers = tuple(as_plain(value) for value in spaced(*low_high, number, how))
    if len(set(numbers)) < number:
        message = f"these {number} numbers are not distinct at {DIGITS} significant digits"
        problems.add(message, located["points"].span, notes=("use fewer points, or ends that are further apart",))
        raise Invalid
    return Between(numbers, how)


def spaced(low: Decimal, high: Decimal, points: int, scale: Scale) -> tuple[Decimal, ...]:
    """Compute `points` numbers from `low` to `high`, both included, rounded to six significant digits."""
    steps = Decimal(points - 1)
    if scale == "linear":
        width = EXACT.subtract(high, low)
        inner = [EXACT.add(low, EXACT.divide(EXACT.multiply(width, Decimal(i)), steps)) for i in range(1, points - 1)]
    else:
        start, width = EXACT.ln(low), EXACT.subtract(EXACT.ln(high), EXACT.ln(low))
        logs = (EXACT.divide(EXACT.multiply(width, Decimal(i)), steps) for i in range(1, points - 1))
        inner = [EXACT.exp(EXACT.add(start, log)) for log in logs]
    return tuple(ROUNDED.plus(number) for number in (low, *inner, high))


def as_plain(number: Decimal) -> int | float:
    """Return a number as YAML would read it: a whole one without a point is an int."""
    value = float(number)
    return int(value) if value.is_integer() and abs(value) < 1e15 else value


def _ends(located: Located, problems: Problems) -> tuple[Decimal, Decimal] | None:
    if not isinstance(located, Items) or len(located) != 2:
        problems.add("between takes two numbers, the lower one first", located.span, notes=(BETWEEN_EXAMPLE,))
        return None
    low, high = (read_number(item, "between takes numbers", problems) for item in located)
    if low is None or high is None:
        return None
    if low >= high:
        problems.add("between must go from a lower number to a higher one", located.span, notes=(BETWEEN_EXAMPLE,))
        return None
    return low, high


def read_number(located: Located, expected: str, problems: Problems) -> Decimal | None:
    """Read a finite number of at most six significant digits; None after a mistake.

    `expected` is the message for any other value.
    """
    value = located.value if isinstance(located, Scalar) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        got = f", got {shown(located)}" if isinstance(located, Scalar) else ""
        problems.add(f"{expected}{got}", located.span, notes=("plain numbers: no sizes, no arithmetic",))
        return None
    if not abs(value) <= LARGEST:
        problems.add("this number is too large" if math.isfinite(value) else "a number must be finite", located.span)
        return None
    exact = Decimal(str(value))
    if exact != ROUNDED.plus(exact):
        notes = (f"the numbers between the ends are rounded to {DIGITS} digits too",)
        problems.add(f"an end may have at most {DIGITS} significant digits", located.span, notes=notes)
        return None
    return exact


def _points(located: Located, problems: Problems) -> int | None:
    value = located.value if isinstance(located, Scalar) else None
    if type(value) is not int or not 2 <= value <= MOST_POINTS:
        problems.add(f"points must be a whole number from 2 to {MOST_POINTS}", located.span)
        return None
    return value


def read_scale(located: Located, problems: Problems) -> Scale | None:
    """Read the spacing of numbers; None after a mistake."""
    scale = next((scale for scale in SCALES if isinstance(located, Scalar) and located.value == scale), None)
    if scale is None and isinstance(located, Scalar):
        problems.add_unknown(f"unknown scale {shown(located)}", located.span, located.text, SCALES, "one of")
    elif scale is None:
        problems.add(f"scale must be {' or '.join(SCALES)}", located.span)
    return scale


# From rules to templates of derivations.

REFERENCE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)(?:\((.*)\))?")
MOST = 10**1000  # the most derivations; more are a mistake: a recursion that doubles has 2^2^depth of them


@dataclass
class _Bound:
    """A name bound by `let`: its expression, the scope it is read in, and what it derives, once it has been used."""

    unique: str
    located: Located
    scope: Scope
    drawn: Template | None = None


@dataclass(frozen=True, eq=False)
class Scope:
    """The meaning of names at one place: arguments of the rule, names bound by `let`, depths left to rules."""

    arguments: Map[str, tuple[Located, Scope]] = field(default_factory=dict)
    bound: Map[str, _Bound] = field(default_factory=dict)
    left: Map[str, int] = field(default_factory=dict)
    chain: tuple[str, ...] = ()


class Expander:
    """Reads rules into templates; a rule is read once for each kind of place and depth at which it is used."""

    def __init__(self, rules: Map[str, Rule], reader: Reader, problems: Problems):
        self.rules, self.problems = rules, problems
        self._plain = reader
        self._known: dict[tuple[object, ...], Template] = {}
        self._broken: set[tuple[object, ...]] = set()
        self._fresh = count()
        self._reached: set[str] = set()
        self._spots: dict[tuple[str, ...], dict[Span, int]] = {}  # for each rule, its inline choices, numbered

    def unused(self) -> list[Rule]:
        return [rule for rule in self.rules.values() if rule.name not in self._reached]

    def template(self, located: Located, kind: FieldType, scope: Scope) -> Template:
        """Return all values of an expression at a place of this kind. Raises Invalid after noting mistakes."""
        holes: list[Template] = []

        def extension(inner: Located, inner_kind: FieldType) -> Value | None:
            if not is_reference(inner):
                return None
            holes.append(self._reference(inner, inner_kind, scope))
            return Hole(len(holes) - 1)  # type: ignore[return-value]

        reader = self._plain.extended(extension)
        shape = reader.value(located, kind)
        if not holes:
            return FixedValue(shape)
        template = Product(shape, tuple(holes))
        if (name := twice(shape, template.holes)) is not None:
            self._fail(f"{name} may appear twice in one list here", located, ("give each item different components",))
        if template.count > MOST:
            self._fail(
                "more than 10^1000 derivations up to here", located, ("lower max_depth, or offer fewer alternatives",)
            )
        return template

    def _reference(self, located: Located, kind: FieldType, scope: Scope) -> Template:
        if isinstance(located, Mapping):
            entries = {str(key.value): value for key, value in located.entries}
            if not entries.keys().isdisjoint(BETWEEN_KEYS):
                return self._between(located, kind, scope)
            if "one_of" in entries:
                return self._choice(entries["one_of"], kind, scope)
            return self._let(entries["let"], entries["in"], kind, scope)
        assert isinstance(located, Scalar)
        match = REFERENCE.fullmatch(str(located.value))
        if match is None:
            cut = str(located.value).count("(") > str(located.value).count(")")
            commas = ("a comma ends it in a list: put it in quotes",) if cut else ()
            notes = ("write $rule or $rule(argument, …)", *commas)
            self._fail(f"{quote(located.value)} is not a reference", located, notes)
        name, arguments = match[1], match[2]
        if arguments is not None and (name in scope.arguments or name in scope.bound):
            self._fail(f"${name} stands for a value here and takes no arguments", located, ())
        if name in scope.arguments:
            return self.template(scope.arguments[name][0], kind, scope.arguments[name][1])
        if name in scope.bound:
            return self._same(scope.bound[name], kind)
        if name not in self.rules:
            known = (*self.rules, *scope.arguments, *scope.bound)
            rules = tuple(f"${other}" for other in known)
            self.problems.add_unknown(f"unknown rule ${name}", located.span, f"${name}", rules, "known here")
            raise Invalid
        return self._rule(self.rules[name], located, arguments, kind, scope)

    def _rule(self, rule: Rule, at: Scalar, arguments: str | None, kind: FieldType, scope: Scope) -> Template:
        self._reached.add(rule.name)
        given = _split(arguments) if arguments else []
        if len(given) != len(rule.parameters):
            wanted = f"{rule.name}({', '.join(rule.parameters)})" if rule.parameters else rule.name
            several = "argument" if len(rule.parameters) == 1 else "arguments"
            message = f"${rule.name} takes {len(rule.parameters) or 'no'} {several}, got {len(given)}"
            self._fail(message, at, (f"it is declared as {wanted}",))
        bound = {name: (self._argument(text, at), scope) for name, text in zip(rule.parameters, given, strict=True)}
        resolved = {name: _outermost(pair) for name, pair in bound.items()}
        left = dict(scope.left)
        if rule.max_depth is not None:
            left[rule.name] = left.get(rule.name, rule.max_depth) - 1
            if left[rule.name] < 0:
                return Alternatives(())  # empty: an alternative that needs it has no derivations
        key = (
            rule.name,
            kind,
            tuple((name, located.value, where) for name, (located, where) in sorted(resolved.items())),
            tuple(sorted(left.items())),
        )
        if key in self._known:
            return self._known[key]
        if rule.name in scope.chain:
            last = len(scope.chain) - 1 - scope.chain[::-1].index(rule.name)
            self._check_bounded((*scope.chain[last:], rule.name), at)
        if key in self._broken:
            raise Invalid
        inner = Scope(resolved, {}, left, (*scope.chain, rule.name))
        self._broken.add(key)  # until it is read, so that a rule with a mistake is read and reported once
        words = ", ".join(located.text for located, _ in resolved.values())
        label = f"{rule.name}({words})" if words else rule.name
        template = Named(label, self._alternatives(rule.alternatives, kind, inner))
        self._broken.remove(key)
        self._known[key] = template
        return template

    def _argument(self, text: str, at: Scalar) -> Scalar:
        """Read an argument as if it stood in the YAML itself: a reference, a name, a number."""
        try:
            value = resolve(text)
        except ValueProblem as problem:
            self._fail(f"{text}: {problem}", at, ())
        start = at.text.find(text)
        return Scalar(value, text, at.within(start, start + len(text)))

    def _check_bounded(self, cycle: tuple[str, ...], at: Scalar) -> None:
        if all(self.rules[name].max_depth is None for name in cycle):
            self._fail(
                f"unbounded recursion: {' → '.join(cycle)}",
                at,
                (f"limit its depth: `{cycle[0]}: {{max_depth: 3, one_of: […]}}`",),
            )

    def _choice(self, located: Located, kind: FieldType, scope: Scope) -> Template:
        if not isinstance(located, Items):
            self._fail("one_of needs a list of alternatives", located, ())
        return Named(self._spot("one_of", located, scope), self._alternatives(located.items, kind, scope))

    def _between(self, located: Mapping, kind: FieldType, scope: Scope) -> Template:
        if not isinstance(kind, Number | Arithmetic | GainField | Width):
            self._fail("between gives numbers, but a number is not allowed here", located, ())
        between = read_between(located, self.problems)
        written = (Scalar(number, str(number), located["between"].span) for number in between.numbers)
        numbers = tuple(FixedValue(self._plain.value(number, kind)) for number in written)
        words = tuple(number_text(number) for number in between.numbers)
        return Named(self._spot("between", located, scope), Alternatives(numbers, words, between.scale))

    def _spot(self, word: str, located: Located, scope: Scope) -> str:
        """Return the name of an inline choice, numbered within its rule from the second on."""
        spots = self._spots.setdefault((word, *scope.chain[-1:]), {})
        spot = spots.setdefault(located.span, len(spots) + 1)
        return word if spot == 1 else f"{word}#{spot}"

    def _alternatives(self, items: tuple[Located, ...], kind: FieldType, scope: Scope) -> Template:
        templates: list[Template] = []
        invalid = False
        for item in items:
            try:
                templates.append(self.template(item, kind, scope))
            except Invalid:
                invalid = True
        if invalid:
            raise Invalid
        if len(templates) == 1:
            return templates[0]
        words = (shorten(" ".join(item.span.text.split())) for item in items)
        return Alternatives(tuple(templates), tuple(words))

    def _let(self, names: Located, body: Located, kind: FieldType, scope: Scope) -> Template:
        if not isinstance(names, Mapping) or not names.entries:
            self._fail("let needs a mapping of names: `let: {n: $norm}`", names, ())
        bound = {
            str(key.value): _Bound(f"{key.value}#{next(self._fresh)}", value, scope) for key, value in names.entries
        }
        template = self.template(body, kind, replace(scope, bound={**scope.bound, **bound}))
        for key, _ in reversed(names.entries):
            let = bound[str(key.value)]
            if let.drawn is None:
                self._fail(f"${key.value} is bound here but never used", key, ())
            template = Let(let.unique, let.drawn, template)
        return template

    def _same(self, bound: _Bound, kind: FieldType) -> Template:
        reading = self.template(bound.located, kind, bound.scope)
        if bound.drawn is None:
            bound.drawn = reading
        if bound.drawn.count != reading.count:
            self._fail("this has different derivations at the places where it is used", bound.located, ())
        return SharedDraw(bound.unique, reading)

    def _fail(self, message: str, located: Located, notes: tuple[str, ...]) -> NoReturn:
        self.problems.add(message, located.span, notes=notes)
        raise Invalid


def _outermost(pair: tuple[Scalar, Scope]) -> tuple[Scalar, Scope]:
    """Resolve an argument that only passes on another to that one, so that equal uses of a rule are read once."""
    located, scope = pair
    while str(located.value).startswith("$") and str(located.value)[1:] in scope.arguments:
        outer, scope = scope.arguments[str(located.value)[1:]]
        assert isinstance(outer, Scalar)
        located = outer
    return located, scope


def _split(text: str) -> list[str]:
    """Split arguments at commas that are not inside brackets."""
    parts, depth, start = [], 0, 0
    for index, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    return [*parts, text[start:].strip()]
