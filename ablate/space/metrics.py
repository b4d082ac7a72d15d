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
    "kurtosis_as_released",
    "max_median_ratio_as_released",
    "token_correlation_as_released",
)
"""Observers a space may ask for; trajectories of trainable gains are always kept."""


@dataclass(frozen=True, slots=True)
class Judgeable(Definition):
    """A number that a trial comes to, which a judge may compare; `probe` must run for it (None: it is always there)."""

    probe: str | None


JUDGED: Mapping[str, Judgeable] = {
    judgeable.metric: judgeable
    for judgeable in (
        Judgeable(
            "eval_loss",
            "mean token cross-entropy in nats over the evaluation windows, after the last step",
            "this project",
            None,
        ),
        Judgeable(
            "peak_kurtosis",
            "largest kurtosis of neuron RMS (Eq. 1) over the inputs of blocks and head, and over measured steps",
            "arXiv:2405.19279, Table 3",
            "kurtosis",
        ),
        Judgeable(
            "token_correlation",
            "largest RMS of input-wise correlations over the inputs of blocks and head, and over measured steps",
            "arXiv:2405.19279, Table 3",
            "token_correlation",
        ),
    )
}
"""What a judge may compare. How the store sums rows up to these numbers stands in its view `summaries`."""
