"""Drawn images of CIFAR's layout, each a shape of one of ten classes at a random place, in random colours, with noise.

    image = background + mask · (shape's colour - background) + noise        mask: the shape, turned, scaled and moved

A shape is as likely brighter than its background as darker, so the mean image of every class is the same, and a linear
classifier learns little. Each image is drawn by a key of its own, its number, so two of them are independent, and the
first n images are the same however many follow.

Numbers are raw words, and of arithmetic only what is rounded exactly (no sine, no exponential, no sum whose order is
open): the same bytes on every machine.
"""

from __future__ import annotations

from ablate.data.corpora.declare import Layout, Settings, corpus, implements
from ablate.space.documents import Count

LAYOUT = Layout(shape=(3, 32, 32), dtype="uint8", targets=0, classes=10)
SIDE = 32
FINE = 2  # a pixel is the mean of FINE x FINE points
NOISE = 0.06  # the standard deviation of the noise of a pixel, where the range is from 0 to 1


@corpus("drawn_images", source="this work", version=1)
class DrawnImages(Settings):
    """`{drawn_images: 20000}`: how many images there are."""

    drawn_images: Count

    @property
    def layout(self) -> Layout:
        return LAYOUT


from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ablate.data.record_stream import DrawnExamples
from ablate.data.uniform import Uniform, bell

Plane: TypeAlias = npt.NDArray[np.float64]


def _within(u: Plane, v: Plane, half: float) -> npt.NDArray[np.bool_]:
    return np.maximum(np.abs(u), np.abs(v)) <= half


SHAPES: dict[str, Callable[[Plane, Plane], npt.NDArray[np.bool_]]] = {
    "disc": lambda u, v: u * u + v * v <= 1,
    "ring": lambda u, v: (u * u + v * v <= 1) & (u * u + v * v >= 0.36),
    "square": lambda u, v: _within(u, v, 0.85),
    "frame": lambda u, v: _within(u, v, 0.85) & ~_within(u, v, 0.5),
    "triangle": lambda u, v: (v >= -0.5) & (v <= 1 - 1.7 * np.abs(u)),
    "cross": lambda u, v: _within(u, v, 1.0) & (np.minimum(np.abs(u), np.abs(v)) <= 0.3),
    "stripes": lambda u, v: _within(u, v, 0.9) & (np.floor((u + 0.9) / 0.36) % 2 == 0),
    "checks": lambda u, v: _within(u, v, 0.9) & ((np.floor((u + 0.9) / 0.6) + np.floor((v + 0.9) / 0.6)) % 2 == 0),
    "crescent": lambda u, v: (u * u + v * v <= 1) & ((u - 0.5) * (u - 0.5) + v * v >= 0.64),
    "half disc": lambda u, v: (u * u + v * v <= 1) & (u >= 0),
}
"""The classes in order, each as the points (u, v) of its shape, about within the unit disc."""


@implements(DrawnImages)
def read(settings: DrawnImages, folder: Path) -> DrawnExamples:
    return DrawnExamples("drawn_images", "images", settings.drawn_images, LAYOUT, draw)


def draw(number: int) -> tuple[npt.NDArray[np.uint8], int]:
    """The image [3, 32, 32] of a number, and its class."""
    uniform = Uniform(f"drawn image/{number}")
    which, turn, across, down, size, sign, *others = uniform(18).tolist()
    label = int(which * len(SHAPES))
    mask = _mask(list(SHAPES.values())[label], turn, across, down, 6 + 5 * size)
    back, contrast, slopes = (np.array(others[first : first + 3]) for first in (0, 3, 6))
    low = 0.25 + 0.5 * back  # between 0.25 and 0.75, so that a shape can be brighter or darker
    step = (0.2 + 0.4 * contrast) * (1 if sign < 0.5 else -1)
    ramp = (np.arange(SIDE) - (SIDE - 1) / 2) / SIDE
    ground = low[:, None, None] + 0.3 * (slopes[:, None, None] - 0.5) * (
        ramp[None, None, :] if others[9] < 0.5 else ramp[None, :, None]
    )
    image = ground + mask * step[:, None, None] + NOISE * bell(f"drawn image/{number}/noise", LAYOUT.shape)
    return np.floor(np.clip(image, 0, 1) * 255 + 0.5).astype(np.uint8), label


def _mask(
    shape: Callable[[Plane, Plane], npt.NDArray[np.bool_]], turn: float, across: float, down: float, radius: float
) -> Plane:
    """The share of each pixel that a shape covers, turned by a random angle, at a random place inside the image."""
    half = 2 * (turn * 2 % 1) - 1  # the tangent of half an angle, within 90°: a point of the unit circle without a sine
    cosine, sine = (1 - half * half) / (1 + half * half), 2 * half / (1 + half * half)
    if turn >= 0.5:
        cosine, sine = -cosine, -sine
    room = SIDE - 2 * radius
    points = (np.arange(SIDE * FINE) + 0.5) / FINE
    x = (points - radius - room * across)[None, :] / radius
    y = (points - radius - room * down)[:, None] / radius
    covered = shape(x * cosine + y * sine, y * cosine - x * sine).astype(np.float64)
    covered = covered[::2] + covered[1::2]
    return (covered[:, ::2] + covered[:, 1::2]) / (FINE * FINE)
