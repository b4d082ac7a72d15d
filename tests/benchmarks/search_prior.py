"""Whether a search that skips what a forecast finds in danger trains fewer blocks until it has the best.

    PYTHONPATH=. python tests/benchmarks/search_prior.py --results /tmp/search_prior

The protocol, which was written down before anything was trained:

- Blocks: all that `spaces/search_prior.yaml` can propose, each trained once, at seed 0, whatever its forecast says.
  What is the same model is one block. The reference is none of them.
- Searches: by `random` and by `tpe`, each from the seeds 0 to 19, each with `beforehand.forecast: ignore` and `avoid`,
  whose bounds are those that ship (`ablate/theory/diagnostics.py`). One trial at a time. The searches are those of the
  engine, told what each block came to, which is the same in all of them, so that it need be trained only once.
- The best: a loss of at most 1.01 times the lowest of all blocks; 1 % is the margin of the space. Also the lowest
  itself.
- What counts: the number of blocks trained, without the reference, until the first that is the best. A search that
  ends without it has the number of all blocks and one.
- What is said: the median of both arms, the median of the differences paired by seed (avoid - ignore) with its 95 %
  interval (percentile bootstrap of the seeds, 10,000 times, seed 0), and in how many seeds `avoid` needed fewer and
  more (sign test).
- False alarms: of the blocks that are the best, how many are skipped; and of all that are skipped, how many trained,
  that is ended below the loss of the text's byte frequencies.
- Twin: the same searches with as many blocks skipped, of random ones in place of those in danger, a permutation for
  each seed. The skipping itself must not be what helps.
"""

from __future__ import annotations

import argparse
import json
import os
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from danger_score import unigram_loss
from scipy.stats import binomtest

import ablate
from ablate.data.streams import prepare
from ablate.execute.executor import cache_of
from ablate.execute.search.proposer import sampler_on
from ablate.execute.search.ranking import JobOutcome
from ablate.execute.search.search import BlockSearch
from ablate.execute.search.search_space import SpaceGround, space_ground
from ablate.grammar.derivation import Template
from ablate.plan.proposals import Treated, block_of, join, setting_of
from ablate.session.planning import Planned
from ablate.space.design import ZeroCost
from ablate.space.documents import Choice
from ablate.space.space import Space
from ablate.store.machines import installed

SAMPLERS = ("random", "tpe")
SEEDS = range(20)
"""Those of the protocol."""
ARMS = ("ignore", "avoid", "permuted")
MARGIN = 1.01
"""How many times the lowest loss still counts as the best."""
DRAWS = 10_000
"""The number of bootstrap samples of the seeds."""
TRAIN = range(100, 110)
"""The seeds of the searches by which every block is trained: none of those that are compared."""
ENDED = """
SELECT t.trial_id, t.status, arg_max(m.value, m.step) AS loss
FROM trials t LEFT JOIN metrics m ON m.trial_id = t.trial_id AND m.metric = 'eval_loss' AND coalesce(m.address, '') = ''
GROUP BY ALL
"""


@dataclass(frozen=True)
class Skipping:
    """A ground that skips blocks by their marks, and is the other one otherwise."""

    ground: SpaceGround
    skipped: frozenset[str]

    @property
    def name(self) -> str:
        """The name of the grammar."""
        return self.ground.name

    @property
    def derivations(self) -> Template:
        """Those of the other ground."""
        return self.ground.derivations

    @property
    def count(self) -> int:
        """The number of derivations, skipped ones among them."""
        return self.ground.count

    def derive(self, k: int) -> Treated:
        """Derive as the other ground does."""
        return self.ground.derive(k)

    def refusals(self, block: Treated) -> tuple[str, ...]:
        """Refuse what the other ground refuses, and what is skipped."""
        return self.ground.refusals(block) or (("skipped",) if self.mark(block) in self.skipped else ())

    def way_out(self, reason: str) -> str:
        """Return that of the other ground."""
        return self.ground.way_out(reason)

    def mark(self, block: Treated) -> str:
        """Return the mark of a block on the other ground."""
        return self.ground.mark(block)

    def flops(self, block: Treated) -> float:
        """Count as the other ground does."""
        return self.ground.flops(block)

    def measure(self, by: ZeroCost, block: Treated) -> float:
        """Measure as the other ground does."""
        return self.ground.measure(by, block)


def ground_of(planned: Planned, space: Space) -> SpaceGround:
    """The ground of the space's search, as a run of it makes it."""
    return space_ground(
        space,
        vocab_size=planned.corpus.vocab_size,
        repetition=planned.models.repetition,
        read=planned.models.read,
        forecaster=planned.plans.forecaster,
    )


def blocks_of(planned: Planned, ground: SpaceGround, results: Path) -> dict[str, dict[str, Any]]:
    """By mark: the reference first, then every block of the ground, its dangers, and how its training ended.

    Raises SystemExit for a block without a result.
    """
    ended = {row.trial_id: row for row in ablate.query(ENDED, results=results).itertuples()}
    reference = planned.plan.variants[0]
    forecaster = planned.plans.forecaster
    of_mark: dict[str, dict[str, Any]] = {}
    of_reference = planned.space.blocks[ground.search.from_]
    for proposed in (of_reference, *map(ground.derive, range(ground.count))):
        if ground.refusals(proposed) or (mark := ground.mark(proposed)) in of_mark:
            continue
        joined = join(planned.models, f"b{len(of_mark)}", proposed, reference)
        variant = reference if proposed is of_reference else joined.variant
        (trial,) = planned.models.trials([variant], planned.space.seeds, "tuning")
        if trial.id not in ended or ended[trial.id].status not in ("finished", "diverged"):
            raise SystemExit(f"{[edit.name for edit in joined.edits]} has no result: train it")
        forecast = forecaster.of(block_of(proposed), setting_of(proposed))
        of_mark[mark] = {
            "block": len(of_mark),
            "edits": [edit.name for edit in joined.edits],
            "dangers": list(forecast.kinds),
            "refused": forecast.refused,
            "status": ended[trial.id].status,
            "loss": float(ended[trial.id].loss) if ended[trial.id].status == "finished" else None,
        }
    return of_mark


def searched(ground: Any, space: Space, sampler: str, seed: int, of_mark: Mapping[str, dict[str, Any]]) -> list[int]:
    """The numbers of the blocks that a search trains, in order, until the one of the lowest loss or its end."""
    search, catalogue = space.design.search, space.grammar.catalogue
    goals = tuple(search.objective.values())
    proposer = sampler_on(ground, Choice(sampler), seed, goals, catalogue)
    reference = space.blocks[search.from_]
    found = BlockSearch(
        ground,
        proposer,
        reference=reference,
        goals=goals,
        budget=search.budget,
        parallel=search.parallel,
        steps=space.recipe.steps,
        seeds=len(space.seeds),
    )
    lowest = min((b for b in of_mark.values() if b["block"] and b["loss"] is not None), key=lambda b: b["loss"])
    order: list[int] = []
    while (job := found.ask()) is not None:
        block = of_mark[job.mark]
        ended = (
            JobOutcome("diverged", (), 1.0) if block["loss"] is None else JobOutcome("finished", (block["loss"],), 1.0)
        )
        found.tell(job.number, ended)
        if job.k is not None:
            order.append(block["block"])
            if block is lowest:
                break
    return order


def permuted(of_mark: Mapping[str, dict[str, Any]], seed: int) -> frozenset[str]:
    """As many marks as are in danger, of random blocks."""
    marks = [mark for mark, block in of_mark.items() if block["block"]]
    dangerous = sum(bool(of_mark[mark]["dangers"]) for mark in marks)
    return frozenset(random.Random(seed).sample(marks, dangerous))


def searches(
    planned: Planned, of_mark: Mapping[str, dict[str, Any]], ignore: SpaceGround, seeds: range
) -> Iterator[dict[str, Any]]:
    """Every search: its sampler, its seed, its arm, and the blocks that it trained, in order."""
    avoiding = ablate.load_space("search_prior", settings=["design.search.beforehand.forecast=avoid"])
    avoid = ground_of(planned, avoiding)
    for sampler in SAMPLERS:
        for seed in seeds:
            grounds = {"ignore": ignore, "avoid": avoid, "permuted": Skipping(ignore, permuted(of_mark, seed))}
            for arm in ARMS:
                trained = searched(grounds[arm], planned.space, sampler, seed, of_mark)
                yield {"sampler": sampler, "seed": seed, "arm": arm, "trained": trained}


def until(trained: list[int], best: set[int], blocks: int) -> int:
    """The number of blocks trained until the first of the best; of all and one if there is none."""
    return next((n for n, block in enumerate(trained, 1) if block in best), blocks + 1)


def bootstrapped(differences: list[int]) -> tuple[float, float]:
    """The 95 % interval of the median, from the percentiles of bootstrap samples."""
    rng = np.random.default_rng(0)
    drawn = np.asarray(differences)[rng.integers(0, len(differences), (DRAWS, len(differences)))]
    low, high = np.quantile(np.median(drawn, axis=1), [0.025, 0.975])
    return float(low), float(high)


def figures(lines: list[dict[str, Any]], seeds: range = SEEDS) -> Iterator[dict[str, Any]]:
    """What is said of each meaning of the best, sampler and arm, against `ignore`."""
    blocks = {line["block"]: line["loss"] for line in lines if line.get("block")}
    lowest = min(loss for loss in blocks.values() if loss is not None)
    bests = {f"within {MARGIN - 1:.0%}": MARGIN * lowest, "lowest": lowest}
    runs = [line for line in lines if "arm" in line]
    for name, bound in bests.items():
        best = {block for block, loss in blocks.items() if loss is not None and loss <= bound}
        for sampler in SAMPLERS:
            needed = {
                arm: {
                    run["seed"]: until(run["trained"], best, len(blocks))
                    for run in runs
                    if (run["sampler"], run["arm"]) == (sampler, arm) and run["seed"] in seeds
                }
                for arm in ARMS
            }
            for arm in ARMS[1:]:
                differences = [needed[arm][seed] - needed["ignore"][seed] for seed in seeds]
                fewer, more = sum(d < 0 for d in differences), sum(d > 0 for d in differences)
                yield {
                    "best": name,
                    "of": len(best),
                    "sampler": sampler,
                    "arm": arm,
                    "ignore": median(needed["ignore"].values()),
                    "median": median(needed[arm].values()),
                    "difference": median(differences),
                    "interval": bootstrapped(differences),
                    "fewer": fewer,
                    "more": more,
                    "p": binomtest(fewer, fewer + more).pvalue if fewer + more else 1.0,
                    "without": sum(n > len(blocks) for n in needed[arm].values()),
                }


def main() -> None:
    """Train what is not trained, search, keep and compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--kept", type=Path, help="where the lines are kept; with none of it, figures are only printed")
    parser.add_argument("--trained", action="store_true", help="every block is trained already")
    parser.add_argument(
        "--seeds", type=int, nargs=2, default=(SEEDS.start, SEEDS.stop), help="the first, and one past the last"
    )
    given = parser.parse_args()
    seeds = range(*given.seeds)
    if not given.trained:
        for seed in TRAIN:
            space = ablate.load_space("search_prior", settings=[f"design.search.seed={seed}"])
            ablate.run(space, results=given.results, mirror=False)
    space = ablate.load_space("search_prior")
    planned = ablate.plan_space(space, results=given.results)
    ignore = ground_of(planned, space)
    of_mark = blocks_of(planned, ignore, given.results)
    streams = prepare(space.data, space.folder, cache_of(given.results), space.grammar.catalogue)
    unigram = unigram_loss(np.asarray(streams.train), np.asarray(streams.tuning), streams.vocab_size)
    lines: list[dict[str, Any]] = [
        {
            "benchmark": "search_prior",
            "date": datetime.now(UTC).date().isoformat(),
            "device": "cpu",
            "space": space.name,
            "blocks": len(of_mark) - 1,
            "unigram_loss": round(unigram, 4),
            "versions": {**installed(), "optuna": version("optuna"), "cores": str(os.cpu_count())},
        },
        *of_mark.values(),
    ]
    lines.extend(searches(planned, of_mark, ignore, seeds))
    if given.kept:
        given.kept.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    for line in figures(lines, seeds):
        print(json.dumps(line))


if __name__ == "__main__":
    main()
