"""Designs: which blocks a space compares, and which differences between them it asks about."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from ablate.space.documents import Document


def _tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_tuple)]


class Path(Document):
    """From one block to another, an edit at a time: n edits, n + 1 models.

    `order` lists the edits; where it is left out, stabilisers come first. `split` names edits to take apart place by
    place (true: all).
    """

    from_: Annotated[str, Field(alias="from")]
    to: str
    order: Names = ()
    split: Annotated[tuple[str, ...] | bool, BeforeValidator(_tuple)] = ()


class LeaveOneOut(Document):
    """The full treatment `to`, and `to` with each edit from `from` undone."""

    from_: Annotated[str, Field(alias="from")]
    to: str
    split: Annotated[tuple[str, ...] | bool, BeforeValidator(_tuple)] = ()


class Design(Document):
    """Exactly one of its keys says which design it is."""

    compare: Annotated[tuple[str, ...], BeforeValidator(_tuple), Field(min_length=2)] | None = None
    path: Path | None = None
    leave_one_out: LeaveOneOut | None = None

    @property
    def kind(self) -> str:
        """The key that was given."""
        return next((name for name in type(self).model_fields if getattr(self, name) is not None), "")

    @property
    def blocks(self) -> tuple[str, ...]:
        """Names of the blocks it speaks of."""
        if self.compare is not None:
            return self.compare
        ends = self.path or self.leave_one_out
        return (ends.from_, ends.to) if ends is not None else ()
