"""Losses of small real trainings, seed by seed, kept to calibrate verdicts with (`verdict_rates.py`).

    PYTHONPATH=tests/support python tests/benchmarks/training_noise.py > results/bench/DATE-training_noise.jsonl

Five spaces, whose blocks, objectives, texts or images, optimizers, rates and sizes differ, are trained in this process
at the same 20 seeds (`--seeds`), and every final metric is written as it is: by arm and seed, with effects and all. A
line for each space, behind one with the date and the versions. On the same build of PyTorch and of Python the digits
are the same. Takes about ten minutes of one core.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console

import ablate
from ablate.store.machines import installed
from ablate.store.measurements import finals

SEEDS = 20
METRICS = ("eval_loss", "peak_kurtosis")
DECODER = """\
model: {layers: 2, width: 32, heads: 4, context: 32, embedding: {std: 0.02, scale: 50}, head: untied,
        init: {normal: 0.02}}
data: {corpus: python_stdlib, tokenizer: bytes}
"""
MEASURED = """\
measure: {every: 20, probes: [kurtosis], evaluation: {every: 40, windows: 64}}
judge: {against: BASELINE, metrics: {eval_loss: {margin: 1%}, peak_kurtosis: {scale: log}}}
"""
SPACES = {
    "optimizers": DECODER
    + """\
block: {attention.position: rope}
recipe: {steps: 80, batch: 8, optimizer: {adamw: {lr: 3e-3}}}
variants:
  muon: {block: pre_ln, set: {recipe.optimizer: {muon: {lr: 1e-2}}}}
  fast: {block: pre_ln, set: {recipe.optimizer.adamw.lr: 3e-2}}
design: {compare: [pre_ln, muon, fast]}
"""
    + MEASURED.replace("BASELINE", "pre_ln"),
    "masked_words": """\
model: {kind: encoder, causal: false, layers: 2, width: 32, heads: 4, context: 32, position: {learned: 0.02},
        embedding: {std: 0.02, scale: 1}, final_norm: {layer_norm: {eps: 1e-12}}, head: tied, init: {normal: 0.02}}
block: {mlp: {activation: gelu, gate: dense, hidden: 2x}}
data: {corpus: python_stdlib, tokenizer: bytes}
recipe: {steps: 80, batch: 8, objective: {masked_words: {share: 25%}}, clip: 0.5, optimizer: {adamw: {lr: 3e-3}},
         schedule: {warmup: 20%}}
design: {compare: [pre_ln_bert, sas_bert, sas_p_bert, simplify_v_skipinit]}
"""
    + MEASURED.replace("BASELINE", "pre_ln_bert"),
    "regression": """\
model: {kind: mlp, layers: 3, width: 32, heads: 1, context: 1, embedding: {std: 0.02, scale: 1}, init: fan_in,
        head_init: zero, logit_scale: 1/sqrt(width)}
block: {mlp.activation: relu}
data: {corpus: digits, tuning: 10%, verdict: 10%, whiten: 0.1}
recipe: {steps: 160, batch: 32, objective: regression, clip: null, optimizer: {adam: {lr: 1e-2}}}
variants:
  sgd:         {block: outlier_mlp_pre_norm, set: {recipe.optimizer: {sgd: {lr: 3, momentum: 0}}}}
  sgd_no_norm: {block: outlier_mlp_no_norm, set: {recipe.optimizer: {sgd: {lr: 3, momentum: 0}}}}
design: {compare: [outlier_mlp_pre_norm, sgd, outlier_mlp_no_norm, sgd_no_norm]}
"""
    + MEASURED.replace("BASELINE", "outlier_mlp_pre_norm"),
    "sizes": DECODER
    + """\
block: {attention.position: rope}
recipe: {steps: 80, batch: 8, optimizer: {adamw: {lr: 1e-2}}}
design:
  ladder:
    compare: [pre_ln, op]
    sizes:
      - {model.width: 16, model.layers: 1, recipe.steps: 30}
      - {model.width: 24, model.layers: 2, recipe.steps: 50}
      - {model.width: 32, model.layers: 3, recipe.steps: 80}
      - {model.width: 48, model.layers: 3, recipe.steps: 130}
"""
    + MEASURED.replace("BASELINE", "pre_ln"),
    "edits": DECODER
    + """\
block: {attention.position: rope, mlp.activation: relu}
recipe: {steps: 80, batch: 8, optimizer: {adamw: {lr: 1e-2}}}
design: {factorial: {from: pre_ln, to: op, interactions: pairs}}
"""
    + MEASURED.replace("BASELINE", "pre_ln"),
}
"""What differs between the spaces; `text_of` has the rest."""


def text_of(name: str, seeds: int) -> str:
    """The whole text of a space."""
    head = f"space: {name}\nquestion: What does it vary by?\ngrammar: transformer\nseeds: {seeds}\n"
    return head + SPACES[name]


def read(name: str, seeds: int, folder: Path) -> ablate.Space:
    """A space, written to `folder` and read."""
    path = folder / f"{name}.yaml"
    path.write_text(text_of(name, seeds), encoding="utf-8")
    return ablate.load_space(path)


def arms(done: ablate.Run, results: Path) -> dict[str, dict[str, list[float | None]]]:
    """The final metrics of each arm in the order of the seeds; None where a run diverged."""
    ends = finals(results, [trial.id for trial in done.plan.trials])
    of = {(trial.variant, trial.seed): ends[trial.id] for trial in done.plan.trials}
    return {
        variant.name: {
            metric: [of[variant.id, seed]["metrics"].get(metric) for seed in done.plan.seeds] for metric in METRICS
        }
        for variant in done.plan.variants
    }


def main() -> None:
    """Train and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--only", nargs="*", default=list(SPACES), choices=list(SPACES))
    asked = parser.parse_args()
    said = {"benchmark": "training_noise", "date": f"{datetime.now(UTC):%Y-%m-%d}", "seeds": asked.seeds}
    print(json.dumps({**said, "versions": installed(), "cores": os.cpu_count()}), flush=True)
    for name in asked.only:
        began = time.monotonic()
        with TemporaryDirectory() as path:
            space, results = read(name, asked.seeds, Path(path)), Path(path) / "results"
            quiet = Console(quiet=True)
            done = ablate.run(space, results=results, executor="inline", console=quiet, mirror=False)
            line = {"space": name, "text": text_of(name, asked.seeds), "trials": len(done.plan.trials)}
            kept = {"ended": dict(done.ended.kinds), "values": arms(done, results)}
        print(json.dumps({**line, "seconds": round(time.monotonic() - began, 1), **kept}), flush=True)


if __name__ == "__main__":
    main()
