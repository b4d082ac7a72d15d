"""A space small enough to train in a second, over a corpus of a few files written here; real in every other way."""

from __future__ import annotations

import random
from pathlib import Path

ROOT = Path(__file__).parents[2]

SPACE = """\
space: tiny
question: Does the smallest model there is learn?
grammar: {grammar}
model: {{layers: 2, width: 16, heads: 2, context: 16, embedding: {embedding}, head: untied, init: {{normal: 0.02}}}}
block: {{attention.position: rope}}
data: {{corpus: {{files: ["texts/**/*.txt"]}}, tokenizer: bytes, tuning: 10%, verdict: 20%}}
recipe: {{steps: {steps}, batch: 4, optimizer: {{adamw: {{lr: {lr}}}}}}}
design: {{path: {{from: pre_ln, to: op}}}}
seeds: {seeds}
measure:
  every: 4
  probes: [kurtosis, token_correlation, gradient_norm]
  evaluation: {{every: 8, windows: 8}}
  checkpoint_every: 5
judge: {{against: pre_ln, metrics: {{eval_loss: {{margin: 1%}}, peak_kurtosis: {{scale: log}}}}}}
"""


def write_world(folder: Path, *, steps: int = 12, seeds: int = 2, lr: str = "1e-3", name: str = "tiny.yaml") -> Path:
    """A folder with texts and a space; the path of the space."""
    rng = random.Random(0)
    words = ["def", "return", "self", "import", "for", "in", "if", "else", "(", ")", "=", "x", "y", "1", "\n"]
    for group in range(10):
        for file in range(3):
            path = folder / "texts" / f"g{group}" / f"{file}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(" ".join(rng.choice(words) for _ in range(400)), encoding="utf-8")
    space = folder / name
    grammar = ROOT / "grammars" / "transformer.yaml"
    space.write_text(
        SPACE.format(embedding="{std: 0.02, scale: 50}", grammar=grammar, steps=steps, seeds=seeds, lr=lr),
        encoding="utf-8",
    )
    return space


def rows_of(results: Path) -> list[tuple[object, ...]]:
    """Every measured number in a results folder, in order: what must be the same bit for bit."""
    from ablate.store.query import query

    statement = "SELECT trial_id, step, metric, address, value FROM metrics ORDER BY ALL"
    return list(query(results, statement).rows)
