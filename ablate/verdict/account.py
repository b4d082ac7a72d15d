"""The α of each comparison: which judgement of it this is, with what is left of α, and over which family.

The first judgement of a comparison spends 4 % of tables out of 5 %, the next at other data 0.8 %, then 0.16 %
(`alpha_spending.py`), each divided by Holm over the largest family that it was ever judged in. New comparisons beside
earlier ones are tested at 4 % over all of them, so any verdict of the question is false in at most

    Σ over judgements of   α_k · tested / family          4 · 3/3 + 4 · 2/5 = 5.6 %   for 2 new ones beside 3
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ablate.statistics.alpha_spending import spent
from ablate.verdict.summary import Effect

State: TypeAlias = Literal["new", "again", "continued", "settled"]
"""`new`: never judged; `again`: judged, at other data; `continued`: the looks that were begun go on, in other company;
`settled`: judged at these data, in whatever company.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierVerdict:
    """A verdict of an earlier judgement, in the direction of the present one: its effect, and the number of seeds which
    that judgement saw. `elsewhere` names the metric or the scale of the effect, where it is another one.
    """

    effect: Effect
    seeds: int
    elsewhere: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonAccount:
    """How a comparison is judged now: as judgement `number` of it, with the share `left` of α; `earlier` is what it was
    found to be, or, where it is settled, what it was judged to be.
    """

    state: State = "new"
    number: int = 1
    left: float = 1.0
    earlier: EarlierVerdict | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NextJudgement:
    """How a family is judged now. `accounts` are those of its comparisons, by metric and `comparison_id`; one that is
    not named is judged as judgement `number` of it, with the share `left` of α.

    `tests` is the size of the largest family (None: the comparisons of the plan). `counted`: the record of questions
    may count this judgement; where it may not, numbers are shown and no verdict is given. `so_far` is the share of
    tables in which any verdict of the question may be false, with this judgement; `questions` is the number of those on
    trainings that are compared here, and `among` the share in which any verdict of them may be false.
    """

    question: str = ""
    number: int = 1
    left: float = 1.0
    counted: bool = True
    tests: int | None = None
    accounts: Mapping[tuple[str, str], ComparisonAccount] = field(default_factory=dict)
    so_far: float | None = None
    questions: int = 1
    among: float | None = None

    def of(self, metric: str, comparison: str) -> ComparisonAccount:
        """Return how a comparison is judged on a metric."""
        place = metric, comparison
        if place in self.accounts:
            return self.accounts[place]
        state: State = "new" if self.number == 1 else "again"
        return ComparisonAccount(state=state, number=self.number, left=self.left)

    @property
    def before(self) -> float:
        """The share of α that is left before this judgement: of the comparisons that it tests, the largest."""
        tested = [account.left for account in self.accounts.values() if account.state != "settled"]
        return max(tested or [account.left for account in self.accounts.values()], default=self.left)

    def share(self, *, looks: bool) -> float:
        """Return the share of α that this judgement spends on what it tests: of several, the largest."""
        settled = self.accounts and all(account.state == "settled" for account in self.accounts.values())
        return 0.0 if settled else spent(self.before, looks=looks)

    def after(self, *, looks: bool) -> float:
        """Return the share of α that it leaves."""
        return self.before - self.share(looks=looks)


FIRST = NextJudgement()
"""A question that was never judged before."""

Account: TypeAlias = Mapping[str, NextJudgement]
"""How each metric of a plan is judged now; a metric that is not named is judged as in `FIRST`."""


def any_of(shares: Iterable[float]) -> float:
    """Return the share of tables in which any of several questions has a false verdict, from that of each.

    1 - Π(1 - a): what independent questions reach; those that share a training are positively dependent, and reach less
    (Šidák 1967, of t with two sides).

    >>> round(any_of([0.04] * 8), 3)
    0.279
    """
    return 1 - math.prod(1 - share for share in shares)
