"""`sizes` of a ladder: what each size changes in model and recipe, for all treatments alike.

    ladder:
      compare: [pre_ln, op]
      sizes:
        - {model.width: 32, model.layers: 2, recipe.steps: 150}
        - {model.width: 48, model.layers: 3, recipe.steps: 300}
        - {model.width: 64, model.layers: 4, recipe.steps: 600}
      next: {model.width: 96, model.layers: 6, recipe.steps: 1200}

`next` is a size that is not trained: what it would cost, and what it would decide.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as Map
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from pydantic_core import CoreSchema
from pydantic_core.core_schema import is_instance_schema

from ablate.source.document import shown
from ablate.source.located import Items, Located, Mapping, Scalar
from ablate.source.problems import Problems
from ablate.space.dotted import entries_of
from ablate.space.fair import text_of
from ablate.space.variants import BLOCK, Change, Changes, changes_in, check_apart, is_inside, read_change

LawKind: TypeAlias = Literal["power", "saturating"]
"""A law of loss over training compute C: `power` is L = a·C^-b, `saturating` L = E + a·C^-b."""
FEWEST_SIZES: Map[LawKind, int] = {"power": 3, "saturating": 4}
"""The sizes that a law takes: one more than it has parameters."""
SIZES, NEXT = "sizes", "next"
SUCH_AS = "such as sizes: [{model.width: 32}, {model.width: 48}, {model.width: 64}]"
REFUSED = {
    "data": "a law is of one text, cut into tokens in one way",
    "model.context": "losses at another context are of other predictions",
}
"""Addresses that sizes cannot change, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderSize:
    """One size: what it changes in the space."""

    changed: tuple[Change, ...]
    written: Located = field(compare=False, repr=False)

    @property
    def changes(self) -> Changes:
        """Its values by their addresses."""
        return changes_in(self.changed)

    @property
    def name(self) -> str:
        """Its values in words, each after the last word of its address: `width=64 layers=4`."""
        lasts = [change.path[-1].text for change in self.changed]
        return " ".join(
            f"{last if lasts.count(last) == 1 else change.address}={text_of(change.value)}"
            for last, change in zip(lasts, self.changed, strict=True)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderSizes:
    """The sizes of a ladder in the order written, and the next one, if it is given."""

    sizes: tuple[LadderSize, ...] = ()
    next: LadderSize | None = None

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> CoreSchema:
        """Accept an instance as part of a document, without validation."""
        return is_instance_schema(cls)

    @property
    def every(self) -> tuple[LadderSize, ...]:
        """The sizes and, after them, the next one."""
        return (*self.sizes, *([self.next] if self.next is not None else []))

    @property
    def changes(self) -> Iterator[Change]:
        """The changes of all sizes."""
        return (change for size in self.every for change in size.changed)


def read_sizes(ladder: Mapping, problems: Problems) -> LadderSizes | None:
    """Read the sizes of a ladder; None after a mistake, which is then in `problems`."""
    before = len(problems)
    located = ladder.get(SIZES)
    if located is None:
        problems.add("a ladder needs sizes", ladder.span, notes=(SUCH_AS,))
        return None
    if not isinstance(located, Items) or not located.items:
        message = f"sizes of a ladder must be a list of sizes, got {shown(located)}"
        problems.add(message, located.span, notes=(SUCH_AS,))
        return None
    sizes = [_size(item, problems) for item in located.items]
    after = _size(ladder[NEXT], problems) if NEXT in ladder else None
    if len(problems) > before:
        return None
    return LadderSizes(sizes=tuple(size for size in sizes if size is not None), next=after)


def _size(located: Located, problems: Problems) -> LadderSize | None:
    if not isinstance(located, Mapping) or not located.entries:
        message = f"a size must map addresses to values, got {shown(located)}"
        problems.add(message, located.span, notes=("such as {model.width: 64, recipe.steps: 600}",))
        return None
    changed: dict[str, Change] = {}
    for words, key, value in entries_of(located, problems):
        if (change := _change(words, key, value, problems)) is not None:
            check_apart(change, changed, problems)
            changed[change.address] = change
    return LadderSize(changed=tuple(changed.values()), written=located)


def _change(words: tuple[Scalar, ...], key: Scalar, value: Located, problems: Problems) -> Change | None:
    address = ".".join(word.text for word in words)
    if words[0].text == BLOCK:
        notes = ("let it depend on the size in the block itself, such as 1/width, or set it in a variant",)
        problems.add(f"{address} is in the block, which is the same at every size", key.span, notes=notes)
        return None
    if (why := next((REFUSED[outer] for outer in REFUSED if is_inside(address, outer)), None)) is not None:
        notes = ("set it for all sizes, in the space itself",)
        problems.add(f"{address} cannot differ between sizes: {why}", key.span, notes=notes)
        return None
    return read_change(words, key, value, problems)


def without_sizes(ladder: Mapping) -> Mapping:
    """Return a ladder without its sizes and the next one."""
    return Mapping(tuple(entry for entry in ladder.entries if entry[0].value not in (SIZES, NEXT)), ladder.span)
