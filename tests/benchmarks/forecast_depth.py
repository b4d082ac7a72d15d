"""What a forecast of 1,000 layers costs, over one forward and backward pass of a sampled model of them.

    PYTHONPATH=tests/support python tests/benchmarks/forecast_depth.py --times 5

At T = 128 tokens and width 256. The sampled model has 200 of the layers, and its time is taken five times, since 1,000
of them do not fit the memory of every machine; 8 sequences pass through it, as `ablate forecast --samples` has it, and
one. Its compilation is not counted. All are measured in turns; a line is printed for each block: seconds (medians), the
ratios, and how many of the layers were computed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime

import torch
from builders import architecture, node
from reading import transformer

from ablate.block.architecture import Architecture
from ablate.block.sizes import Sizes
from ablate.compiler import compile_model
from ablate.execute.start import pass_through
from ablate.store.machines import installed
from ablate.theory.models import forecast

LAYERS, SAMPLED = 1_000, 200
BLOCKS = ("pre_ln", "dslm_pre_ln", "u_spa", "post_ln")


def model(block: str, layers: int) -> Architecture:
    """A decoder of so many layers, of width 256, over 128 tokens."""
    sizes = Sizes(n_layers=layers, d_model=256, n_heads=4, seq_len=128, vocab_size=256, repetition=0.05)
    norm = node("layer_norm", bias=True, scale=True)
    init = node("normal", std="1/sqrt(width)")
    named = transformer().blocks[block].block
    return architecture(named, sizes=sizes, embedding_std=1.0, embedding_scale=1.0, init=init, final_norm=norm)


def seconds(run: Callable[[], object]) -> float:
    """Time one call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main() -> None:
    """Measure some blocks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--blocks", nargs="+", default=BLOCKS)
    asked = parser.parse_args()
    catalogue = transformer().catalogue
    for block in asked.blocks:
        deep = model(block, LAYERS)
        sampled = compile_model(model(block, SAMPLED), catalogue, seed=0).train()

        def passes(sequences: int, sampled: torch.nn.Module = sampled) -> None:
            streams, behind, _ = pass_through(sampled, torch.randint(0, 256, (sequences, 128)))
            torch.autograd.grad(behind, streams, torch.randn_like(behind))

        computed = len(forecast(deep, catalogue, 0.05).computed)
        measured: dict[str, list[float]] = {"forecast": [], "eight": [], "one": []}
        for _ in range(asked.times):
            measured["forecast"].append(seconds(lambda deep=deep: forecast(deep, catalogue, 0.05)))
            measured["eight"].append(LAYERS / SAMPLED * seconds(lambda passes=passes: passes(8)))
            measured["one"].append(LAYERS / SAMPLED * seconds(lambda passes=passes: passes(1)))
        median = {name: statistics.median(values) for name, values in measured.items()}
        line = {
            "benchmark": "forecast_depth",
            "date": datetime.now(UTC).date().isoformat(),
            "device": "cpu",
            "block": block,
            "layers": LAYERS,
            "computed": computed,
            "seconds": {name: round(value, 3) for name, value in median.items()},
            "of_eight_sequences": round(median["forecast"] / median["eight"], 4),
            "of_one_sequence": round(median["forecast"] / median["one"], 4),
            "times": asked.times,
            "versions": installed() | {"cores": str(os.cpu_count()), "machine": platform.machine()},
        }
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
