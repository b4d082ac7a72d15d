"""A block as equations: each component writes itself as text, and so do the components inside it.

    x₁ = x + β Attn(LayerNorm(x))
    x₂ = x₁ + β MLP(LayerNorm(x₁))
    Attn(X) = Concat(A V) W^P
        Q = X W^Q,  K = X W^K,  V = X W^V
    β = 1/√(2L) = 0.2887

There is one line for each part of the block, and one more wherever a combinator uses its input twice. Different
functions of one name get an index (two MLPs have separate weights), and so do gains: equal fixed gains share a letter,
trained gains do not. A component without `equation` is written `name(x)`.
"""

from __future__ import annotations

import ast
import math
import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping
from collections.abc import Mapping as Map
from collections.abc import Sequence as Items
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ablate.block.arithmetic import PRECEDENCE, Expression, number_text
from ablate.block.catalogue import Branches, Catalogue, ComponentSpec, FieldType, Sequenced, reporting_errors
from ablate.block.expression import Block, Gain, Node, Path, Sequence, ValueAddress
from ablate.block.layers import at_layer
from ablate.block.network import own_network
from ablate.block.sizes import GainMaker, Maker, PartMaker, Sizes, Surroundings, ValueMaker, field_values, inside

LETTERS = {"skip": "α", "gain": "β", "centre": "γ"}
"""The letters of the papers for gains, by the field they fill; the gain of any other field has the field's name."""
FUNCTION = re.compile(r"[^\W\d]\w*(?=\()")
TOKEN = re.compile("\ue000(\\d+)\ue001")
TWICE = re.compile(r"\(\(((?:[^()]|\([^()]*\))*)\)\)")
TRAINED_PER = {"scalar": "", "head": ", one number per head", "channel": ", one number per channel"}


@dataclass(frozen=True, slots=True)
class Equation:
    """`lines` lead from x to the block's output; `definitions` define each function in them, `gains` each letter."""

    lines: tuple[str, ...]
    definitions: tuple[tuple[str, ...], ...]
    gains: tuple[str, ...]

    @property
    def text(self) -> str:
        blocks = ["\n".join((first, *(f"    {line}" for line in rest))) for first, *rest in self.definitions]
        return "\n".join((*self.lines, *blocks, *self.gains))


def equations(block: Block, sizes: Sizes, catalogue: Catalogue) -> dict[tuple[int, ...], Equation]:
    """Write the equations of each group of layers in which patterns put the same alternatives; of all, if it has none.

    Raises InputError as `equation` does.
    """
    groups: dict[Block, list[int]] = defaultdict(list)
    for layer in range(1, sizes.n_layers + 1):
        groups[at_layer(block, catalogue, sizes.scope(layer))].append(layer)
    return {tuple(layers): equation(block, sizes, catalogue, layers) for layers in groups.values()}


def equation(block: Block, sizes: Sizes, catalogue: Catalogue, layers: Items[int] = ()) -> Equation:
    """Write the block's equations at these sizes; InputError if a number in it has no value there.

    `layers` are those that the block stands in, all unless given. Patterns are as in the first of them.
    """
    layers = layers or range(1, sizes.n_layers + 1)
    network = partial(own_network, block, sizes, catalogue)
    block = at_layer(block, catalogue, sizes.scope(layers[0]))
    names = _Names()
    texts = _Texts(catalogue, _Lettered(sizes.at(layers[0]), network), names, last=layers[-1])
    last = texts.sequence(block, ())("x")
    if not names.lines or last != names.lines[-1][0]:
        names.line(last)
    lines = [f"{symbol} = {text}" for symbol, text in names.lines]
    functions = sorted(names.functions.values(), key=lambda function: not function.principal)
    definitions = [lines for function in functions for lines in function.definitions()]
    met = [
        int(token)
        for line in (*lines, *(line for part in definitions for line in part))
        for token in TOKEN.findall(line)
    ]
    names.order = {token: place for place, token in reversed([*enumerate(met)])}
    gains = [thing for letter in names.letters.values() for thing in letter.things.values()]
    gains.sort(key=lambda gain: names.order.get(gain[0], len(met)))
    return Equation(
        tuple(names.resolved(line) for line in lines),
        tuple(tuple(names.resolved(line) for line in lines) for lines in definitions),
        tuple(names.resolved(f"{_token(token)}{value}") for token, (value,) in gains),
    )


@dataclass(frozen=True, slots=True)
class _Lettered(Surroundings):
    """Surroundings whose numbers keep the arithmetic that they come from."""

    def number(self, expression: Expression, where: str) -> float:
        value = Surroundings.number(self, expression, where)
        return SymbolicNumber(value, number_text(value) if expression.constant is not None else written(expression))


@dataclass
class _Indexed:
    """The things that share a name: each by its key, with its defining lines, under a token until all are known."""

    name: str
    principal: bool = False
    things: dict[Hashable, tuple[int, tuple[str, ...]]] = field(default_factory=dict)

    def symbol(self, token: int, order: Map[int, int]) -> str:
        """Return the name, with an index if there are several, in the order in which a reader meets them."""
        tokens = sorted((own for own, _ in self.things.values()), key=lambda own: order.get(own, len(order)))
        return self.name if len(tokens) == 1 else f"{self.name}{lowered(tokens.index(token) + 1)}"

    def definitions(self) -> list[tuple[str, ...]]:
        """Return the defining lines of each thing; equal lines once, for all the things that they define."""
        alike: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for token, lines in self.things.values():
            if lines:
                alike[tuple(line.replace(_token(token), "\ue002") for line in lines)].append(token)
        definitions = []
        for (first, *rest), tokens in alike.items():
            head, equals, body = first.partition(" = ")
            heads = ", ".join(head.replace("\ue002", _token(token)) for token in tokens)
            definitions.append((f"{heads}{equals}{body}", *rest))
        return definitions


def _token(number: int) -> str:
    return f"\ue000{number}\ue001"


@dataclass
class _Names:
    """The lines, functions and gains met so far. Indices are assigned when all of them are known."""

    lines: list[tuple[str, str]] = field(default_factory=list)
    functions: dict[str, _Indexed] = field(default_factory=dict)
    letters: dict[str, _Indexed] = field(default_factory=dict)
    order: dict[int, int] = field(default_factory=dict)
    _owners: list[_Indexed] = field(default_factory=list)

    def line(self, text: str) -> str:
        symbol = f"x{lowered(len(self.lines) + 1)}"
        self.lines.append((symbol, text))
        return symbol

    def function(self, name: str, key: Hashable, lines: tuple[str, ...], *, principal: bool) -> str:
        """Return the token of a function that `lines` define; in them the name itself stands for it."""
        functions = self.functions.setdefault(name, _Indexed(name, principal))
        if key not in functions.things:
            token = self._new(functions)
            functions.things[key] = token, tuple(re.sub(rf"\b{name}(?=\()", _token(token), line) for line in lines)
        return _token(functions.things[key][0])

    def letter(self, letter: str, key: Hashable, value: str) -> str:
        """Return the token of a gain with that letter; `value` is its line, after the letter."""
        gains = self.letters.setdefault(letter, _Indexed(letter))
        if key not in gains.things:
            gains.things[key] = self._new(gains), (value,)
        return _token(gains.things[key][0])

    def _new(self, owner: _Indexed) -> int:
        self._owners.append(owner)
        return len(self._owners) - 1

    def resolved(self, text: str) -> str:
        text = TWICE.sub(r"(\1)", text)
        return TOKEN.sub(lambda match: self._owners[int(match[1])].symbol(int(match[1]), self.order), text)


@dataclass(frozen=True)
class _GainText:
    value: float | None
    text: Callable[[], str]

    def __call__(self, width: int) -> str:
        return self.text()


@dataclass
class _Texts:
    """Makers of text. `filling` is the field being filled, `of` the weight it is in: they give a gain's letter.

    The surroundings are those of the first of the block's layers; `last` is the last of them.
    """

    catalogue: Catalogue
    surroundings: _Lettered
    names: _Names
    last: int
    filling: str = ""
    path: Path = ()
    of: list[str] = field(default_factory=lambda: [""])

    def part(self, node: Node, path: Path) -> Maker:
        spec = self.catalogue[node.name]
        of = [""]  # set when the maker is called with the symbol of a weight, before its gains are written
        here = inside(node, spec, self.surroundings)

        def filled(name: str, kind: FieldType) -> Any:  # one field at a time, so that a maker knows which it fills
            inner, value = replace(self, filling=name, path=path, of=of, surroundings=here), node[name]
            if isinstance(value, Gain):
                return inner._gain(value)
            return field_values(node, replace(spec, fields={name: kind}), here, inner, path)[name]

        values = {name: filled(name, kind) for name, kind in spec.fields.items()}
        with reporting_errors(spec, "its values"):
            config: Any = spec.config(**values)
        return PartMaker(config, lambda *given: self._text_of(config, spec, path, of, given))

    def _text_of(self, config: Any, spec: ComponentSpec, place: Path, of: list[str], given: tuple[str, ...]) -> str:
        """Return the text of a component applied to its input; keep the lines that define it, once."""
        if not hasattr(config, "equation"):
            return f"{spec.name}({given[0]})" if given else spec.name
        outer, of[0] = of[0], given[1].partition("^")[2] if len(given) > 1 else self.of[0]
        with reporting_errors(spec, "equation"):
            text: str = config.equation(*given)
            lines: tuple[str, ...] = tuple(config.details()) if hasattr(config, "details") else ()
        of[0] = outer
        function = FUNCTION.match(text)
        if not lines or function is None:
            return text
        principal = "part" in spec.slots and not spec.modifier
        token = self.names.function(function[0], place if principal else lines, lines, principal=principal)
        return token + text.removeprefix(function[0])

    def gain(self, value: float, *, trainable: bool, per: str) -> GainMaker:
        return self._gain(Gain(Expression(number_text(value)), trainable, per))

    def _gain(self, gain: Gain) -> _GainText:
        start = self.surroundings.number(gain.value, self.filling)
        times = " ⊙" if gain.trainable and gain.per == "channel" else ""
        if not gain.trainable and gain.value.constant is not None:
            return _GainText(start, lambda: number(start))

        def text() -> str:
            letter = LETTERS.get(self.filling, self.filling) + (f"^{self.of[0]}" if self.of[0] else "")
            value = self._valued(gain.value)
            if gain.trainable:
                value = f": trained from {value.removeprefix(' = ')}{TRAINED_PER[gain.per]}"
            key = (self.path, self.filling) if gain.trainable else (value, gain.per)
            return self.names.letter(letter, key, value) + times

        # A gain that is 0 or 1 only in this layer must not be left out.
        constant = math.nan if "layer" in gain.value.names() else start
        return _GainText(None if gain.trainable else constant, text)

    def _valued(self, expression: Expression) -> str:
        """Return ' = 1/√(2L) = 0.2887', with the number in the last layer too if it is another."""
        sizes = self.surroundings.sizes
        ends = (sizes.layer, self.last)
        first, last = (Surroundings(sizes.at(layer)).number(expression, self.filling) for layer in ends)
        if expression.constant is not None:
            return f" = {number(first)}"
        behind = "the last" if self.last == sizes.n_layers else f"layer {self.last}"
        both = f"{number(first)} in layer {sizes.layer}, {number(last)} in {behind}"
        number_now = number(first) if first == last else both
        return f" = {written(expression)} = {number_now}"

    def earlier(self, address: ValueAddress, path: Path) -> ValueMaker:
        return ValueMaker(1, lambda *_: f"⟨{address.text}⟩", address.text)

    def sequence(self, sequence: Sequence, path: Path) -> Maker:
        def applied(x: str) -> str:
            for index, node in enumerate(sequence):
                combines = any(isinstance(k, Sequenced | Branches) for k in self.catalogue[node.name].fields.values())
                if (combines or not path) and not re.fullmatch(r"\w+", x):
                    x = self.names.line(x)
                x = self.part(node, (*path, index))(x)
            return x

        return applied


# Mathematical notation for arithmetic and sums: `1/√(2L)`, `x + β f(x)`.
#
# Sizes have the letters of the papers: L is the number of blocks, l this block, d the width, H the number of heads,
# d_k the width of a head, T the context, V the size of the vocabulary, r the repetition.

SIZE_LETTERS: Mapping[str, str] = {
    "depth": "L",
    "layer": "l",
    "width": "d",
    "heads": "H",
    "head_width": "d_k",
    "context": "T",
    "vocabulary": "V",
    "repetition": "r",
    "pi": "π",
}
RAISED = str.maketrans("0123456789-.", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻·")
LOWERED = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
SIGNS = {ast.Add: " + ", ast.Sub: " - ", ast.Div: "/"}


class SymbolicNumber(float):
    """A float that is written as the arithmetic it comes from, and otherwise behaves like the number.

    >>> f"{SymbolicNumber(0.5, '1/√L')} = {SymbolicNumber(0.5, '1/√L'):g}"
    '1/√L = 0.5'
    """

    text: str

    def __new__(cls, value: float, text: str) -> SymbolicNumber:
        made = super().__new__(cls, value)
        made.text = text
        return made

    def __str__(self) -> str:
        return self.text

    def __format__(self, form: str) -> str:
        return format(float(self), form) if form else self.text


def written(expression: Expression) -> str:
    """Write arithmetic with the letters of the papers.

    >>> written(Expression("1/sqrt(2*depth)")), written(Expression("1/sqrt(head_width)")), written(Expression("0.25"))
    ('1/√(2L)', '1/√d_k', '0.25')
    """
    return _written(ast.parse(expression.text, mode="eval").body)


def number(value: float) -> str:
    """Write a number with at most four digits; a whole number in full.

    >>> number(12 ** -0.5), number(1e-8), number(10000.0)
    ('0.2887', '1e-8', '10000')
    """
    if float(value).is_integer() and abs(value) < 1e9:
        return str(int(value))
    return re.sub(r"e([+-])0", r"e\1", f"{value:.4g}")


def lowered(n: int) -> str:
    return str(n).translate(LOWERED)


def weighted(gain: GainMaker, term: str) -> str:
    """Write a term times its gain: nothing for a fixed 0, the term itself for a fixed 1."""
    if gain.value == 0:
        return ""
    return term if gain.value == 1 else f"{gain(1)} {grouped(term)}"


def total(*terms: str) -> str:
    """Write the sum of the terms that are not empty; 0 if there are none.

    >>> total("x", "", "-0.5 f(x)"), total("")
    ('x - 0.5 f(x)', '0')
    """
    there = [term for term in terms if term]
    signed = (f" - {term[1:]}" if term.startswith("-") else f" + {term}" for term in there[1:])
    return (there[0] + "".join(signed)) if there else "0"


def grouped(text: str) -> str:
    """Put a text in brackets if it is a sum, so that a factor can be written before it.

    >>> grouped("x + f(x)"), grouped("f(x + y)"), grouped("(x) + (y)")
    ('(x + f(x))', 'f(x + y)', '((x) + (y))')
    """
    depth, outside = 0, []
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        outside.append(letter if depth == 0 else "·")
    return f"({text})" if re.search(r" [+-] | in layer ", "".join(outside)) else text


def _written(node: ast.expr, outer: int = 0) -> str:
    match node:
        case ast.Constant(value=int() | float() as value):
            return number(value)
        case ast.Name(id=name):
            return SIZE_LETTERS[name]
        case ast.Call(func=ast.Name(id="sqrt"), args=[inside]):
            text = _written(inside)
            return f"√{text}" if re.fullmatch(r"[\w.]+", text) and not isinstance(inside, ast.BinOp) else f"√({text})"
        case ast.Call(func=ast.Name(id=name), args=args):
            return f"{name}({', '.join(_written(argument) for argument in args)})"
        case ast.UnaryOp(op=op, operand=operand):
            own = PRECEDENCE[type(op)]
            text = ("-" if isinstance(op, ast.USub) else "") + _written(operand, own)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            own = PRECEDENCE[ast.Pow]
            power = _written(right, own)
            raised = power.translate(RAISED) if re.fullmatch(r"\d+|-\d+", power) else f"^{power}"
            text = f"{_written(left, own + 1)}{raised}"
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            own = PRECEDENCE[ast.Mult]
            first, second = _written(left, own), _written(right, own + 1)
            beside = isinstance(left, ast.Constant) and not second[0].isdigit()
            text = f"{first}{second}" if beside else f"{first}·{second}"
        case ast.BinOp(left=left, op=op, right=right):
            own = PRECEDENCE[type(op)]
            text = f"{_written(left, own)}{SIGNS[type(op)]}{_written(right, own + 1)}"
        case _:
            raise TypeError(f"{ast.unparse(node)} is no arithmetic")
    return f"({text})" if own < outer else text
