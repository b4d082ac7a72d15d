"""The output of `ablate forecast`: a block layer by layer, or the variants of a space beside each other."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from math import isfinite, isnan, nan, sqrt
from statistics import fmean, median, stdev
from typing import TYPE_CHECKING

from ablate.block.sizes import Sizes
from ablate.output.words import listed
from ablate.report.document import BulletList, Grid, ReportDocument, StyledText, TableOf, Words
from ablate.report.forecasts import WITHIN, ends_in_words, plus_minus
from ablate.report.screens.block import sizes_in_words
from ablate.theory.diagnostics import (
    COLLAPSED,
    FLAT,
    SCORE_DEFINITION,
    SCORE_TERMS,
    DepthLaw,
    collapse_layer,
    danger_score,
    dangers,
    depth_law,
    model_sensitivity,
    normal_kurtosis,
    silence,
    stream_sensitivities,
)
from ablate.theory.initial_state import QUANTITIES, InitialModel, InitialStream, Shortfall

if TYPE_CHECKING:
    from ablate.store.durable import JsonValue

ROWS = 16  # layers that are shown of a deep model: about evenly spread, and the first and last
COSINE = f"cosine: {QUANTITIES['cosine']}; at 1 all tokens are the same"
LOSS = "from a loss whose gradient is independent from token to token"
DEFINED = (f"size: {QUANTITIES['size']}", COSINE, f"gradient: {QUANTITIES['gradient']}, {LOSS}")
LIMIT = f"{WITHIN}; logits and the danger score have no interval"
ENCODED = "it reads an encoder of as many layers, each the block without its cross-attention, over random tokens too"
LOGITS = "the logits have a root mean square of"
OF_SAMPLES = "± after a sample: one standard deviation, from initialisation to initialisation"


def block_screen(
    name: str,
    about: str,
    sizes: Sizes,
    forecast: InitialModel,
    sampled: Sequence[InitialModel] = (),
    shortfalls: Sequence[Shortfall] = (),
) -> ReportDocument:
    """The table of a block, layer by layer, beside the `sampled` models, with the `shortfalls` of its intervals.

    Of a block that reads an encoder each stack has a table; the lines below them are of the decoder, dangers of both.
    """
    at = sizes_in_words(sizes)
    repetition = forecast.repetition if sizes.repetition is None else sizes.repetition
    left = len(forecast.streams) - len(_some(forecast.streams))
    note = f"; {left} layers between these are left out, --json has all" if left else ""
    if between := len(forecast.streams) - len(forecast.computed):
        note += f"; {between} of the layers lie between those that are computed, within about 0.5 %"
    encoder, encoders = forecast.encoder, [each.encoder for each in sampled if each.encoder is not None]
    grids = [_of_layers("Forecast" if encoder is None else "Decoder", forecast, sampled)]
    warned = (*map(str, dangers(forecast)), *silence(forecast))
    if encoder is not None:
        grids.append(_of_layers("Encoder", encoder, encoders))
        warned += tuple(f"encoder: {each}" for each in (*dangers(encoder), *silence(encoder)))
    narrow, score = tuple(map(str, shortfalls)), danger_score(forecast)
    return ReportDocument(
        title=name,
        about=(
            about,
            *(() if encoder is None else (ENCODED,)),
            f"at {at}; two tokens are the same with chance {repetition:.3g}{note}",
        ),
        parts=(
            *(TableOf(grid, titled=len(grids) > 1) for grid in grids),
            BulletList(warned or ("no danger is seen in it",), "beware" if warned else "remarks"),
            *((BulletList(narrow, "beware"),) if narrow else ()),
            BulletList(
                (
                    *DEFINED,
                    *_encoders([forecast]),
                    *_laws_in_words(forecast),
                    *(() if isnan(forecast.logits) else (f"{LOGITS} {_three(sqrt(forecast.logits))}",)),
                    *_attention(forecast),
                    *_kurtosis(forecast),
                    f"{SCORE_DEFINITION}; here {_three(score.total)}, most of it {score.largest}",
                    *_beside([(forecast, sampled)]),
                    *_of_samples([forecast]),
                    *_limits(forecast, [sampled]),
                ),
                "remarks",
            ),
        ),
    )


def _of_layers(title: str, forecast: InitialModel, sampled: Sequence[InitialModel]) -> Grid:
    heading = [column for quantity in QUANTITIES for column in ((quantity, "sampled") if sampled else (quantity,))]
    rows = []
    for stream in _some(forecast.streams):
        row = [str(stream.layer) if stream.layer else "embedding"]
        measured = [model.streams[stream.layer].shown() for model in sampled]
        for place, value in enumerate(_shown(stream, below=bool(sampled))):
            row += [value] + ([_mean_and_sd([each[place] for each in measured], below=True)] if sampled else [])
        rows.append(tuple(row))
    return Grid(
        title=title,
        note="",
        heading=("behind\nlayer", *heading),
        rows=tuple(rows),
        numbers=tuple(range(1, len(heading) + 1)),
        whole=(0,),
    )


def space_screen(
    name: str,
    question: str,
    forecasts: Mapping[str, InitialModel],
    refused: Mapping[str, str],
    sampled: Mapping[str, Sequence[InitialModel]] | None = None,
) -> ReportDocument:
    sampled = sampled or {}
    rows: list[tuple[Words, ...]] = []
    for variant, each in forecasts.items():
        layer = collapse_layer(each)
        numbers = _of_forecast(each)
        collapse, danger = "-" if layer is None else str(layer), _three(danger_score(each).total)
        rows.append(((StyledText(variant, "strong"),), *numbers, collapse, danger))
        if models := sampled.get(variant, ()):
            measured = zip(*map(_of_model, models), strict=True)
            rows.append(
                ((StyledText("  sampled", "faint"),), *(_mean_and_sd(each, below=True) for each in measured), "", "")
            )
    grid = Grid(
        title="Forecast",
        note="",
        heading=(
            "variant",
            "growth",
            "cosine\nat end",
            "gradient\nratio",
            "logits",
            "collapse\nat layer",
            "danger\nscore",
        ),
        rows=tuple(rows),
        numbers=(1, 2, 3, 4, 5, 6),
        whole=(0,),
    )
    warned = [
        f"{variant}: {danger}" for variant, each in forecasts.items() for danger in (*dangers(each), *silence(each))
    ]
    defined = (
        *_text(forecasts.values()),
        "growth: root mean square of the stream behind the last layer over that in front of the first",
        COSINE,
        f"gradient ratio: root mean square in front of the first layer over that behind the last, {LOSS}",
        "logits: their root mean square",
        f"collapse at layer: the first behind which tokens are nearly one and stay so, a cosine above {COLLAPSED:g}",
        SCORE_DEFINITION,
        *_encoders(forecasts.values()),
        *_beside([(each, sampled.get(variant, ())) for variant, each in forecasts.items()]),
        *_of_samples(forecasts.values()),
        *(sentence for each in list(forecasts.values())[:1] for sentence in _limits(each, sampled.values())),
    )
    return ReportDocument(
        title=question.strip() or name,
        about=(f"{name}: its models before a single step",),
        parts=(
            *([TableOf(grid, titled=False)] if rows else []),
            BulletList((*warned, *_without(refused, any_is=bool(rows))), "beware"),
            *([BulletList(defined, "remarks")] if rows else []),
        ),
    )


def _text(forecasts: Iterable[InitialModel]) -> Iterator[str]:
    shares = [each.repetition for each in forecasts]
    if chances := sorted({f"{share:.3g}" for share in shares if not isnan(share)}, key=float):
        yield f"over the training text, where two tokens of a sequence are the same with chance {listed(chances)}"
    if any(map(isnan, shares)):
        yield "what is no text: over the mean products of what is read at two places, as measured on the training split"


def _without(refused: Mapping[str, str], *, any_is: bool) -> Iterator[str]:
    of_reasons: dict[str, list[str]] = {}
    for variant, reason in refused.items():
        of_reasons.setdefault(reason, []).append(variant)
    for reason, of in of_reasons.items():
        if len(of_reasons) == 1 and not any_is:
            yield f"no variant is forecast: {reason}"
        else:
            yield f"{listed(of)} {'is' if len(of) == 1 else 'are'} not forecast: {reason}"


def _limits(forecast: InitialModel, sampled: Iterable[Sequence[InitialModel]]) -> Iterator[str]:
    counts = [len(models) for models in sampled]
    if forecast.streams[0].spread is not None:
        yield LIMIT if any(counts) else f"{LIMIT}; --samples 5 shows what sampled initialisations measure"
    if any(count > 1 for count in counts):
        yield OF_SAMPLES


def as_json(
    forecasts: Mapping[str, InitialModel],
    refused: Mapping[str, str],
    sampled: Mapping[str, Sequence[InitialModel]] | None = None,
    figures: Mapping[str, JsonValue] | None = None,
) -> str:
    """Return squares, not roots, as defined in `theory/models.py`. `figures` are the files that were written."""
    document = {
        "forecasts": {name: _of_forecast_alone(each) for name, each in forecasts.items()},
        "refused": dict(refused),
        "sampled": {name: [_document(each) for each in models] for name, models in (sampled or {}).items()},
        **({} if figures is None else {"figures": dict(figures)}),
    }
    return json.dumps(document, indent=2, allow_nan=False)


def _encoders(forecasts: Iterable[InitialModel]) -> tuple[str, ...]:
    if not any(forecast.encoder for forecast in forecasts):
        return ()
    return (
        "encoder: the layers of a model's encoder; its gradient comes from all cross-attention, and its ratio is over "
        "that behind its own last layer",
    )


def _of_samples(forecasts: Iterable[InitialModel]) -> tuple[str, ...]:
    names = sorted({name for forecast in forecasts for name in forecast.sampled})
    if not names:
        return ()
    return (
        f"what {' and '.join(names)} {'does' if len(names) == 1 else 'do'} is no closed form, but a mean over random "
        "numbers, the same in every forecast",
    )


def _document(forecast: InitialModel, layers: Sequence[Mapping[str, JsonValue]] = ()) -> dict[str, JsonValue]:
    return {
        "repetition": _number(forecast.repetition),
        "sampled_components": list(forecast.sampled),
        "logits": _number(forecast.logits),
        "growth": _number(forecast.growth),
        "gradient_ratio": _number(forecast.gradient_ratio),
        "collapses_at": collapse_layer(forecast),
        "dangers": list(map(str, dangers(forecast))),
        "laws": {name: None if law is None else asdict(law) for name, law in _laws(forecast).items()},
        "layers": layers or _layers(forecast),
    }


def _layers(model: InitialModel) -> list[dict[str, JsonValue]]:
    return [
        {
            "layer": stream.layer,
            "mean_square": _number(stream.mean_square),
            "correlation": _number(stream.correlation),
            "gradient": _number(stream.gradient),
            "gradient_correlation": _number(stream.gradient_correlation),
            "computed": stream.layer in model.computed,
            "sd": None if stream.spread is None else {of: _number(sd) for of, sd in asdict(stream.spread).items()},
            "interval": _ends(stream),
        }
        for stream in model.streams
    ]


def _ends(stream: InitialStream) -> dict[str, list[float | None]] | None:
    """The ends of the interval of each of the `QUANTITIES` as shown; None of a measured model."""
    ends = stream.intervals()
    return None if ends is None else {of: list(map(_number, each)) for of, each in zip(QUANTITIES, ends, strict=True)}


def _of_forecast_alone(forecast: InitialModel) -> dict[str, JsonValue]:
    """Return a forecast with what is unknown of a measured model: danger score, attention, kurtosis, sensitivity."""
    score, layers = danger_score(forecast), _layers(forecast)
    for layer, stream in zip(layers, forecast.streams, strict=True):
        layer["kurtosis"] = _number(normal_kurtosis(stream.kernel)) if _has_size(stream) else None
    for layer, change in zip(layers, stream_sensitivities(forecast), strict=True):
        layer["stream_sensitivity"] = _number(change)
    for layer, share in zip(layers[1:], forecast.fresh, strict=True):
        layer["weight_sensitivity"] = _number(share)
    by_median, by_mean = model_sensitivity(forecast.fresh)
    return _document(forecast, layers) | {
        "silent": bool(silence(forecast)),
        "weight_sensitivity": {"by_median": _number(by_median), "by_mean": _number(by_mean)},
        "danger": {"score": _number(score.total)} | {term: _number(getattr(score, term)) for term in SCORE_TERMS},
        "attention_entropy": [
            {
                "layer": each.layer,
                "score_variance": _number(each.score_variance),
                "entropy": _number(each.entropy),
                "uniform_entropy": _number(each.uniform_entropy),
            }
            for each in forecast.attention
        ],
    }


def _laws(forecast: InitialModel) -> dict[str, DepthLaw | None]:
    layers = [stream.layer for stream in forecast.streams]
    return {
        "mean_square": depth_law(layers, [stream.mean_square for stream in forecast.streams]),
        "gradient": depth_law(layers, [stream.gradient for stream in forecast.streams]),
    }


def _laws_in_words(forecast: InitialModel) -> tuple[str, ...]:
    names = {"mean_square": "size²", "gradient": "gradient²"}
    laws = {names[of]: law for of, law in _laws(forecast).items() if law is not None}
    if not laws:
        return ()
    sentence = ", and ".join(f"{name} {_law_in_words(law)}" for name, law in laws.items())
    fitted = f": the nearer of a power and an exponential, fitted to logarithms over {len(forecast.streams)} depths"
    if all(law.kind == "flat" for law in laws.values()):
        fitted = ""
    return (f"from layer to layer {sentence}{fitted}",)


def _law_in_words(law: DepthLaw) -> str:
    if law.kind == "flat":
        return f"stays within a factor of {FLAT:g}"
    return f"follows neither curve (r² {law.r2:.3f})" if law.kind == "neither" else f"goes as {law} (r² {law.r2:.3f})"


def _number(value: float) -> float | None:
    return value if isfinite(value) else None


def _of_model(model: InitialModel) -> tuple[float, float, float, float]:
    """Growth, cosine at the end, ratio of gradients, logits."""
    return sqrt(model.growth), model.streams[-1].correlation, sqrt(model.gradient_ratio), sqrt(model.logits)


def _shown(stream: InitialStream, *, below: bool) -> tuple[str, str, str]:
    size, cosine, gradient = stream.shown()
    if (ends := stream.intervals()) is None:
        return _three(size), _three(cosine), _three(gradient)
    return (
        _with_interval(size, ends[0], below=below),
        _cosine_with_interval(cosine, ends[1], below=below),
        _with_interval(gradient, ends[2], below=below),
    )


def _of_forecast(model: InitialModel) -> tuple[str, ...]:
    """Growth varies as the last size does, the ratio of gradients as the first."""
    growth, cosine, ratio, logits = _of_model(model)
    first, last = model.streams[0].intervals(), model.streams[-1].intervals()
    if first is None or last is None:
        return tuple(map(_three, (growth, cosine, ratio, logits)))
    return (
        _with_interval(growth, _over(last[0], model.streams[0]), below=True),
        _cosine_with_interval(cosine, last[1], below=True),
        _with_interval(ratio, first[2], below=True),
        _three(logits),
    )


def _over(ends: tuple[float, float], first: InitialStream) -> tuple[float, float]:
    size = first.shown()[0]
    return (ends[0] / size, ends[1] / size) if size else (nan, nan)


def _with_interval(value: float, ends: tuple[float, float], *, below: bool = False) -> str:
    """Write a size or a gradient with its interval: in per cent, or as a factor from a half on; on a line `below`.

    >>> _with_interval(1.6823, (1.616, 1.751)), _with_interval(1.6823, (0.684, 4.138))
    ('1.68 ± 4%', '1.68 ×÷2.5')
    """
    if not (value and isfinite(value) and all(map(isfinite, ends))):
        return _three(value)
    return f"{_three(value)}{_between(below)}{plus_minus(value, ends[1])}"


def _cosine_with_interval(value: float, ends: tuple[float, float], *, below: bool = False) -> str:
    """Write a cosine with the ends of its interval.

    >>> _cosine_with_interval(0.2779, (0.219, 0.342))
    '0.278 .219–.342'
    """
    if not (isfinite(value) and all(map(isfinite, ends))):
        return _three(value)
    return f"{value:.3f}{_between(below)}{ends_in_words(*ends)}"


def _between(below: bool) -> str:
    return "\n" if below else " "


def _mean_and_sd(values: Sequence[float], *, below: bool = False) -> str:
    mean = fmean(values)
    shown = _three(mean)
    return shown if len(values) < 2 or not isfinite(mean) else f"{shown}{_between(below)}± {stdev(values):.1g}"


def _beside(pairs: Sequence[tuple[InitialModel, Sequence[InitialModel]]]) -> tuple[str, ...]:
    pairs = [(forecast, sampled) for forecast, sampled in pairs if sampled]
    away: list[tuple[float, ...]] = []
    for forecast, sampled in pairs:
        for place, stream in enumerate(forecast.streams):
            means = map(fmean, zip(*(model.streams[place].shown() for model in sampled), strict=True))
            (size, cosine, gradient), (mean_size, mean_cosine, mean_gradient) = stream.shown(), means
            if mean_size and mean_gradient:
                away.append((abs(size / mean_size - 1), abs(cosine - mean_cosine), abs(gradient / mean_gradient - 1)))
    if not away:
        return ()
    size, cosine, gradient = (median(each) for each in zip(*away, strict=True))
    of_cosine = "" if isnan(cosine) else f", {cosine:.3f} in the cosine"
    return (
        f"sampled: mean ± sd over n = {len(pairs[0][1])} initialisations, each in one pass; "
        f"the forecast is away from the means by {size:.1%} in size{of_cosine} and {gradient:.1%} in "
        f"the gradient (medians over {len(away)} layers)",
    )


def _some(streams: tuple[InitialStream, ...]) -> tuple[InitialStream, ...]:
    if len(streams) <= ROWS:
        return streams
    last = len(streams) - 1
    places = dict.fromkeys(round(k * last / (ROWS - 1)) for k in range(ROWS))
    return tuple(streams[place] for place in places)


def _attention(forecast: InitialModel) -> tuple[str, ...]:
    if not forecast.attention:
        return ()
    first, last = forecast.attention[0], forecast.attention[-1]
    and_last = "" if first is last else f" and {_three(last.entropy)} in layer {last.layer}"
    return (
        f"the softmax of attention has an entropy of {_three(first.entropy)} nats in layer {first.layer}{and_last}, "
        f"mean over heads and queries; at zero scores it would be {_three(first.uniform_entropy)}",
    )


def _kurtosis(forecast: InitialModel) -> tuple[str, ...]:
    last = forecast.streams[-1]
    if not _has_size(last):
        return ()
    return (
        f"behind the last layer neurons have a kurtosis of {_three(normal_kurtosis(last.kernel))} over the tokens of a "
        "sequence, mean m²/(mean m)² of their mean squares m: 1 if all are of one size, 3 where rank has collapsed",
    )


def _has_size(stream: InitialStream) -> bool:
    return isfinite(stream.mean_square) and stream.mean_square > 0


def _three(value: float) -> str:
    """Return a number in three digits, without an exponent where it needs none; - for none.

    >>> [_three(value) for value in (1.0, 0.20146, 100.4, 999.6, 12345.0, 1.5e7, float("nan"), float("inf"))]
    ['1.00', '0.201', '100', '1,000', '12,300', '1.50e+07', '-', 'inf']
    """
    if isnan(value):
        return "-"
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if 1000 <= abs(rounded) < 1e6 else f"{rounded:#.3g}".removesuffix(".")
