"""The figures of forecasts: their numbers, what they leave out, and their files; and their table on a narrow screen."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from ablate.report.figures.files import files_of, numbers
from ablate.report.figures.forecast_plots import FIRST, PLACES, of_forecasts
from ablate.report.screens.forecast import space_screen
from ablate.report.terminal_renderer import Screen
from ablate.theory.initial_state import InitialModel, InitialStream, mean_cosine

LENGTH = 60


def model(layers=4, share=0.3, scale=1.0):
    """A made-up model whose tokens grow alike."""
    streams = []
    for layer in range(layers + 1):
        alike = 1 - (1 - share) ** (layer + 1)
        sizes = scale * np.sqrt(np.linspace(1, 2 + layer, LENGTH))
        near = np.exp(-(np.abs(np.subtract.outer(np.arange(LENGTH), np.arange(LENGTH))) ** 0.5))
        kernel = (alike + (1 - alike) * near) * np.outer(sizes, sizes)
        square = float(np.diag(kernel).mean())
        streams.append(InitialStream(layer, square, mean_cosine(kernel), 1.5 ** (layers - layer), 0.1, kernel))
    return InitialModel(tuple(streams), logits=1.0, repetition=0.05, computed=frozenset(range(layers + 1)))


def rows_of(plot):
    return list(csv.DictReader(io.StringIO(numbers(plot))))


def test_the_numbers_behind_curves_are_those_of_the_forecast_and_of_what_was_sampled():
    forecast, sampled = model(), [model(scale=0.9), model(scale=1.2)]
    plots = dict(of_forecasts("a title", {"a": forecast}, {"a": sampled}).plots)
    rows = rows_of(plots["forecast"])
    assert [row["of"] for row in rows] == ["forecast"] * 5 + ["sampled"] * 5
    for row, stream in zip(rows, forecast.streams, strict=False):
        assert float(row["size"]) == pytest.approx(math.sqrt(stream.mean_square))
        assert float(row["cosine"]) == pytest.approx(stream.correlation)
        assert float(row["gradient"]) == pytest.approx(math.sqrt(stream.gradient))
        assert (row["n"], row["size_sd"]) == ("0", "")
    for layer, row in enumerate(rows[5:]):
        sizes = [math.sqrt(each.streams[layer].mean_square) for each in sampled]
        assert row["n"] == "2"
        assert float(row["size"]) == pytest.approx(np.mean(sizes))
        assert float(row["size_sd"]) == pytest.approx(np.std(sizes, ddof=1))


def test_a_kernel_is_the_cosines_at_places_that_its_caption_names():
    forecast = model()
    plots = dict(of_forecasts("a title", {"a": forecast}, {}).plots)
    plot = plots["forecast-kernels-a"]
    rows = rows_of(plot)
    assert {row["layer"] for row in rows} == {"0", "2", "4"}
    places = sorted({int(row["i"]) for row in rows})
    assert len(places) == PLACES and (places[0], places[-1]) == (0, LENGTH - 1)
    assert f"at {PLACES} evenly spread places of {LENGTH}" in plot.caption
    for row in rows[:: len(rows) // 50]:
        kernel, i, j = forecast.streams[int(row["layer"])].kernel, int(row["i"]), int(row["j"])
        assert float(row["cosine"]) == pytest.approx(kernel[i, j] / math.sqrt(kernel[i, i] * kernel[j, j]))


def test_what_is_not_drawn_is_named():
    export = of_forecasts("a title", {f"model_{k}": model(layers=2) for k in range(8)}, {}, refused=["other"])
    names = [name for name, _ in export.plots]
    assert names[:2] == ["forecast", "forecast-2"], "curves of as many models as there are colours"
    assert sum(name.startswith("forecast-kernels-") for name in names) == FIRST
    other, kernels = export.left_out
    assert other == "other: it is not forecast" and kernels.startswith("kernels of model_6, model_7: too many")
    drawn = {row["model"] for name, plot in export.plots[:2] for row in rows_of(plot)}
    assert drawn == {f"model_{k}" for k in range(8)}


@pytest.mark.full
def test_tokens_of_zeros_and_numbers_that_are_not_finite_are_drawn_as_missing():
    whole = model()
    zeros, last = np.zeros((LENGTH, LENGTH)), replace(whole.streams[-1], mean_square=math.inf, gradient=math.nan)
    odd = replace(whole, streams=(replace(whole.streams[0], kernel=zeros), *whole.streams[1:-1], last))
    for name, plot in of_forecasts("a title", {"odd": odd}, {}).plots:
        assert {file.rpartition(".")[2] for file, content in files_of(plot, name) if content} == {
            "svg", "pdf", "png", "csv"
        }  # fmt: skip
    rows = rows_of(dict(of_forecasts("a title", {"odd": odd}, {}).plots)["forecast"])
    assert (rows[-1]["size"], rows[-1]["gradient"]) == ("", "")


@pytest.mark.parametrize("width", [40, 60, 80])
def test_no_digit_is_cut_off_on_a_narrow_screen(width):
    beside = [model(), model(share=0.31, scale=1.03)]
    screen = space_screen("space", "", {"a_rather_long_name": model()}, {}, {"a_rather_long_name": beside})
    narrow, wide = (letters(screen, each) for each in (width, 200))
    assert narrow == wide and wide["±"] > 3


def letters(screen, width):
    """How often each letter is on a screen, but for spaces and lines."""
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(Screen(screen))
    return Counter(letter for letter in console.export_text() if not letter.isspace() and letter != "─")
