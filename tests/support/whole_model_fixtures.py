"""Whole models, forecast and sampled: one block at many depths, and how far the one is from the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from builders import architecture, node
from reading import transformer

from ablate.api import load_block
from ablate.block.architecture import Architecture
from ablate.block.sizes import Sizes
from ablate.execute.start import sampled_initialisation
from ablate.theory.models import forecast

VOCABULARY, LENGTH, SEQUENCES, HEAD = 1024, 32, 4, 32


def post_ln(p: float) -> str:
    """Post-LN as Kedia et al. have it, whose dropout keeps tokens apart."""
    return f"""[residual: [attention: {{dropout: {p}}}, dropout: {p}], layer_norm,
        residual: [mlp: {{activation: relu}}, dropout: {p}], layer_norm]"""


def pre_ln(p: float) -> str:
    """Pre-LN as they have it."""
    return f"""[residual: [layer_norm, attention: {{dropout: {p}}}, dropout: {p}],
        residual: [layer_norm, mlp: {{activation: relu}}, dropout: {p}]]"""


BLOCKS = {
    "post_ln_dropped": post_ln(0.1),
    "pre_ln_dropped": pre_ln(0.1),
    "post_ln_relu": post_ln(0.0),
    "pre_ln_relu": pre_ln(0.0),
}
"""Blocks that have no name in the grammar."""

DEEP = ((3, 128), (12, 128), (48, 128), (192, 128), (768, 128))
SHALLOW = ((1, 128), (3, 128), (6, 128))
SIZES = {
    "pre_ln": ((1, 128), *DEEP),
    "dslm_pre_ln": DEEP,
    "dslm_post_ln": DEEP,
    "post_ln": SHALLOW,
    "post_ln_dropped": SHALLOW,
}
"""Depth and width of each block's models: no narrower than those that Kedia et al. 2024 measure, of 128 to 6,096.

DeepScaleLM's skip, √(1-2/N), needs two layers at least. In Post-LN, where tokens come to be nearly one, the gradient of
one start is off that of another by half from 12 layers on, so that 20 starts say nothing of a few percent.
"""
NARROW = dict.fromkeys(("pre_ln", "dslm_pre_ln", "dslm_post_ln"), ((192, 64), (768, 64)))
"""Models that are deeper than a limit of width is good for, which are measured beside them."""


def model(block: str, depth: int, width: int) -> Architecture:
    """An encoder's layers with heads of `HEAD` channels, embeddings of variance 1, and a norm at the end.

    Weights that a block gives no scale of its own follow Glorot & Bengio's average of both sides.
    """
    sizes = Sizes(
        n_layers=depth,
        d_model=width,
        n_heads=width // HEAD,
        seq_len=LENGTH,
        vocab_size=VOCABULARY,
        causal=False,
        repetition=1 / VOCABULARY,
    )
    named = transformer().blocks.get(block)
    return architecture(
        named.block if named else load_block(BLOCKS[block]),
        sizes=sizes,
        embedding_std=1.0,
        embedding_scale=1.0,
        init=node("xavier", gain="1", distribution="normal", per_head=False),
        final_norm=node("layer_norm", bias=True, scale=True),
    )


@dataclass(frozen=True)
class Quantity:
    """One number of a model, as it is forecast and as several starts have it."""

    forecast: float
    starts: tuple[float, ...]

    @property
    def mean(self) -> float:
        return float(np.mean(self.starts))

    @property
    def standard_error(self) -> float:
        """That of the mean, over the mean."""
        return float(np.std(self.starts, ddof=1) / np.sqrt(len(self.starts)) / self.mean)

    @property
    def error(self) -> float:
        """How far the forecast is from the mean of the starts, over that mean."""
        return abs(self.forecast / self.mean - 1)


@dataclass(frozen=True)
class WholeModel:
    """`variance` is the mean square of the stream behind the last layer, `gradient` that of the gradient in front of
    the first layer over that behind the last."""

    block: str
    depth: int
    width: int
    variance: Quantity
    gradient: Quantity


def compare(block: str, depth: int, width: int, starts: int) -> WholeModel:
    """Forecast a model, and sample its weights and its text, of uniformly drawn tokens, `starts` times."""
    whole, catalogue = model(block, depth, width), transformer().catalogue
    random = np.random.default_rng(depth)
    sampled = [
        sampled_initialisation(
            whole, catalogue, torch.from_numpy(random.integers(0, VOCABULARY, (SEQUENCES, LENGTH))), seed=seed
        )
        for seed in range(starts)
    ]
    theory = forecast(whole, catalogue, repetition=float(np.mean([start.repetition for start in sampled])))
    return WholeModel(
        block,
        depth,
        width,
        Quantity(theory.streams[-1].mean_square, tuple(start.streams[-1].mean_square for start in sampled)),
        Quantity(theory.gradient_ratio, tuple(start.gradient_ratio for start in sampled)),
    )


def mean_error(quantities: list[Quantity]) -> float:
    """The mean relative error over models."""
    return float(np.mean([quantity.error for quantity in quantities]))


def r_squared(quantities: list[Quantity]) -> float:
    """1 minus the share of the variance of the logarithms of what was measured that forecasts leave, over models."""
    y = np.log([quantity.mean for quantity in quantities])
    x = np.log([quantity.forecast for quantity in quantities])
    return float(1 - ((y - x) ** 2).sum() / ((y - y.mean()) ** 2).sum())
