"""What a variant's model will do before a single step, as a plan is handed it: numbers, or the reason for none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import TypeAlias

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
THEORY = 5
"""The version of the theory: raised by a change that changes a number of some forecast, as that of a component is
(`plan/versions.py`). It is kept with a forecast, and one that another version made is not reused in other plans. 1 was
kept without its version, and without intervals."""
Interval: TypeAlias = tuple[float, float]
"""The ends of an interval about a forecast, within which 95 % of networks of its width lie."""
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
PROBES: Mapping[str, str] = {"size": "activation_rms", "cosine": "token_cosine", "gradient": "stream_gradient"}
"""The probe that measures each quantity of a stream, whose metric has its name; of the gradient it is the ratio of the
reading to that behind the last layer."""


@dataclass(frozen=True, slots=True)
class ForecastStream:
    """The residual stream behind `layer` (0: in front of the first), and the gradient there.

    `size` is its root mean square over channels and tokens, `cosine` the mean cosine of two tokens of one sequence, and
    `gradient` the root mean square of the gradient over that behind the last layer. Each has an interval, in its own
    units, as `theory/intervals.py` has it; None in a plan that was kept without.
    """

    layer: int
    size: float
    cosine: float
    gradient: float
    size_interval: Interval | None = None
    cosine_interval: Interval | None = None
    gradient_interval: Interval | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """A model before a single step, in the limit of width; the numbers are defined in `DEFINITIONS`.

    It is forecast over `context` tokens of a sequence, of which two are the same with chance `repetition`, None where
    no tokens are read; `whole` if that is all of the sequence. Of a model of two stacks the numbers are the decoder's,
    and dangers those of both. `dangers` are reasons not to train the model as it is. If it is `refused`, with the
    reason, it has no numbers. `theory` is the version that made it (`THEORY`). `kinds` are the dangers without their
    numbers, also one because of which it is refused; they are not kept with a plan, nor is `quick`, which says that it
    is over less than what a run would keep.
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
    theory: int = THEORY
    kinds: tuple[str, ...] = field(default=(), compare=False)
    quick: bool = field(default=False, compare=False)

    @property
    def growth_interval(self) -> Interval | None:
        """The interval of the growth, which varies as the size behind the last layer does."""
        if not self.streams or self.growth is None or (ends := self.streams[-1].size_interval) is None:
            return None
        size = self.streams[-1].size
        return (self.growth * ends[0] / size, self.growth * ends[1] / size) if size and isfinite(size) else None

    @property
    def cosine_interval(self) -> Interval | None:
        """The interval of the cosine behind the last layer."""
        return self.streams[-1].cosine_interval if self.streams else None

    @property
    def gradient_interval(self) -> Interval | None:
        """The interval of the gradient in front of the first layer."""
        return self.streams[0].gradient_interval if self.streams else None

    @property
    def read(self) -> tuple[tuple[ForecastStream, str], ...]:
        """The streams that probes read, with the address of each: the block whose input it is.

        The last is not among them: behind it probes read behind the final norm.
        """
        return tuple((stream, f"layers.{stream.layer + 1}") for stream in self.streams[:-1])
