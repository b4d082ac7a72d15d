"""Designs: which blocks a space compares, and which differences between them it asks about."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from ablate.space.choice import Choice
from ablate.space.documents import Count, Document, Positive, Share


def _tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def _real(value: object) -> object:
    """A whole number where a real one is meant."""
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


PERCENT = r"^\d*[1-9]\d*(\.\d+)?%$|^\d+\.\d*[1-9]\d*%$"
"""A share above 0 % as one writes it."""

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


Split = Annotated[tuple[str, ...] | bool, BeforeValidator(_tuple)]
Interactions = Literal["none", "pairs"]
"""Whether two edits at a time may do together what they do not apart, and that is asked about."""


class AddOneIn(Document):
    """The block `from`, and it with each edit to `to` alone; `to` too, to see whether they add up."""

    from_: Annotated[str, Field(alias="from")]
    to: str
    split: Split = ()


class Factorial(Document):
    """Every combination of the edits between two blocks."""

    from_: Annotated[str, Field(alias="from")]
    to: str
    split: Split = ()
    interactions: Interactions = "pairs"


class Fractional(Document):
    """A regular fraction of all combinations: the smallest of this resolution.

    At III an edit's effect is mixed with those of pairs; at IV only pairs are with each other; at V no pair is.
    """

    from_: Annotated[str, Field(alias="from")]
    to: str
    split: Split = ()
    resolution: Literal["III", "IV", "V"]
    interactions: Interactions = "none"


class PlackettBurman(Document):
    """The fewest runs, a multiple of 4, at which each edit's effect can be told from every other's; of pairs a part of
    each is in many.
    """

    from_: Annotated[str, Field(alias="from")]
    to: str
    split: Split = ()


class DOptimal(Document):
    """So many `runs`, chosen among all combinations that there are for the least uncertain effects together."""

    from_: Annotated[str, Field(alias="from")]
    to: str
    split: Split = ()
    runs: Count
    interactions: Interactions = "none"


Goal = Literal["min", "max"]
ZeroCost = Literal["parameters", "flops", "start_loss", "start_gradient_norm"]
"""What is known of a block before it is trained: counted, or measured on one batch at its initialisation."""


class Budget(Document):
    """What a search may spend on its reference and proposals, all workers together; exactly one of its keys.

    `trials` that are trained (a proposal that is known costs none), `hours` of training, summed over trials, or `flops`
    of training. The trials that confirm what was found are not of it.
    """

    trials: Count | None = None
    hours: Positive | None = None
    flops: Positive | None = None

    @property
    def kind(self) -> str:
        """The key that was given."""
        return next((name for name in type(self).model_fields if getattr(self, name) is not None), "")

    def described(self) -> str:
        """In words."""
        if self.trials is not None:
            return f"{self.trials:,} trials"
        if self.hours is not None:
            return f"{self.hours:g} hours of training"
        return f"{self.flops:.4g} FLOPs of training"


class Rungs(Document):
    """Where trials of a search are compared on the way: after the share `first` of the steps, and `factor` times that,
    again and again; at each rung the best `1/factor` go on."""

    first: Annotated[Share, Field(gt=0, lt=1)]
    factor: Annotated[int, Field(ge=2, le=100)]


class Pruner(Document):
    """Early stopping by rungs: `asha` alone, or `hyperband`, which also begins in turn at the later rungs.

    A block that starts slowly is stopped though it might have won: the rank correlation between rungs says how much
    that is to be feared.
    """

    asha: Rungs | None = None
    hyperband: Rungs | None = None

    @property
    def kind(self) -> str:
        """The key that was given."""
        return next((name for name in type(self).model_fields if getattr(self, name) is not None), "")

    @property
    def rungs(self) -> Rungs:
        """Its rungs."""
        found = self.asha or self.hyperband
        assert found is not None
        return found

    def described(self) -> str:
        """In words."""
        rungs = self.rungs
        return f"{self.kind}, from {rungs.first:.3g} of the steps on, the best 1/{rungs.factor} of a rung go on"


class Order(Document):
    """Of so many proposals the one with the least `by` is trained."""

    by: ZeroCost
    of: Annotated[int, Field(ge=2, le=100)]


class Beforehand(Document):
    """What is asked of a proposal before it is trained.

    `veto` bounds from above: a number, or a share of the reference's (`110%`). `order` chooses among several.
    """

    veto: Annotated[
        dict[
            ZeroCost,
            Annotated[float, BeforeValidator(_real), Field(gt=0, allow_inf_nan=False)]
            | Annotated[str, Field(pattern=PERCENT, description="a share of the reference's such as 110%")],
        ],
        Field(description="a mapping such as {parameters: 110%}"),
    ]
    order: Order | None


class Confirm(Document):
    """The best `blocks` of a search, trained anew and beside the reference at `seeds` that the search has not seen.

    What was chosen because its numbers were good looks better than it is; these numbers have no part in the choice.
    """

    blocks: Count
    seeds: Annotated[int, Field(ge=2, le=1_000)]


class Search(Document):
    """Blocks proposed one after another from what the grammar derives, named by their edits from the block `from`.

    Work number j, the reference's being 0, is chosen from `seed`, j and the results of 0 … j − `parallel`, and from
    nothing else (where these leave nothing to do, and where what is proposed is in training already, it waits for the
    next result): so a search that was stopped goes on as it would have gone.
    """

    from_: Annotated[str, Field(alias="from")]
    objective: Annotated[dict[str, Goal], Field(min_length=1, description="a mapping such as {eval_loss: min}")]
    budget: Budget
    sampler: Annotated[Choice, Field(description="one sampler, such as tpe")]
    pruner: Literal["none"] | Pruner
    beforehand: Beforehand
    confirm: Literal["none"] | Confirm
    parallel: Annotated[int, Field(ge=1, le=1_024)]
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)]


Ends: TypeAlias = Path | LeaveOneOut | AddOneIn | Factorial | Fractional | PlackettBurman | DOptimal
"""A design of the edits between two blocks."""


class Design(Document):
    """Exactly one of its keys says which design it is."""

    compare: Annotated[tuple[str, ...], BeforeValidator(_tuple), Field(min_length=2)] | None = None
    path: Path | None = None
    leave_one_out: LeaveOneOut | None = None
    add_one_in: AddOneIn | None = None
    factorial: Factorial | None = None
    fractional: Fractional | None = None
    plackett_burman: PlackettBurman | None = None
    d_optimal: DOptimal | None = None
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
        ends = self.ends
        return (ends.from_, ends.to) if ends is not None else ()

    @property
    def ends(self) -> Ends | None:
        """The design between two blocks, where it is one."""
        return (
            self.path
            or self.leave_one_out
            or self.add_one_in
            or self.factorial
            or self.fractional
            or self.plackett_burman
            or self.d_optimal
        )
