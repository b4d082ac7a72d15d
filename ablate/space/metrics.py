"""The names a space may measure and judge. What they mean numerically is defined where they are computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Definition:
    """What the numbers of a metric mean: papers differ, so the definition travels with the rows."""

    metric: str
    definition: str
    source: str


PROBES = (
    "kurtosis",
    "max_median_ratio",
    "token_correlation",
    "gram",
    "activation_rms",
    "attention_entropy",
    "gradient_norm",
)
"""Observers a space may ask for; trajectories of trainable gains are always kept."""

JUDGED: Mapping[str, str | None] = {
    "eval_loss": None,
    "peak_kurtosis": "kurtosis",
    "token_correlation": "token_correlation",
}
"""What a judge may compare, and the probe it needs."""
