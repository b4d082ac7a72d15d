"""The output of `ablate forecast`: a block layer by layer, or the variants of a space beside each other."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import isnan, sqrt
from statistics import fmean, median, stdev
from typing import Any

from ablate.block.architecture import Architecture
from ablate.block.arithmetic import parse
from ablate.block.catalogue import Part
from ablate.block.expression import Node
from ablate.block.read import Reader
from ablate.block.sizes import Sizes
from ablate.report.document import BulletList, Grid, ReportDocument, StyledText, TableOf, Words
from ablate.report.screens.block import ShownBlock, sizes_in_words
from ablate.source.problems import Problems
from ablate.source.yaml import parse_yaml
from ablate.theory.dangers import collapse_layer, dangers
from ablate.theory.starts import ModelAtStart, StreamAtStart

ROWS = 16
"""Layers that are shown of a deep model: about evenly spread, and the first and last."""
AROUND = "embedding N(0, 1), weights N(0, 1/d), a LayerNorm behind the last layer; in a space its own"
DEFINED = (
    "size: root mean square of the stream over channels and tokens",
    "cosine: mean cosine of two tokens of one sequence; at 1 all tokens are the same",
    "gradient: root mean square of the gradient over that behind the last layer, from a loss whose gradient is "
    "independent from token to token",
)
LIMIT = (
    "forecasts are means over random weights in the limit of width, without an interval: --drawn 5 shows what starts "
    "of this width measure"
)


def around(shown: ShownBlock) -> Architecture:
    """Return the model in which a block is forecast that is not of a space."""
    return Architecture(
        kind="decoder",
        sizes=shown.sizes,
        block=shown.block,
        positions="none",
        embedding_std=parse(1),
        embedding_scale=parse(1),
        embedding_dropout=0.0,
        position_std=None,
        position_rows=None,
        logit_scale=parse(1),
        tied=False,
        entry_norm=None,
        final_norm=_read(shown, "layer_norm: {eps: 1e-5, scale: true, bias: true}", "norm"),
        init=_read(shown, "normal: 1/sqrt(width)", "init"),
    )


def _read(shown: ShownBlock, text: str, slot: str) -> Node:
    value = Reader(shown.catalogue, {}, Problems()).value(parse_yaml(text, slot), Part(slot))
    assert isinstance(value, Node)
    return value


def block_screen(
    name: str, about: str, sizes: Sizes, forecast: ModelAtStart, drawn: Sequence[ModelAtStart] = ()
) -> ReportDocument:
    """Return the table of a block, layer by layer, beside starts that were `drawn`, with its dangers."""
    at = sizes_in_words(sizes)
    streams = _some(forecast.streams)
    left = len(forecast.streams) - len(streams)
    note = f"; {left} layers between these are left out, --json has all" if left else ""
    quantities = ("size", "cosine", "gradient")
    heading = [column for quantity in quantities for column in ((quantity, "drawn") if drawn else (quantity,))]
    rows = []
    for stream in streams:
        row = [str(stream.layer) if stream.layer else "embedding"]
        measured = [_of_stream(start.streams[stream.layer]) for start in drawn]
        for place, value in enumerate(_of_stream(stream)):
            row += [_factor(value)] + ([_mean_and_sd([each[place] for each in measured])] if drawn else [])
        rows.append(tuple(row))
    grid = Grid(
        title="Forecast",
        note="",
        heading=("behind layer", *heading),
        rows=tuple(rows),
        numbers=tuple(range(1, len(heading) + 1)),
        whole=(0,),
    )
    warned = dangers(forecast)
    return ReportDocument(
        title=name,
        about=(about, f"at {at}; two tokens are the same with chance {forecast.repetition:.3g}{note}"),
        parts=(
            TableOf(grid, titled=False),
            BulletList(warned or ("no danger is seen in it",), "beware" if warned else "remarks"),
            BulletList((*DEFINED, *_logits(forecast), *_beside([(forecast, drawn)]), LIMIT), "remarks"),
        ),
    )


def space_screen(
    name: str,
    question: str,
    forecasts: Mapping[str, ModelAtStart],
    refused: Mapping[str, str],
    drawn: Mapping[str, Sequence[ModelAtStart]] | None = None,
) -> ReportDocument:
    """Return a row for each variant of a space, beside starts that were `drawn`, and its dangers."""
    drawn = drawn or {}
    rows: list[tuple[Words, ...]] = []
    for variant, each in forecasts.items():
        layer = collapse_layer(each)
        numbers = map(_factor, _of_model(each))
        rows.append(((StyledText(variant, "strong"),), *numbers, "-" if layer is None else str(layer)))
        if starts := drawn.get(variant, ()):
            measured = zip(*map(_of_model, starts), strict=True)
            rows.append(((StyledText("  drawn", "faint"),), *map(_mean_and_sd, measured), ""))
    grid = Grid(
        title="Forecast",
        note="",
        heading=("variant", "growth", "cosine at\nthe end", "gradient\nfirst/last", "logits", "collapses\nat layer"),
        rows=tuple(rows),
        numbers=(1, 2, 3, 4, 5),
        whole=(0,),
    )
    warned = [f"{variant}: {danger}" for variant, each in forecasts.items() for danger in dangers(each)]
    without = [f"{variant} is not forecast: {reason}" for variant, reason in refused.items()]
    defined = (
        "growth: root mean square of the stream behind the last layer over that in front of the first",
        DEFINED[1],
        "gradient: root mean square in front of the first layer over that behind the last, from a loss whose gradient "
        "is independent from token to token",
        "logits: their root mean square",
        *_beside([(each, drawn.get(variant, ())) for variant, each in forecasts.items()]),
        LIMIT,
    )
    return ReportDocument(
        title=question.strip() or name,
        about=(f"{name}: its models before a single step",),
        parts=(
            *([TableOf(grid, titled=False)] if rows else []),
            BulletList((*warned, *without), "beware"),
            BulletList(defined, "remarks"),
        ),
    )


def as_json(
    forecasts: Mapping[str, ModelAtStart],
    refused: Mapping[str, str],
    drawn: Mapping[str, Sequence[ModelAtStart]] | None = None,
) -> str:
    """Return everything as JSON: squares, not roots, as they are defined in `theory/models.py`."""
    document = {
        "forecasts": {name: _document(each) for name, each in forecasts.items()},
        "refused": dict(refused),
        "drawn": {name: [_document(each) for each in starts] for name, starts in (drawn or {}).items()},
    }
    return json.dumps(document, indent=2)


def _document(forecast: ModelAtStart) -> dict[str, Any]:
    return {
        "repetition": forecast.repetition,
        "logits": _number(forecast.logits),
        "growth": _number(forecast.growth),
        "gradient_ratio": _number(forecast.gradient_ratio),
        "collapses_at": collapse_layer(forecast),
        "dangers": list(dangers(forecast)),
        "layers": [
            {
                "layer": stream.layer,
                "mean_square": _number(stream.mean_square),
                "correlation": _number(stream.correlation),
                "gradient": _number(stream.gradient),
                "gradient_correlation": _number(stream.gradient_correlation),
            }
            for stream in forecast.streams
        ],
    }


def _number(value: float) -> float | None:
    return None if isnan(value) else value


def _of_stream(stream: StreamAtStart) -> tuple[float, float, float]:
    """Return its size, cosine and gradient, as they are shown."""
    return sqrt(stream.mean_square), stream.correlation, sqrt(stream.gradient)


def _of_model(start: ModelAtStart) -> tuple[float, float, float, float]:
    """Return its growth, its cosine at the end, its ratio of gradients and its logits, as they are shown."""
    return sqrt(start.growth), start.streams[-1].correlation, sqrt(start.gradient_ratio), sqrt(start.logits)


def _mean_and_sd(values: Sequence[float]) -> str:
    mean = fmean(values)
    return _factor(mean) if len(values) < 2 else f"{mean:.3g} ± {stdev(values):.1g}"


def _beside(pairs: Sequence[tuple[ModelAtStart, Sequence[ModelAtStart]]]) -> tuple[str, ...]:
    """Return how far forecasts are from the means of the starts that were drawn, over all layers of all models."""
    pairs = [(forecast, starts) for forecast, starts in pairs if starts]
    if not pairs:
        return ()
    away: list[tuple[float, ...]] = []
    for forecast, starts in pairs:
        for place, stream in enumerate(forecast.streams):
            means = [fmean(each) for each in zip(*(_of_stream(start.streams[place]) for start in starts), strict=True)]
            size, cosine, gradient = _of_stream(stream)
            away.append((abs(size / means[0] - 1), abs(cosine - means[1]), abs(gradient / means[2] - 1)))
    size, cosine, gradient = (median(each) for each in zip(*away, strict=True))
    return (
        f"drawn: mean ± sd over n = {len(pairs[0][1])} starts, each of one pass over the same few sequences; the "
        f"forecast is away from the means by {size:.1%} in size, {cosine:.3f} in the cosine and {gradient:.1%} in the "
        f"gradient (medians over {len(away)} layers)",
    )


def _some(streams: tuple[StreamAtStart, ...]) -> tuple[StreamAtStart, ...]:
    if len(streams) <= ROWS:
        return streams
    last = len(streams) - 1
    places = dict.fromkeys(round(k * last / (ROWS - 1)) for k in range(ROWS))
    return tuple(streams[place] for place in places)


def _logits(forecast: ModelAtStart) -> tuple[str, ...]:
    return (
        () if isnan(forecast.logits) else (f"the logits have a root mean square of {_factor(sqrt(forecast.logits))}",)
    )


def _factor(value: float) -> str:
    """Return a number in four digits, without an exponent where it needs none; - for none."""
    return "-" if isnan(value) else f"{value:.4g}"
