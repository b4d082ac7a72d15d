"""How well the danger score of a forecast tells which blocks failed, by the results of `spaces/danger.yaml`.

    ablate run danger
    python tests/benchmarks/danger_score.py --results results

A block failed if its training diverged, or if its last loss on the tuning split is not below that of the frequencies
of bytes in the training text (each counted once more than it is there), which needs no attention. The score is of its
forecast at the sizes and the repetition of tokens of the space. A block that is not forecast because its scores
overflow counts as infinitely dangerous; any other that is not forecast has no score, and is only counted. Trials that
ended by a fault of the machine or of the program are left out, and counted.

Printed are the AUC with its 95 % interval (DeLong), of the score and of each of its terms, and the blocks that are
misjudged: on the wrong side of the score that separates both kinds best (Youden's J, chosen on the same blocks, so
that it flatters), with the terms of their score, what was measured at the end, and their edits. `--json` has all.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import ablate
from ablate.data.corpus_statistics import measure_repetition
from ablate.data.streams import prepare
from ablate.errors import InputError
from ablate.execute.executor import cache_of
from ablate.space.space import Space
from ablate.theory.diagnostics import SCORE_TERMS, DangerScore, danger_of_refusal, danger_score
from ablate.theory.models import forecast

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from separation import separation

ENDED = """
SELECT v.variant, v.variant_id, v.edits, v.block, t.status, t.trial_id
FROM variants v JOIN plan_trials p ON p.space = v.space AND p.plan = v.plan AND p.variant_id = v.variant_id
JOIN trials t ON t.trial_id = p.trial_id
WHERE v.space = 'danger' ORDER BY v.position
"""
LAST = """
SELECT trial_id, metric, arg_max(value, step) AS value FROM metrics
WHERE coalesce(address, '') IN ('', 'head') GROUP BY ALL
"""
MEASURED = ("eval_loss", "token_cosine", "gradient_norm", "activation_rms")
"""What is told of a misjudged block, at its last step; of streams, behind the last layer."""
DECIDED = ("finished", "diverged")
"""How a trial ends that says something of its block."""


@dataclass(frozen=True)
class Judged:
    """A block, what its forecast says, and how it ended; `refused` is the reason where there is no forecast."""

    name: str
    edits: tuple[str, ...]
    terms: DangerScore | None
    score: float | None
    refused: str
    status: str
    loss: float
    failed: bool


def unigram_loss(train: np.ndarray, held_out: np.ndarray, vocabulary: int) -> float:
    """The cross-entropy, in nats, of held-out tokens under the frequencies of training ones, each counted once more."""
    counts = np.bincount(train, minlength=vocabulary) + 1
    seen = np.bincount(held_out, minlength=vocabulary)
    return float(-(seen @ np.log(counts / counts.sum())) / seen.sum())


def judged(space: Space, row: Any, loss: float, repetition: float, unigram: float) -> Judged:
    """A block of the results, forecast anew."""
    terms, score, refused = None, None, ""
    try:
        block = ablate.load_block(row.block, grammar=space.grammar)
        terms = danger_score(forecast(space.architecture(block, 256), space.grammar.catalogue, repetition))
        score = terms.total
    except InputError as error:
        refused = str(error).partition("\n")[0]
        score = None if danger_of_refusal(error) is None else math.inf
    failed = row.status == "diverged" or not loss < unigram
    return Judged(row.variant, tuple(row.edits), terms, score, refused, row.status, loss, failed)


def threshold(scores: Sequence[float], failed: Sequence[bool]) -> float:
    """The score from which on a block is called dangerous: the best by Youden's J, the lowest of equal ones."""
    bad, good = ([s for s, f in zip(scores, failed, strict=True) if f is kind] for kind in (True, False))

    def j(at: float) -> float:
        return sum(s >= at for s in bad) / len(bad) - sum(s >= at for s in good) / len(good)

    return max(sorted(set(scores)), key=j)


def main() -> None:
    """Judge the score, and print what it says."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--json", action="store_true", help="all blocks, as JSON")
    given = parser.parse_args()
    space = ablate.load_space("danger")
    ended, last = (ablate.query(sql, results=given.results) for sql in (ENDED, LAST))
    cache = cache_of(given.results)
    streams = prepare(space.data, space.folder, cache, space.grammar.catalogue)
    unigram = unigram_loss(np.asarray(streams.train), np.asarray(streams.tuning), 256)
    length = space.model.context
    repetition = measure_repetition(space.data, space.folder, cache, length, space.grammar.catalogue).value
    blocks, ends = [], {}
    for row in ended.itertuples():
        if row.status not in DECIDED:
            continue
        values = last[last.trial_id == row.trial_id]
        ends[row.variant] = {m: v for m, v in zip(values.metric, values.value, strict=True) if m in MEASURED}
        loss = ends[row.variant].get("eval_loss", math.inf)
        blocks.append(judged(space, row, loss, repetition, unigram))
    if given.json:
        print(json.dumps([asdict(block) for block in blocks]))
        return
    scored = [block for block in blocks if block.score is not None]
    without = [block for block in blocks if block.score is None]
    one_hot = sum(block.terms is None for block in scored)
    failed = [block.failed for block in scored]
    print(f"{len(ended)} blocks; {len(ended) - len(blocks)} did not end by themselves and are left out")
    print(f"unigram loss {unigram:.4f}; repetition {repetition:.4f}; {sum(block.failed for block in blocks)} failed, ")
    print(f"of them {sum(block.status == 'diverged' for block in blocks)} diverged")
    print(f"{one_hot} are not forecast for their scores and count as infinite; {len(without)} have no score, ")
    print(f"of which {sum(block.failed for block in without)} failed\n")
    print("               AUC   95 % interval      failed  others")
    columns = {"danger score": [block.score for block in scored]}
    columns |= {n: [math.inf if b.terms is None else getattr(b.terms, n) for b in scored] for n in SCORE_TERMS}
    for name, values in columns.items():
        try:
            area = separation(values, failed)
        except InputError as error:
            raise SystemExit(str(error)) from None
        interval = f"{area.low:.3f} to {area.high:.3f}"
        print(f"{name:13} {area.auc:.3f}   {interval:16}   {area.failed:6} {area.others:7}")
    at = threshold([block.score for block in scored], failed)
    wrong = [block for block in scored if (block.score >= at) is not block.failed]
    print(f"\n{len(wrong)} of {len(scored)} are misjudged at a score of {at:.2f}, the best of these blocks:")
    for block in wrong:
        terms = block.refused or ", ".join(f"{name} {getattr(block.terms, name):.2f}" for name in SCORE_TERMS)
        numbers = ", ".join(f"{metric} {value:.3g}" for metric, value in ends[block.name].items())
        print(f"\n{block.name}: {'failed' if block.failed else 'trained'} ({block.status}), score {block.score:.2f}")
        print(f"    forecast: {terms}\n    measured: {numbers}\n    edits: {'; '.join(block.edits)}")


if __name__ == "__main__":
    main()
