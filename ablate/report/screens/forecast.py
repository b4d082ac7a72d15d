"""The output of `ablate forecast`: a block layer by layer, or the variants of a space beside each other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isnan, sqrt
from typing import Any

from ablate.block.architecture import Architecture
from ablate.block.arithmetic import parse
from ablate.block.catalogue import Part
from ablate.block.expression import Node
from ablate.block.read import Reader
from ablate.block.sizes import Sizes
from ablate.report.document import BulletList, Grid, ReportDocument, StyledText, TableOf
from ablate.report.screens.block import ShownBlock, sizes_in_words
from ablate.source.problems import Problems
from ablate.source.yaml import parse_yaml
from ablate.theory.dangers import collapse_layer, dangers
from ablate.theory.models import Forecast, StreamForecast

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
    "means over random weights in the limit of width, without an interval: a single start is about 1/√d away, and "
    "further where depth multiplies it"
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


def block_screen(name: str, about: str, sizes: Sizes, forecast: Forecast) -> ReportDocument:
    """Return the table of a block, layer by layer, with its dangers."""
    at = sizes_in_words(sizes)
    streams = _some(forecast.streams)
    rows = tuple((str(stream.layer) if stream.layer else "embedding", *_numbers(stream)) for stream in streams)
    left = len(forecast.streams) - len(streams)
    note = f"; {left} layers between these are left out, --json has all" if left else ""
    grid = Grid(
        title="Forecast",
        note="",
        heading=("behind layer", "size", "cosine", "gradient", "cosine of\ngradients"),
        rows=rows,
        numbers=(1, 2, 3, 4),
        whole=(0,),
    )
    return ReportDocument(
        title=name,
        about=(about, f"at {at}; two tokens are the same with chance {forecast.repetition:.3g}{note}"),
        parts=(
            TableOf(grid, titled=False),
            BulletList(dangers(forecast) or ("no danger is seen in it",), "beware" if dangers(forecast) else "remarks"),
            BulletList((*DEFINED, *_logits(forecast), LIMIT), "remarks"),
        ),
    )


def space_screen(
    name: str, question: str, forecasts: Mapping[str, Forecast], refused: Mapping[str, str]
) -> ReportDocument:
    """Return a row for each variant of a space, its dangers, and why others are not forecast."""
    rows = tuple(
        (
            (StyledText(variant, "strong"),),
            _factor(sqrt(each.growth)),
            f"{each.streams[-1].correlation:.3f}",
            "-" if collapse_layer(each) is None else str(collapse_layer(each)),
            _factor(sqrt(each.gradient_ratio)),
            "-" if isnan(each.logits) else _factor(sqrt(each.logits)),
        )
        for variant, each in forecasts.items()
    )
    grid = Grid(
        title="Forecast",
        note="",
        heading=(
            "variant",
            "growth",
            "cosine at\nthe end",
            "collapses\nat layer",
            "gradient, first\nover last",
            "logits",
        ),
        rows=rows,
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


def as_json(forecasts: Mapping[str, Forecast], refused: Mapping[str, str]) -> str:
    """Return everything as JSON: squares, not roots, as they are defined in `theory/models.py`."""
    return json.dumps(
        {"forecasts": {name: _document(each) for name, each in forecasts.items()}, "refused": dict(refused)}, indent=2
    )


def _document(forecast: Forecast) -> dict[str, Any]:
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


def _numbers(stream: StreamForecast) -> tuple[str, ...]:
    sizes = (_factor(sqrt(stream.mean_square)), f"{stream.correlation:.3f}")
    return (*sizes, _factor(sqrt(stream.gradient)), f"{stream.gradient_correlation:.3f}")


def _some(streams: tuple[StreamForecast, ...]) -> tuple[StreamForecast, ...]:
    if len(streams) <= ROWS:
        return streams
    last = len(streams) - 1
    places = dict.fromkeys(round(k * last / (ROWS - 1)) for k in range(ROWS))
    return tuple(streams[place] for place in places)


def _logits(forecast: Forecast) -> tuple[str, ...]:
    return (
        () if isnan(forecast.logits) else (f"the logits have a root mean square of {_factor(sqrt(forecast.logits))}",)
    )


def _factor(value: float) -> str:
    """Return a number in four digits, without an exponent where it needs none."""
    return f"{value:.4g}"
