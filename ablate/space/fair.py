"""What a space declares to be equal between the blocks it compares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, get_args

from pydantic import BeforeValidator, Field

from ablate.space.documents import Count, Document, NotNegative, Positive, Share


def _tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


SETTINGS = ("lr", "weight_decay")
"""The settings that can be tuned."""

BudgetKind = Literal["steps", "tokens", "flops", "wallclock"]


By = Literal["width", "depth", "mlp"]
"""What a match may change: the model's width, its depth, or the hidden width of its MLPs."""
WIDTH, DEPTH, HIDDEN = BYS = get_args(By)


class Match(Document):
    """Each block's model is made as large as the baseline's in `parameters`, within that share, by one of its sizes.

    `width` and `depth` are the model's, `mlp` the hidden width of the block's MLPs. A model that is within the share
    stays as it is.
    """

    parameters: Annotated[Share, Field(gt=0, lt=1)]
    by: By


class Tune(Document):
    """Each block is trained with every combination of these settings at `seeds` seeds of its own, judged on the tuning
    split, and goes on with its best.
    """

    seeds: Annotated[Count, Field(le=1_000)]
    lr: Annotated[tuple[Positive, ...], BeforeValidator(_tuple), Field(min_length=1)] | None = None
    weight_decay: Annotated[tuple[NotNegative, ...], BeforeValidator(_tuple), Field(min_length=1)] | None = None

    @property
    def listed(self) -> Mapping[str, tuple[float, ...]]:
        """The values to try, by the name of the setting."""
        listed = {name: getattr(self, name) for name in SETTINGS}
        return {name: values for name, values in listed.items() if values is not None}


class Terms(Document):
    """The terms of one comparison: what each block may spend, and whether its size is matched to the baseline's.

    Of `steps` and `tokens` all spend what the recipe says; of `flops` and `wallclock` what the baseline spends on it.
    """

    budget: BudgetKind
    match: Literal["none"] | Match

    @property
    def plain(self) -> bool:
        """Whether every block stays as the space has it: batches are equally large, so equal steps are equal tokens."""
        return self.budget in ("steps", "tokens") and self.match == "none"


class Fair(Document):
    """What is equal. `under` names several terms, each said as what it has otherwise: all are answered on one page."""

    budget: BudgetKind
    match: Literal["none"] | Match
    tune: Literal["none"] | Tune
    under: dict[str, Terms]

    @property
    def terms(self) -> Mapping[str, Terms]:
        """Every set of terms by the name it has on the page; a single one has none."""
        return self.under or {"": Terms(budget=self.budget, match=self.match)}


EQUAL_STEPS = Fair(budget="steps", match="none", tune="none", under={})
"""What a space declares that says nothing of it: every block is trained for as many steps, at the sizes it has."""
