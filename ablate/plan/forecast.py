"""What a variant's model will do before a single step, as a plan is handed it: numbers, or the reason for none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

DEFINITIONS: dict[str, str] = {
    "growth": "root mean square of the stream behind the last layer over that in front of the first",
    "cosine": "mean cosine of two tokens of one sequence behind the last layer; at 1 all are the same",
    "gradient": (
        "root mean square of the gradient in front of the first layer over that behind the last, from a loss whose "
        "gradient is independent from token to token"
    ),
    "logits": "root mean square of the logits",
}
"""The numbers of a forecast, with their definitions."""
KINDS = ("decoder", "encoder", "encoder_decoder", "vit", "mlp")
"""The kinds of model that are forecast."""
DANGERS = (
    "numbers are no longer finite",
    "rank collapse",
    "the stream grows",
    "the stream shrinks",
    "exploding gradient",
    "vanishing gradient",
    "attention nearly one-hot",
)
"""The kinds of danger that a forecast names, or for which there is none; `theory/dangers.py` has their bounds."""
PROBES: Mapping[str, str] = {"size": "activation_rms", "cosine": "token_cosine"}
"""The probe that measures each quantity of a stream, whose metric has its name. No probe reads its gradient."""


@dataclass(frozen=True, slots=True)
class ForecastStream:
    """The residual stream behind `layer` (0: in front of the first), and the gradient there.

    `size` is its root mean square over channels and tokens, `cosine` the mean cosine of two tokens of one sequence, and
    `gradient` the root mean square of the gradient over that behind the last layer.
    """

    layer: int
    size: float
    cosine: float
    gradient: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """A model before a single step, in the limit of width; the numbers are defined in `DEFINITIONS`.

    It is forecast over `context` tokens of a sequence, of which two are the same with chance `repetition`, None where
    no tokens are read; `whole` if that is all of the sequence. Of a model of two stacks the numbers are the decoder's,
    and dangers those of both. `dangers` are reasons not to train the model as it is. If it is `refused`, with the
    reason, it has no numbers. `kinds` are the dangers without their numbers, also one because of which it is refused;
    they are not kept with a plan.
    """

    growth: float | None = None
    cosine: float | None = None
    gradient: float | None = None
    logits: float | None = None
    context: int | None = None
    whole: bool = True
    repetition: float | None = None
    streams: tuple[ForecastStream, ...] = ()
    dangers: tuple[str, ...] = ()
    refused: str = ""
    kinds: tuple[str, ...] = field(default=(), compare=False)

    @property
    def read(self) -> tuple[tuple[ForecastStream, str], ...]:
        """The streams that probes read, with the address of each: the block whose input it is.

        The last is not among them: behind it probes read behind the final norm.
        """
        return tuple((stream, f"layers.{stream.layer + 1}") for stream in self.streams[:-1])
