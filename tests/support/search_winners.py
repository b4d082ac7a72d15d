"""The best blocks of searches whose trials have the noise of real trainings: promised, confirmed, and in truth.

A search sees a surface of which the truth is known and, on every trial, what one arm of a kept space had beyond its
baseline at one seed, either way, with an sd as large as that of the truth. Its three best are confirmed at five other
seeds, beside the reference, by the judge.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from zlib import crc32

import numpy as np
from designed_fixtures import ends, rules
from grammar_fixtures import grammar
from kept_noise import Trained, drawn
from search_fixtures import carried_out, search, surface

from ablate.execute.search.ranking import Result
from ablate.grammar.grammar import Grammar
from ablate.verdict.judge import judge

SAMPLERS = ("random", "evolution", "nsga2", "tpe", "cmaes", "gp")
PROPOSALS, SEEDS, LOSS = 16, 5, "eval_loss"
SLOWER = 8
"""How many times fewer searches there are by `gp`, each of which takes seconds."""


@cache
def blocks() -> Grammar:
    """A grammar of 18,000 blocks, with choices and numbers."""
    return grammar(
        "number: {between: [0, 10], points: 1000, scale: linear}\n"
        "norm: [none, layer_norm, rms_norm]\n"
        "block: [[$norm, attention, residual: {gain: $number, branch: [$norm, mlp]}],"
        " [residual: {gain: $number, branch: [$norm, mlp]}, $norm]]"
    )


@dataclass(frozen=True)
class Winner:
    """One of the three best of a search: its difference from the reference as the search saw it, in truth, and as it
    was confirmed with its interval of 95 % (not adjusted). In sd of the noise of a difference; less is better.
    """

    sampler: str
    promised: float
    true: float
    confirmed: float
    low: float
    high: float

    def holds(self, *, promised: bool = False) -> bool:
        """Whether the confirmed interval, or one as wide about what was promised, holds the truth."""
        moved = self.promised - self.confirmed if promised else 0.0
        return self.low + moved <= self.true <= self.high + moved


@cache
def winners(space: Trained, sampler: str, searches: int) -> tuple[Winner, ...]:
    """The winners of so many searches; `space` has a baseline and three arms."""
    return tuple(_winners(space, sampler, searches, np.random.default_rng(crc32(sampler.encode()))))


def _winners(space: Trained, sampler: str, searches: int, random: np.random.Generator) -> Iterator[Winner]:
    plan = space.plan(SEEDS)
    noise = space.residuals(LOSS)[space.places(plan)]
    beyond = noise[1:] - noise[:1]
    sd, level = float(beyond.std()), float(space.level(LOSS)[0])
    for number in range(searches):
        truth, seen = surface(blocks(), number), {}

        def trained(index: int, seen: dict[int, float] = seen, truth=truth) -> Result:
            if index not in seen:
                seen[index] = (
                    truth(index).values[0] + float(random.choice(beyond.ravel()) * random.choice([-1, 1])) / sd
                )
            return Result(index, "finished", (seen[index],))

        list(carried_out(search(blocks(), sampler, seed=number), trained, until=PROPOSALS))
        best = sorted(seen, key=lambda index: seen[index])[:3]
        shifts = np.array([0.0, *(truth(index).values[0] for index in best)])[:, None] * sd
        (table,) = drawn(noise, SEEDS, 1, random)
        summary = judge(plan, rules(), ends(plan, {LOSS: level + table + shifts}))
        after = {effect.after: effect for effect in summary.effects}
        for index, variant in zip(best, plan.variants[1:], strict=True):
            effect = after[variant.id]
            assert effect.estimate is not None and effect.low is not None and effect.high is not None
            yield Winner(
                sampler=sampler,
                promised=seen[index],
                true=truth(index).values[0],
                confirmed=effect.estimate / sd,
                low=effect.low / sd,
                high=effect.high / sd,
            )


def every_winner(space: Trained, searches: int) -> Iterator[Winner]:
    """The winners of so many searches by each sampler."""
    for sampler in SAMPLERS:
        yield from winners(space, sampler, max(2, searches // SLOWER if sampler == "gp" else searches))
