"""A derivation as a sequence of named choices: its number is computed from them, and they are recovered from it.

A search over a grammar has one parameter per choice, which exists only if the choices before it lead to it. A choice is
named by the rules that lead to it, not by the alternatives taken on the way:

    block/sublayer($attention)/attention/matrix/skip:head

so the matrix is the same parameter before and after a norm. If a rule fills a field of another name, the field comes
first (`skip:head`); if one part uses a rule twice, the second use is `norm#2`; what `let` draws is `n=norm`, once.
Ordered numbers are a choice like any other, marked as ordered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ablate.block.expression import Gain, Node, Sequence, Series, Value
from ablate.grammar.derivation import Alternatives, Hole, Let, Named, Product, Scale, Template


@dataclass(frozen=True, slots=True)
class OpenChoice:
    """A choice to be made: its name, the alternatives as they are written, and how many derivations each has.

    If the alternatives are ordered numbers, `scale` is how they are spaced.
    """

    name: str
    words: tuple[str, ...]
    counts: tuple[int, ...]
    scale: Scale | None = None

    @property
    def ordered(self) -> bool:
        return self.scale is not None


@dataclass(frozen=True, slots=True)
class Decision:
    """A choice that was made: the alternative number `taken`, from 0."""

    choice: OpenChoice
    taken: int

    @property
    def name(self) -> str:
        return self.choice.name

    @property
    def word(self) -> str:
        """The alternative taken, as it is written."""
        return self.choice.words[self.taken]


@dataclass(frozen=True, slots=True)
class Derived:
    """A derivation: its number, and its choices in the order in which they were made."""

    index: int
    decisions: tuple[Decision, ...]


@dataclass(frozen=True, slots=True)
class Subtree:
    """The part of a rule in a derivation: the derivation `index` of `template`.

    Adding 1 to `index` adds `stride` to the number of the whole derivation.
    """

    path: str
    template: Named
    index: int
    stride: int


Chooser = Callable[[OpenChoice], int]  # makes a choice: returns the number of one of its alternatives


def decide(template: Template, chooser: Chooser) -> Derived:
    """Build the derivation that a chooser makes, choice by choice, without asking it where one alternative is left.

    Raises IndexError if it returns an alternative that does not exist.
    """
    made: list[Decision] = []
    seen: Counter[str] = Counter()

    def ask(path: str, choice: Alternatives) -> int:
        live = _live(choice)
        if len(live) == 1:
            return live[0]
        offered = _offered(choice, live, path, seen)
        taken = chooser(offered)
        if not 0 <= taken < len(live):
            raise IndexError(f"alternative {taken} of {len(live)} for {offered.name}")
        made.append(Decision(offered, taken))
        return live[taken]

    return Derived(_number(template, _label(template), ask), tuple(made))


def choices(template: Template, k: int) -> tuple[Decision, ...]:
    """Return the choices that lead to the k-th derivation, in the order in which `decide` makes them."""
    decisions: list[Decision] = []
    seen: Counter[str] = Counter()
    for choice, path, index, _ in _walk(template, _label(template), k):
        if isinstance(choice, Alternatives):
            live = _live(choice)
            if len(live) > 1:
                decisions.append(
                    Decision(_offered(choice, live, path, seen), live.index(_alternative(choice, index)[0]))
                )
    return tuple(decisions)


def subtrees(template: Template, k: int) -> Iterator[Subtree]:
    """Yield the part of each rule with a choice in the k-th derivation, rules before those they use."""
    for rule, path, index, stride in _walk(template, _label(template), k):
        if isinstance(rule, Named) and rule.count > 1:
            yield Subtree(path, rule, index, stride)


def _live(choice: Alternatives) -> list[int]:
    return [place for place, option in enumerate(choice.alternatives) if option.count]


def _offered(choice: Alternatives, live: list[int], path: str, seen: Counter[str]) -> OpenChoice:
    words = choice.words or tuple(map(str, range(len(choice.alternatives))))
    counts = tuple(choice.alternatives[place].count for place in live)
    return OpenChoice(_once(path, seen), tuple(words[place] for place in live), counts, choice.scale)


def _number(template: Template, path: str, ask: Callable[[str, Alternatives], int]) -> int:
    match template:
        case Named(body=body):
            return _number(body, _below(path, body), ask)
        case Alternatives(alternatives=alternatives):
            place = ask(path, template)
            before = sum(option.count for option in alternatives[:place])
            return before + _number(alternatives[place], _below(path, alternatives[place]), ask)
        case Product(holes=holes):
            k = 0
            for hole, inner in zip(holes, _paths(template, path), strict=True):
                k = k * hole.count + _number(hole, inner, ask)
            return k
        case Let(drawn=drawn, body=body):
            first = _number(drawn, _drawn_path(template, path), ask)
            return first * body.count + _number(body, _below(path, body), ask)
    return 0


def _walk(template: Template, path: str, k: int, stride: int = 1) -> Iterator[tuple[Template, str, int, int]]:
    """Yield each template on the way to the k-th derivation, with its path, and its number and stride there."""
    yield template, path, k, stride
    match template:
        case Named(body=body):
            yield from _walk(body, _below(path, body), k, stride)
        case Alternatives(alternatives=alternatives):
            place, k = _alternative(template, k)
            yield from _walk(alternatives[place], _below(path, alternatives[place]), k, stride)
        case Product(holes=holes):
            for hole, inner, (index, weight) in zip(holes, _paths(template, path), _digits(template, k), strict=True):
                yield from _walk(hole, inner, index, stride * weight)
        case Let(drawn=drawn, body=body):
            first, rest = divmod(k, body.count)
            yield from _walk(drawn, _drawn_path(template, path), first, stride * body.count)
            yield from _walk(body, _below(path, body), rest, stride)


def _alternative(choice: Alternatives, k: int) -> tuple[int, int]:
    """Return the place of the alternative that holds the k-th derivation, and its number there."""
    for place, option in enumerate(choice.alternatives):
        if k < option.count:
            return place, k
        k -= option.count
    raise IndexError("beyond the last derivation")


def _digits(product: Product, k: int) -> list[tuple[int, int]]:
    """Return, for each hole, the number of what fills it, and by how much adding 1 to that changes k."""
    digits, weight = [], 1
    for hole in reversed(product.holes):
        k, index = divmod(k, hole.count)
        digits.append((index, weight))
        weight *= hole.count
    return digits[::-1]


def _drawn_path(let: Let, path: str) -> str:
    return "/".join(filter(None, (path, f"{let.name.split('#')[0]}={_label(let.drawn)}".rstrip("="))))


def _below(path: str, template: Template) -> str:
    """Return the path of what stands alone at a place: the path there, plus the name of its rule, if any."""
    return "/".join(filter(None, (path, _label(template))))


def _paths(product: Product, path: str) -> list[str]:
    """Return the path of each hole, repeated rules numbered from 2; a hole that is the whole shape is at `path`."""
    if isinstance(product.shape, Hole):
        return [path]
    fields = dict(hole_fields(product.shape, ""))
    seen: Counter[str] = Counter()
    steps = [_once(_step(fields[place], _label(hole)), seen) for place, hole in enumerate(product.holes)]
    return ["/".join(filter(None, (path, step))) for step in steps]


def _step(field: str, label: str) -> str:
    return f"{field}:{label}" if field and label and field != label else label or field or "let"


def _label(template: Template) -> str:
    """Return the rule that a template belongs to, through shapes that only pass it on; "" if there is none."""
    match template:
        case Named(name=name):
            return name
        case Product(shape=Hole(), holes=(hole,)):
            return _label(hole)
    return ""


def hole_fields(shape: Value | Hole, field: str) -> Iterator[tuple[int, str]]:
    """Yield each hole of a shape with the field that it alone fills; "" for one in a sequence or a list."""
    match shape:
        case Hole(index=index):
            yield index, field
        case Gain(value=Hole(index=index)):
            yield index, field or "init"
        case Node(fields=fields):
            for name, child in fields:
                yield from hole_fields(child, name)
        case Sequence() | Series() | tuple():
            for child in shape:
                yield from hole_fields(child, "")


def _once(name: str, seen: Counter[str]) -> str:
    seen[name] += 1
    return name if seen[name] == 1 else f"{name}#{seen[name]}"
