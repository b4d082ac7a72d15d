"""A component that lacks memory when too much comes at once, and that notes who computes it, when and on which GPUs."""

from __future__ import annotations

from pathlib import Path

from tiny_spaces import write_world

METER = '''
"""Passes on what comes in; in training too large a batch is too much for it.

    y = x
"""

import os
import time
import uuid
from pathlib import Path

from ablate.components.declare import Cost, Sizes, component, implements, number


@component("meter", slots=("part",), modifier=True, source="a test")
class Config:
    """`most` sequences at once are borne; so many trials wait for each other (`together`); a step takes `seconds`."""

    most: float = number(at_least=0.0)
    together: float = number(at_least=0.0)
    seconds: float = number(at_least=0.0)

    def cost(self, sizes: Sizes) -> Cost:
        """Nothing."""
        return Cost()

    def equation(self, x: str) -> str:
        """What comes in."""
        return x


import torch
from torch import Tensor, nn

NOTES = Path(__file__).with_name("notes")


def gpus() -> str:
    import ray

    return "+".join(map(str, ray.get_gpu_ids())) if ray.is_initialized() else ""


@implements(Config)
class Meter(nn.Module):
    """Notes each training pass in a file of its own for each model; starts, which are compared in float64, are none."""

    def __init__(self, config: Config, sizes: Sizes):
        super().__init__()
        self.config = config
        self.name = uuid.uuid4().hex

    def forward(self, x: Tensor) -> Tensor:
        if not (self.training and torch.is_grad_enabled()) or x.device.type == "meta" or x.dtype == torch.float64:
            return x
        NOTES.mkdir(exist_ok=True)
        file = NOTES / self.name
        self.note(file, len(x))
        until = time.monotonic() + 90
        while len(list(NOTES.iterdir())) < self.config.together and time.monotonic() < until:
            time.sleep(0.02)
        time.sleep(self.config.seconds)
        self.note(file, len(x))
        if len(x) > self.config.most:
            raise torch.OutOfMemoryError(f"CUDA out of memory: {len(x)} sequences")
        return x

    def note(self, file: Path, batch: int) -> None:
        with file.open("a") as notes:
            notes.write(f"{time.time()} {batch} {os.getpid()} {gpus() or '-'}\\\\n")
'''.replace("\\\\n", "\\n")

BLOCKS = """\
blocks:
  metered:
    - residual: [layer_norm, attention]
    - residual: [layer_norm, mlp, meter: {{most: {most}, together: {together}, seconds: {seconds}}}]
"""


def write_metered(folder: Path, *, most: int = 64, together: int = 0, seconds: float = 0.0, **more: int) -> list[Path]:
    """A folder with a space of the metered block and `pre_ln`, and its component: the paths of both."""
    plugin = folder / "meter.py"
    plugin.write_text(METER, encoding="utf-8")
    path = write_world(folder, **more)
    text = path.read_text().replace("{path: {from: pre_ln, to: op}}", "{compare: [pre_ln, metered]}")
    path.write_text(text + BLOCKS.format(most=most, together=together, seconds=seconds), encoding="utf-8")
    return [path, plugin]


def notes_of(folder: Path) -> dict[str, list[tuple[float, int, int, str]]]:
    """By model: when, how many sequences came, in which process, on which of Ray's GPUs."""
    found = {}
    for file in (folder / "notes").iterdir():
        lines = (line.split() for line in file.read_text().splitlines())
        found[file.name] = [(float(when), int(batch), int(pid), gpus) for when, batch, pid, gpus in lines]
    return found
