"""Designs: which blocks a space compares, and which differences between them it asks about."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from ablate.space.documents import Count, Document, Positive


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


Goal = Literal["min", "max"]
Sampler = Literal["random", "tpe", "gp", "nsga2", "evolution"]


class Budget(Document):
    """What a search may spend, all workers together; exactly one of its keys.

    `trials` that are trained (a proposal that is known costs none), `hours` of wall-clock, or `flops` of training.
    """

    trials: Count | None = None
    hours: Positive | None = None
    flops: Positive | None = None

    @property
    def kind(self) -> str:
        """The key that was given."""
        return next((name for name in type(self).model_fields if getattr(self, name) is not None), "")


class Search(Document):
    """Blocks proposed one after another from what the grammar derives, named by their edits from the block `from`.

    Proposal k is made from `seed`, k and the results 0 … k − `parallel`, and from nothing else: so a search that was
    stopped goes on as it would have gone.
    """

    from_: Annotated[str, Field(alias="from")]
    objective: Annotated[dict[str, Goal], Field(min_length=1, description="a mapping such as {eval_loss: min}")]
    budget: Budget
    sampler: Sampler
    parallel: Annotated[int, Field(ge=1, le=1_024)]
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)]


class Design(Document):
    """Exactly one of its keys says which design it is."""

    compare: Annotated[tuple[str, ...], BeforeValidator(_tuple), Field(min_length=2)] | None = None
    path: Path | None = None
    leave_one_out: LeaveOneOut | None = None
    search: Search | None = None

    @property
    def kind(self) -> str:
        """The key that was given."""
        return next((name for name in type(self).model_fields if getattr(self, name) is not None), "")

    @property
    def blocks(self) -> tuple[str, ...]:
        """Names of the blocks it speaks of."""
        if self.compare is not None:
            return self.compare
        if self.search is not None:
            return (self.search.from_,)
        ends = self.path or self.leave_one_out
        return (ends.from_, ends.to) if ends is not None else ()
