"""A search: proposals asked for and told of.

Proposal k is made once results 0 … k − w are known, and from them alone, however many more are there by then; w is how
many trials run at once. What is the same as an earlier proposal is never trained: it has that one's result.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ablate.block.fingerprint import fingerprint
from ablate.errors import InputError
from ablate.execute.search.proposer import Proposal, Proposer
from ablate.execute.search.result import Result
from ablate.grammar.grammar import Grammar

REPEATS = 1_000
"""A search ends when this many proposals in a row were known."""


@dataclass(frozen=True)
class Proposed:
    """Proposal number k, and the fingerprint of its block; `same_as` is the first proposal with that fingerprint."""

    k: int
    proposal: Proposal
    fingerprint: str
    same_as: int | None


class Search:
    """Hands out derivations to be trained, and is told what became of them."""

    def __init__(self, grammar: Grammar, proposer: Proposer, *, parallel: int, trials: int | None = None):
        if parallel < 1:
            raise InputError(f"a search needs at least one trial at a time, got {parallel}")
        self.grammar, self.parallel, self.trials = grammar, parallel, trials
        self._proposer = proposer
        self.proposed: list[Proposed] = []
        self._results: dict[int, Result] = {}
        self._first: dict[str, int] = {}
        self._repeats = 0

    @property
    def trained(self) -> int:
        """How many proposals were handed out to be trained."""
        return len(self._first)

    @property
    def folded(self) -> int:
        """How many proposals were the same as an earlier one."""
        return len(self.proposed) - len(self._first)

    @property
    def refused(self) -> Counter[str]:
        """How many proposals each constraint removed, by its reason."""
        found: Counter[str] = Counter()
        for one in self.proposed:
            found.update(one.proposal.refused)
        return found

    @property
    def random_share(self) -> float:
        """The share of choices that were made without regard to any result; 0 where none was made."""
        made = sum(one.proposal.choices for one in self.proposed)
        return sum(one.proposal.random for one in self.proposed) / made if made else 0.0

    @property
    def wholly_random(self) -> float:
        """The share of proposals all of whose choices were made without regard to any result."""
        wholly = sum(one.proposal.random == one.proposal.choices for one in self.proposed)
        return wholly / len(self.proposed) if self.proposed else 0.0

    @property
    def exhausted(self) -> bool:
        """Whether so many proposals in a row were known that no new one is to be expected."""
        return self._repeats >= REPEATS

    @property
    def over(self) -> bool:
        """Whether nothing more is handed out, whatever is told."""
        return self.exhausted or (self.trials is not None and self.trained >= self.trials)

    def result(self, k: int) -> Result | None:
        """What became of proposal k: its own result, or that of the one it is the same as; None until it is told."""
        one = self.proposed[k]
        return self._results.get(one.k if one.same_as is None else one.same_as)

    def ask(self) -> Proposed | None:
        """The next derivation to be trained; None while it must wait for a result, and when the search is over."""
        while not self.over:
            k = len(self.proposed)
            history = self._history(k)
            if history is None:
                return None
            proposal = self._proposer.propose(k, history)
            mark = fingerprint(proposal.block, self.grammar.catalogue)
            one = Proposed(k, proposal, mark, self._first.get(mark))
            self._first.setdefault(mark, k)
            self.proposed.append(one)
            if one.same_as is None:
                self._repeats = 0
                return one
            self._repeats += 1
        return None

    def tell(self, k: int, result: Result) -> None:
        """What became of proposal k. ValueError for one that was not handed out, or that is told twice."""
        if k >= len(self.proposed) or self.proposed[k].same_as is not None:
            raise ValueError(f"proposal {k} was not handed out")
        if k in self._results:
            raise ValueError(f"proposal {k} was told already")
        if result.index != self.proposed[k].proposal.index:
            raise ValueError(f"proposal {k} is derivation {self.proposed[k].proposal.index}, not {result.index}")
        self._results[k] = result

    def _history(self, k: int) -> list[Result] | None:
        """Results 0 … k − w, each under its own derivation; None while one of them is not known."""
        found: list[Result] = []
        for earlier in range(max(0, k - self.parallel + 1)):
            result = self.result(earlier)
            if result is None:
                return None
            found.append(Result(self.proposed[earlier].proposal.index, result.outcome, result.values))
        return found
