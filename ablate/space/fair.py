"""What a space holds equal between the blocks it compares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias, get_args

from pydantic import Field
from pydantic_core import CoreSchema
from pydantic_core.core_schema import is_instance_schema

from ablate.block.select import Selector, parse_address
from ablate.source.located import Located, Scalar
from ablate.space.documents import Document, Share

Plain: TypeAlias = "bool | int | float | str | tuple[Plain, ...] | None"
"""A value to try; a mapping is kept as text."""

BudgetKind = Literal["steps", "tokens", "flops", "wallclock"]


By = Literal["width", "depth", "mlp"]
"""What a match may change: the model's width, its depth, or the hidden width of its MLPs."""
WIDTH, DEPTH, HIDDEN = BYS = get_args(By)


class Match(Document):
    """One size of each block's model is changed until its parameters match the baseline's, within the share given.

    `width` and `depth` are the model's, `mlp` is the hidden width of the block's MLPs. A model that is already within
    the share stays as it is.
    """

    parameters: Annotated[Share, Field(gt=0, lt=1)]
    by: By


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedField:
    """One field of the recipe or of the block to tune, and the values to try.

    `name` is its address as the user wrote it: `lr`, `recipe.schedule.warmup`, `attention.scale`. `path` leads to a
    field of the recipe; it is empty for a field of the block. `values` are plain, `written` the same values as they
    stand in the space.
    """

    name: str
    path: tuple[str, ...]
    key: Scalar
    written: tuple[Located, ...]
    values: tuple[Plain, ...]

    @property
    def address(self) -> Selector:
        """The address of a field of the block."""
        return parse_address(self.name)

    @property
    def spoken(self) -> str:
        """The name as it is used in a sentence."""
        return spoken(self.name)

    @property
    def ordered(self) -> bool:
        """Return whether all values are numbers, which have a least and a greatest."""
        return all(isinstance(value, int | float) and not isinstance(value, bool) for value in self.values)

    def at(self, value: Plain) -> Located:
        """Return a value as it is written; ValueError for one that is not listed."""
        return self.written[self.values.index(value)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tune:
    """A grid search for each block: every combination of these values is trained at `seeds` separate seeds.

    The block is then compared with its best combination on the tuning split.
    """

    seeds: int
    fields: tuple[TunedField, ...]

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> CoreSchema:
        """Accept an instance as part of a document, without validation."""
        return is_instance_schema(cls)

    def field(self, name: str) -> TunedField:
        """Return the field of that name."""
        return next(field for field in self.fields if field.name == name)


class Terms(Document):
    """The terms of one comparison: what each block may spend, and whether its size is matched to the baseline's.

    With `steps` and `tokens` every block spends what the recipe says; with `flops` and `wallclock`, what the baseline
    spends on that recipe.
    """

    budget: BudgetKind
    match: Literal["none"] | Match

    @property
    def plain(self) -> bool:
        """Return whether no block is changed: batches have one size, so equal steps are equal tokens."""
        return self.budget in ("steps", "tokens") and self.match == "none"


class Fair(Document):
    """What is held equal. `under` names several terms, each by what it changes; one page reports them all."""

    budget: BudgetKind
    match: Literal["none"] | Match
    tune: Literal["none"] | Tune
    under: dict[str, Terms]

    @property
    def terms(self) -> Mapping[str, Terms]:
        """Every set of terms by its name on the page; a single set has the empty name."""
        return self.under or {"": Terms(budget=self.budget, match=self.match)}


EQUAL_STEPS = Fair(budget="steps", match="none", tune="none", under={})
"""The default: every block is trained for the same number of steps, at its own sizes."""


def spoken(name: str) -> str:
    """Return the name of a tuned field for a sentence: a word without underscores, an address as it is.

    >>> spoken("weight_decay"), spoken("attention.pre_qk")
    ('weight decay', 'attention.pre_qk')
    """
    return name if "." in name else name.replace("_", " ")


def plain(value: object) -> Plain:
    """Convert a value to plain frozen data.

    >>> plain([0.9, 0.95]), plain({"rate": 1e-05})
    ((0.9, 0.95), '{rate: 1e-05}')
    """
    if isinstance(value, dict):
        return text_of(value)
    if isinstance(value, list | tuple):
        return tuple(plain(item) for item in value)
    assert value is None or isinstance(value, bool | int | float | str)
    return value


def text_of(value: object) -> str:
    """Return a value as YAML text.

    >>> [text_of(value) for value in (0.0010, 12, True, None, "2x", (0.9, 0.95))]
    ['0.001', '12', 'true', 'null', '2x', '[0.9, 0.95]']
    """
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:g}"
        case dict():
            return "{" + ", ".join(f"{key}: {text_of(inner)}" for key, inner in value.items()) + "}"
        case list() | tuple():
            return f"[{', '.join(map(text_of, value))}]"
    return str(value)
