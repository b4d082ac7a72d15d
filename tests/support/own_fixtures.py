"""Components as anyone writes them: PyTorch's own layers, whose random numbers name no generator."""

from __future__ import annotations

from pathlib import Path

from tiny_spaces import write_world

PLAIN = '''\
"""Plain: what PyTorch's own layers do, with their own starts."""
from ablate.components.declare import Cost, Maker, Sizes, component, implements, part


@component("plain", slots=("part", "weight"), source="nobody")
class Config:
    """`norm` is made between the two layers."""

    norm: Maker | None = part("norm", optional=True)

    def cost(self, sizes: Sizes, d_in: int | None = None, d_out: int | None = None) -> Cost:
        d = sizes.d_model
        norm = self.norm(d) if self.norm else Cost()
        return norm + Cost(parameters=d * d + d + sizes.seq_len * d + d, flops=2 * sizes.seq_len * d * d)


@component("noisy_norm", slots=("part", "norm"), role="norm", modifier=True, source="nobody")
class NoisyConfig:
    def cost(self, sizes, width=None):
        return Cost(parameters=2 * (width or sizes.d_model))


import random

import numpy as np
import torch
from torch import nn

TABLE = torch.rand(())


@implements(Config)
class Plain(nn.Module):
    def __init__(self, config, sizes, d_in=None, d_out=None):
        super().__init__()
        self.linear = nn.Linear(sizes.d_model, sizes.d_model)
        self.norm = config.norm(sizes.d_model) if config.norm else None
        self.place = nn.Embedding(sizes.seq_len, sizes.d_model)
        self.scale = nn.Parameter(torch.randn(sizes.d_model) + TABLE + random.random() + np.random.rand())
        self.dropout = nn.Dropout(0.2)
        self.seen = torch.ones(())  # no buffer, as many forget

    def forward(self, x):
        y = self.linear(x + self.place(torch.arange(x.shape[1], device=x.device)))
        if self.training:
            y = y * (1 + random.random() * np.random.rand() * torch.rand((), device=x.device))
        return self.dropout(self.seen * self.scale * (y if self.norm is None else self.norm(y)))


@implements(NoisyConfig)
class NoisyNorm(nn.Module):
    """Its `initialise` is ordinary, too."""

    def __init__(self, config, sizes, width=None):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width or sizes.d_model))
        self.shift = nn.Parameter(torch.empty(width or sizes.d_model))

    def initialise(self, draw):
        nn.init.normal_(self.shift)

    def forward(self, x):
        return x * self.weight + self.shift
'''
BLOCKS = """\
blocks:
  plain: [residual: [plain: {norm: none}], residual: [mlp]]
"""


def write_own_world(folder: Path, variants: str, *, steps: int = 12, seeds: int = 1) -> tuple[Path, Path]:
    """A space that compares `variants`, one of them perhaps `plain`, and the plugin that it needs."""
    space, plugin = write_world(folder, steps=steps, seeds=seeds), folder / "plain.py"
    text = space.read_text(encoding="utf-8").replace("{path: {from: pre_ln, to: op}}", f"{{compare: [{variants}]}}")
    space.write_text(text + BLOCKS, encoding="utf-8")
    plugin.write_text(PLAIN, encoding="utf-8")
    return space, plugin
