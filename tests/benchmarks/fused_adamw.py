"""What a fused AdamW saves: its time, and that of a whole training step, against the AdamW of one kernel a tensor.

    python tests/benchmarks/fused_adamw.py --width 256 --layers 6 --rounds 60 [--device cuda]

Two models of one seed are trained side by side on the same batches of the standard library's text, one with each
optimiser. In every round both take a step, in turn the one and the other first, so that what else the machine does
falls on both. Each ratio is the median over the rounds of fused / not fused in that round, with its quartiles. One
JSON line is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from datetime import UTC, datetime
from pathlib import Path

import torch
from torch import Tensor, nn, optim

import ablate
from ablate.compiler import compile_model
from ablate.store.machines import installed
from ablate.train.loss import cross_entropy
from ablate.train.optimizer import build_optimizer
from ablate.train.optimizers import adamw

BATCH, CONTEXT = 8, 64
WARM = 5
"""Rounds that are not counted: the first make the optimiser's state and choose kernels."""


def batches(rounds: int, device: str) -> list[Tensor]:
    """[B, T] bytes of the standard library's modules, another stretch each."""
    text = b"".join(path.read_bytes() for path in sorted(Path(os.__file__).parent.glob("*.py")))
    needed = BATCH * CONTEXT
    stretches = (text[k * needed : (k + 1) * needed] for k in range(rounds))
    return [
        torch.frombuffer(bytearray(each), dtype=torch.uint8).long().view(BATCH, CONTEXT).to(device)
        for each in stretches
    ]


def built(width: int, layers: int, device: str, *, fused: bool) -> tuple[nn.Module, optim.Optimizer]:
    """A Pre-LN model and its optimiser, with the rate that the recipe of `op_vs_preln` has."""
    space = ablate.load_space("op_vs_preln", settings=[f"model.width={width}", f"model.layers={layers}"])
    trial = ablate.check(space).trials[0]
    model = compile_model(trial.work.architecture, space.grammar.catalogue, seed=0, salt=0, device=device)
    adamw.FUSED = fused
    return model, build_optimizer(model, space.recipe.optimizer, space.grammar.catalogue)


def step(model: nn.Module, optimizer: optim.Optimizer, tokens: Tensor) -> tuple[float, float]:
    """Seconds of the optimiser's step, and of the whole one."""
    began = now(tokens)
    cross_entropy(model(tokens), tokens).backward()
    between = now(tokens)
    optimizer.step()
    ended = now(tokens)
    optimizer.zero_grad(set_to_none=True)
    return ended - between, ended - began


def now(tokens: Tensor) -> float:
    """The clock, once the device has done what it was given."""
    if tokens.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter()


def ratios(pairs: list[tuple[float, float]]) -> dict[str, float]:
    """The median of fused / not fused, and its quartiles."""
    low, middle, high = statistics.quantiles([fused / other for fused, other in pairs], n=4)
    return {"median": round(middle, 4), "quartile_1": round(low, 4), "quartile_3": round(high, 4)}


def main() -> None:
    """Measure one size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--device", default="cpu")
    asked = parser.parse_args()
    both = {fused: built(asked.width, asked.layers, asked.device, fused=fused) for fused in (True, False)}
    kept: list[dict[bool, tuple[float, float]]] = []
    for number, tokens in enumerate(batches(asked.rounds + WARM, asked.device)):
        order = (True, False) if number % 2 else (False, True)
        kept.append({fused: step(*both[fused], tokens) for fused in order})
    kept = kept[WARM:]
    print(
        json.dumps(
            {
                "benchmark": "fused_adamw",
                "date": datetime.now(UTC).date().isoformat(),
                "device": torch.cuda.get_device_name() if asked.device == "cuda" else asked.device,
                "parameters": sum(parameter.numel() for parameter in both[True][0].parameters()),
                "tokens_a_step": BATCH * CONTEXT,
                "rounds": asked.rounds,
                "optimizer_ratio": ratios([(each[True][0], each[False][0]) for each in kept]),
                "step_ratio": ratios([(each[True][1], each[False][1]) for each in kept]),
                "versions": installed() | {"cores": str(os.cpu_count()), "machine": platform.machine()},
            }
        )
    )


if __name__ == "__main__":
    main()
