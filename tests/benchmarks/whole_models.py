"""How far forecasts of whole models are from sampled initialisations, from 1 to 768 layers.

    PYTHONPATH=tests/support python tests/benchmarks/whole_models.py --starts 20 --blocks pre_ln dslm_pre_ln

A line is printed for each model of `SIZES` and `NARROW` (`tests/support/whole_model_fixtures.py`): the mean square of
the stream behind the last layer, and of the gradient in front of the first layer over that behind the last, as they are
forecast and as the mean of as many starts, with the standard error of that mean over the mean, and how far the forecast
is from it, over it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from datetime import UTC, datetime

import torch
from whole_model_fixtures import LENGTH, NARROW, SEQUENCES, SIZES, Quantity, compare

from ablate.store.machines import installed


def figures(quantity: Quantity) -> dict[str, float]:
    """The numbers of one quantity, in five digits."""
    numbers = {
        "forecast": quantity.forecast,
        "mean": quantity.mean,
        "standard_error": quantity.standard_error,
        "error": quantity.error,
    }
    return {name: float(f"{number:.5g}") for name, number in numbers.items()}


def main() -> None:
    """Measure the models of some blocks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=20)
    parser.add_argument("--blocks", nargs="+", choices=list(SIZES), default=list(SIZES))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    for block in asked.blocks:
        for depth, width in (*SIZES[block], *NARROW.get(block, ())):
            model = compare(block, depth, width, asked.starts)
            line = {
                "benchmark": "whole_models",
                "date": datetime.now(UTC).date().isoformat(),
                "device": "cpu",
                "block": block,
                "layers": depth,
                "width": width,
                "tokens": [SEQUENCES, LENGTH],
                "starts": asked.starts,
                "variance": figures(model.variance),
                "gradient": figures(model.gradient),
                "versions": installed() | {"cores": str(os.cpu_count()), "machine": platform.machine()},
            }
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
