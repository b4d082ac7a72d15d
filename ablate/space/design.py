"""Designs: which blocks a space compares, and which differences between them it estimates."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from ablate.space.choice import Choice
from ablate.space.documents import PERCENT, Count, Document, Positive, Share, as_tuple
from ablate.space.ladder import LadderSizes, LawKind
from ablate.space.vary import Vary

Names = Annotated[tuple[str, ...], BeforeValidator(as_tuple)]


class Path(Document):
    """A path from one block to another, one edit at a time: n edits, n + 1 models.

    `order` lists the edits; if it is left out, stabilisers come first. `split` names edits to split by place (true:
    all).
    """

    from_: Annotated[str, Field(alias="from")]
    to: str
    order: Names = ()
    split: Annotated[tuple[str, ...] | bool, BeforeValidator(as_tuple)] = ()


class LeaveOneOut(Document):
    """The full treatment `to`, and `to` with each edit from `from` undone."""

    from_: Annotated[str, Field(alias="from")]
    to: str
    split: Annotated[tuple[str, ...] | bool, BeforeValidator(as_tuple)] = ()


Split = Annotated[tuple[str, ...] | bool, BeforeValidator(as_tuple)]
Interactions = Literal["none", "pairs"]
"""Which interactions are estimated: none, or those of each pair of edits."""


class AddOneIn(Document):
    """The block `from`, and `from` with each single edit towards `to`; also `to`, to see whether the edits add up."""

    from_: Annotated[str, Field(alias="from")]
    to: str
    split: Split = ()


class Factorial(Document):
    """Every combination of the edits between two blocks and of the levels of the factors in `vary`.

    Without edits, `to` is the same as `from`.
    """

    from_: Annotated[str, Field(alias="from")]
    to: str
    split: Split = ()
    interactions: Interactions = "pairs"
    vary: Vary = Vary()


class Fractional(Document):
    """A regular fraction of all combinations: the smallest of this resolution.

    At III an edit's effect is aliased with those of pairs; at IV only pairs are aliased with each other; at V none is.
    """

    from_: Annotated[str, Field(alias="from")]
    to: str
    split: Split = ()
    resolution: Literal["III", "IV", "V"]
    interactions: Interactions = "none"


class PlackettBurman(Document):
    """The fewest runs, a multiple of 4, in which each edit's effect is separate from every other's.

    The effect of a pair is partially aliased with those of many edits.
    """

    from_: Annotated[str, Field(alias="from")]
    to: str
    split: Split = ()


class DOptimal(Document):
    """A D-optimal design: `runs` of all combinations, chosen so that the effects are jointly least uncertain."""

    from_: Annotated[str, Field(alias="from")]
    to: str
    split: Split = ()
    runs: Count
    interactions: Interactions = "none"


class SizeLadderDesign(Document):
    """Treatments at each of several sizes: how the loss of each falls with training compute, the compute that one saves
    over the baseline, and whether that grows with size.

    `law` is what is fitted to the losses of the baseline: a power law, or one that ends at an irreducible loss.
    """

    compare: Annotated[tuple[str, ...], BeforeValidator(as_tuple), Field(min_length=2)]
    law: LawKind = "power"
    sizes: LadderSizes = LadderSizes()


Goal = Literal["min", "max"]
ZeroCost = Literal["parameters", "flops", "start_loss", "start_gradient_norm"]
"""What is known of a block before training: counts, or measurements on one batch at its initialisation."""


class Budget(Document):
    """What a search may spend on its reference and proposals, over all workers; exactly one key is given.

    `trials` counts trained trials (a proposal whose result is known costs none), `hours` are hours of training, summed
    over trials, and `flops` FLOPs of training. The trials that confirm the best blocks are not included.
    """

    trials: Count | None = None
    hours: Positive | None = None
    flops: Positive | None = None

    @property
    def kind(self) -> str:
        """The key that was given."""
        return next((name for name in type(self).model_fields if getattr(self, name) is not None), "")

    def described(self) -> str:
        """Return the budget in words."""
        if self.trials is not None:
            return f"{self.trials:,} trials"
        if self.hours is not None:
            return f"{self.hours:g} hours of training"
        return f"{self.flops:.4g} FLOPs of training"


class Rungs(Document):
    """Where trials of a search are compared during training: after the share `first` of the steps, and then after
    `factor` times as many each time; at each rung the best `1/factor` continue."""

    first: Annotated[Share, Field(gt=0, lt=1)]
    factor: Annotated[int, Field(ge=2, le=100)]


class Pruner(Document):
    """Early stopping by rungs: `asha`, or `hyperband`, whose brackets also start, in turn, at the later rungs.

    A block that starts slowly is stopped even if it would have won in the end: the rank correlation between rungs says
    how likely that is.
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
        rungs = self.asha or self.hyperband
        assert rungs is not None
        return rungs

    def described(self) -> str:
        """Return the pruner in words."""
        rungs = self.rungs
        return f"{self.kind}, from {rungs.first:.3g} of the steps on, the best 1/{rungs.factor} of a rung go on"


class Order(Document):
    """Of every `of` proposals, the one with the lowest `by` is trained."""

    by: ZeroCost
    of: Annotated[int, Field(ge=2, le=100)]


AVOID: Final = "avoid"
"""What `beforehand.forecast` says to skip what a forecast finds in danger."""


class Beforehand(Document):
    """What is required of a proposal before it is trained.

    `veto` sets upper bounds: a number, or a share of the reference's value (`110%`). `order` chooses among several.
    With `forecast: avoid`, what a forecast finds in any danger is skipped; what cannot be forecast for another reason
    is not.
    """

    veto: Annotated[
        dict[
            ZeroCost,
            Positive
            | Annotated[str, Field(pattern=PERCENT, description="a share of the reference's value such as 110%")],
        ],
        Field(description="a mapping such as {parameters: 110%}"),
    ]
    order: Order | None
    forecast: Literal["ignore", "avoid"] = "ignore"


class Confirm(Document):
    """The best `blocks` of a search, trained again beside the reference at `seeds` that the search has not seen.

    A block that was chosen because its numbers were good looks better than it is; these new numbers play no part in
    the choice.
    """

    blocks: Count
    seeds: Annotated[int, Field(ge=2, le=1_000)]


class Search(Document):
    """Blocks proposed one after another from what the grammar derives, named by their edits from the block `from`.

    `start` names the start of the grammar that they are derived from: None is its first.
    With `vary` each proposal also has one of the values of every address there.

    Work item j (the reference is item 0) depends only on `seed`, j and the results of items 0 … j − `parallel` (where
    these leave nothing to do, or the proposed block is already in training, it waits for the next result): so a search
    that was stopped and resumed proposes what it would have proposed without the stop.
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
    vary: Vary = Vary()
    start: str | None = None


Ends: TypeAlias = Path | LeaveOneOut | AddOneIn | Factorial | Fractional | PlackettBurman | DOptimal
"""A design of the edits between two blocks."""


class Design(Document):
    """A design; exactly one key is given, and says which kind it is."""

    compare: Annotated[tuple[str, ...], BeforeValidator(as_tuple), Field(min_length=2)] | None = None
    path: Path | None = None
    leave_one_out: LeaveOneOut | None = None
    add_one_in: AddOneIn | None = None
    factorial: Factorial | None = None
    fractional: Fractional | None = None
    plackett_burman: PlackettBurman | None = None
    d_optimal: DOptimal | None = None
    ladder: SizeLadderDesign | None = None
    search: Search | None = None

    @property
    def kind(self) -> str:
        """The key that was given."""
        return next((name for name in type(self).model_fields if getattr(self, name) is not None), "")

    @property
    def vary(self) -> Vary:
        """Its addresses with several values."""
        varying = self.factorial or self.search
        return varying.vary if varying is not None else Vary()

    @property
    def sizes(self) -> LadderSizes:
        """The sizes of its ladder."""
        return self.ladder.sizes if self.ladder is not None else LadderSizes()

    @property
    def blocks(self) -> tuple[str, ...]:
        """The names of the blocks that it compares."""
        if self.compare is not None:
            return self.compare
        if self.ladder is not None:
            return tuple(dict.fromkeys(self.ladder.compare))
        if self.search is not None:
            return (self.search.from_,)
        ends = self.ends
        return (ends.from_, ends.to) if ends is not None else ()

    @property
    def ends(self) -> Ends | None:
        """The design of the edits between two blocks, if it is one."""
        return (
            self.path
            or self.leave_one_out
            or self.add_one_in
            or self.factorial
            or self.fractional
            or self.plackett_burman
            or self.d_optimal
        )
