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


AT_SITES = ("kurtosis", "max_median_ratio", "token_correlation", "token_cosine", "gram", "activation_rms")
"""Probes of the stream that may also be read before each sub-layer and behind its norm (`probes/sites.py`)."""

PROBES = (
    "kurtosis",
    "max_median_ratio",
    "token_correlation",
    "token_cosine",
    "token_kernel",
    "gram",
    "activation_rms",
    "attention_entropy",
    "gradient_norm",
    "gain_by_head",
    "kurtosis_as_released",
    "max_median_ratio_as_released",
    "token_correlation_as_released",
    "activation_rms_as_released",
    "gram_as_released",
    "kurtosis_centred",
    "max_median_ratio_centred",
    *(f"{name}_{site}" for name in AT_SITES for site in ("before_sublayers", "behind_norms")),
)
"""Observers a space may ask for; trajectories of trainable gains are always kept."""


@dataclass(frozen=True, slots=True)
class Judgeable(Definition):
    """A number that a trial comes to, which a judge may compare; `probe` must run for it (None: it is always there)."""

    probe: str | None


NATS, BITS = "eval_loss", "eval_bits_per_byte"
"""The held-out loss by tokens, comparable under one tokenizer, and by bytes of text, comparable across them."""

JUDGED: Mapping[str, Judgeable] = {
    judgeable.metric: judgeable
    for judgeable in (
        Judgeable(
            NATS,
            "mean token cross-entropy in nats over the evaluation windows, after the last step",
            "this project",
            None,
        ),
        Judgeable(
            BITS,
            "sum of nats over the evaluation windows / (ln 2 x UTF-8 bytes of the tokens predicted), after the last "
            "step; comparable across tokenizers, as nats per token are not",
            "arXiv:2101.00027, Section 3.1",
            None,
        ),
        Judgeable(
            "peak_kurtosis",
            "largest kurtosis of neuron RMS (Eq. 1) over the inputs of blocks and head, and over evaluations; read on "
            "the evaluation windows",
            "arXiv:2405.19279, Table 3",
            "kurtosis",
        ),
        Judgeable(
            "token_correlation",
            "largest RMS of input-wise correlations over the inputs of blocks and head, and over evaluations; over all "
            "tokens of a batch jointly; read on the evaluation windows",
            "arXiv:2405.19279, Table 3",
            "token_correlation",
        ),
        Judgeable(
            "peak_kurtosis_behind_norms",
            "largest kurtosis of neuron RMS (Eq. 1) over what each attention and MLP is given, behind its norm where "
            "it has one, and over evaluations; read on the evaluation windows",
            "arXiv:2405.19279, App. G (Languini)",
            "kurtosis_behind_norms",
        ),
        Judgeable(
            "peak_token_cosine",
            "largest mean cosine of two tokens within a sequence, over the inputs of blocks and head, and over "
            "evaluations; 1 is rank collapse; read on the evaluation windows",
            "arXiv:2302.10322, Fig. 1",
            "token_cosine",
        ),
    )
}
"""What a judge may compare. How the store sums rows up to these numbers stands in its view `summaries`."""
