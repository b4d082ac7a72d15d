"""The forecast of each variant, beside what its trials measured before the first step, and when last."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ablate.output.words import plural
from ablate.plan.plan import STREAM_PROBES, Forecast, ForecastStream, Interval
from ablate.report.document import Grid
from ablate.report.forecasts import WITHIN, number, warnings, with_interval
from ablate.report.page.record import PageRecord

if TYPE_CHECKING:
    from ablate.store.pages import StreamReading

HEADING = (
    *("variant", "in front of layer", "quantity", "forecast", "measured at step 0", "error", "within", "n"),
    *("when last measured", "error then"),
)
NUMBERS = (3, 4, 5, 6, 7, 8, 9)
DEFINED = (
    "forecast: of random weights in the limit of width, over typical windows of the text",
    "size: root mean square of the stream over channels and tokens (probe activation_rms)",
    "cosine: mean cosine of two tokens of one sequence (probe token_cosine); at 1 all are the same",
    "gradient: root mean square of the gradient over that behind the last layer; forecast of a loss whose gradient is "
    "independent from token to token, measured of the loss itself in the first step (probe stream_gradient), where it "
    "is not, so that what is measured can lie outside the interval",
    "error: of a size or a gradient forecast over measured, minus 1; of a cosine, which may be 0 or negative, their "
    "difference",
    "when last measured: of the trials that finished, at the step in brackets, after which the weights are no longer "
    "random: the error then is how far training has taken the stream from its start",
    WITHIN,
    "within: of how many of the n trials, each a network, the number lies within this interval",
)


def ends(record: PageRecord) -> Grid:
    rows: list[tuple[str, ...]] = []
    for name, id, forecast in _variants(record):
        if forecast.refused:
            rows.append((name, "", f"not forecast: {forecast.refused}", *[""] * (len(HEADING) - 3)))
        rows += _rows(name, id, forecast.read[:: max(1, len(forecast.read) - 1)], record)
    level = f"{100 * record.rules.confidence:g} %"
    shorter = {each.context for _, _, each in _variants(record) if not each.refused and not each.whole}
    over = tuple(f"forecasts are over {context} tokens of a sequence, measurements over all" for context in shorter)
    return Grid(
        title="Before the first step",
        note="what was forecast, beside what trials measured then and when last",
        heading=HEADING,
        rows=tuple(rows),
        numbers=NUMBERS,
        remarks=(
            *DEFINED,
            f"measured: mean over n seeds, with its {level} interval by t; in the first step, with dropout as it is "
            "forecast, where a probe is asked for with _in_training behind its name; else on the evaluation windows, "
            "without",
            *over,
        ),
        caveats=tuple(warnings(record.plan)),
    )


def layers(record: PageRecord) -> Grid:
    rows = [row for name, id, each in _variants(record) for row in _rows(name, id, each.read, record)]
    return Grid(
        title="Before the first step, layer by layer",
        note=plural(len(rows), "row"),
        heading=HEADING,
        rows=tuple(rows),
        numbers=NUMBERS,
    )


def has_layers_between(record: PageRecord) -> bool:
    return any(len(forecast.read) > 2 for *_, forecast in _variants(record))


def _variants(record: PageRecord) -> Iterator[tuple[str, str, Forecast]]:
    """Yield name, id and forecast of each variant, without the A/A arm, which is the baseline's model."""
    forecasts = dict(record.plan.forecasts)
    for variant in record.plan.variants:
        if variant.id in forecasts and not variant.setting.salt:
            yield variant.name, variant.id, forecasts[variant.id]


def _rows(
    name: str, id: str, read: Iterable[tuple[ForecastStream, str]], record: PageRecord
) -> Iterator[tuple[str, ...]]:
    measured = {(each.variant, each.quantity, each.address, each.step > 0): each for each in record.streams}
    for stream, address in read:
        for quantity in STREAM_PROBES:
            forecast, ends = getattr(stream, quantity), getattr(stream, f"{quantity}_interval")
            first, last = (measured.get((id, quantity, address, trained)) for trained in (False, True))
            shown = with_interval(forecast, ends, relative=quantity != "cosine", between=" ")
            beside = (*_beside(quantity, forecast, ends, first, record), *_trained(quantity, forecast, last, record))
            yield name, str(stream.layer + 1), quantity, shown, *beside


def _beside(
    quantity: str, forecast: float, ends: Interval | None, reading: StreamReading | None, record: PageRecord
) -> tuple[str, str, str, str]:
    """Return the measured value with its interval, the error of the forecast, how many trials lie within, and n."""
    if reading is None:
        return "not measured", "", "", "0"
    within = "-" if ends is None else f"{sum(ends[0] <= value <= ends[1] for value in reading.values)} of {reading.n}"
    return _seen(reading, record), _error(quantity, forecast, reading), within, str(reading.n)


def _trained(quantity: str, forecast: float, reading: StreamReading | None, record: PageRecord) -> tuple[str, str]:
    """Return the last reading with its interval and step, and how far the forecast is from it."""
    if reading is None:
        return "not measured", ""
    return f"{_seen(reading, record)} ({reading.step:,})", _error(quantity, forecast, reading)


def _seen(reading: StreamReading, record: PageRecord) -> str:
    return number(reading.mean) + _interval(reading, record.rules.confidence)


def _error(quantity: str, forecast: float, reading: StreamReading) -> str:
    """Return a difference for a cosine, which may be 0 or negative, else a relative error."""
    if not math.isfinite(forecast):
        return "-"
    if quantity == "cosine":
        return f"{forecast - reading.mean:+.3f}"
    return f"{100 * (forecast / reading.mean - 1):+.1f} %" if reading.mean else "-"


def _interval(reading: StreamReading, confidence: float) -> str:
    if reading.sd is None:
        return ""
    from ablate.statistics.paired import student_interval  # loads SciPy

    error = reading.sd / math.sqrt(reading.n)
    low, high = student_interval(reading.mean, error, reading.n - 1, (1 - confidence) / 2)
    return f" [{number(low)}, {number(high)}]"
