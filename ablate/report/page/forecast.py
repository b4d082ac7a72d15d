"""What was forecast of each variant, beside what its trials measured before the first step."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ablate.output.words import plural
from ablate.plan.forecast import Forecast, ForecastStream
from ablate.report.document import Grid
from ablate.report.forecasts import number, warnings
from ablate.report.page.record import PageRecord

if TYPE_CHECKING:
    from ablate.store.pages import InitialReading

PROBES = {"size": "activation_rms", "cosine": "token_cosine"}
"""The probe that measures each quantity of a stream, whose metric has its name."""
HEADING = ("variant", "in front of layer", "quantity", "forecast", "measured at step 0", "relative error", "n")
DEFINED = (
    "forecast: of random weights in the limit of width, without an interval, over the repetition of the text",
    "size: root mean square of the stream over channels and tokens (probe activation_rms)",
    "cosine: mean cosine of two tokens of one sequence (probe token_cosine); at 1 all are the same",
    "relative error: forecast over measured, minus 1",
    "the forecast of the gradient has nothing beside it: no probe reads the gradient of the stream",
)


def ends(record: PageRecord) -> Grid:
    """Return a table with the first and the last layer of each variant, and the reason for one without a forecast."""
    rows: list[tuple[str, ...]] = []
    for name, id, forecast in _variants(record):
        if forecast.refused:
            rows.append((name, "", f"not forecast: {forecast.refused}", "", "", "", ""))
        read = forecast.streams[:-1]
        rows += _rows(name, id, read[:: max(1, len(read) - 1)], record)
    level = f"{100 * record.rules.confidence:g} %"
    shorter = {each.context for _, _, each in _variants(record) if not each.refused and not each.whole}
    over = tuple(f"forecasts are over {context} tokens of a sequence, measurements over all" for context in shorter)
    return Grid(
        title="Before the first step",
        note="what was forecast, beside what trials measured",
        heading=HEADING,
        rows=tuple(rows),
        numbers=(3, 4, 5, 6),
        remarks=(*DEFINED, f"measured: mean over n seeds, with its {level} interval by t", *over),
        caveats=tuple(warnings(record.plan)),
    )


def layers(record: PageRecord) -> Grid:
    """Return the same table with every layer."""
    rows = [row for name, id, each in _variants(record) for row in _rows(name, id, each.streams[:-1], record)]
    return Grid(
        title="Before the first step, layer by layer",
        note=plural(len(rows), "row"),
        heading=HEADING,
        rows=tuple(rows),
        numbers=(3, 4, 5, 6),
    )


def _variants(record: PageRecord) -> Iterator[tuple[str, str, Forecast]]:
    """Yield the name, id and forecast of each variant, without the A/A arm, which is the baseline's model."""
    forecasts = dict(record.plan.forecasts)
    for variant in record.plan.variants:
        if variant.id in forecasts and not variant.setting.salt:
            yield variant.name, variant.id, forecasts[variant.id]


def _rows(name: str, id: str, streams: tuple[ForecastStream, ...], record: PageRecord) -> Iterator[tuple[str, ...]]:
    """Yield a row for each quantity of each stream."""
    measured = {(each.variant, each.metric, each.address): each for each in record.initial}
    for stream in streams:
        for quantity, forecast in (("size", stream.size), ("cosine", stream.cosine)):
            reading = measured.get((id, PROBES[quantity], stream.read_at))
            place = str(stream.layer + 1)
            yield name, place, quantity, number(forecast), *_beside(forecast, reading, record.rules.confidence)


def _beside(forecast: float, reading: InitialReading | None, confidence: float) -> tuple[str, str, str]:
    """Return what was measured with its interval, the relative error of the forecast, and n."""
    if reading is None:
        return "not measured", "", "0"
    error = f"{100 * (forecast / reading.mean - 1):+.1f} %" if reading.mean and math.isfinite(forecast) else "-"
    return number(reading.mean) + _interval(reading, confidence), error, str(reading.n)


def _interval(reading: InitialReading, confidence: float) -> str:
    if reading.sd is None:
        return ""
    from ablate.statistics.paired import student_interval  # loads SciPy

    error = reading.sd / math.sqrt(reading.n)
    low, high = student_interval(reading.mean, error, reading.n - 1, (1 - confidence) / 2)
    return f" [{number(low)}, {number(high)}]"
