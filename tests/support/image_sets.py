"""Sets of images in the layout in which the hub keeps CIFAR-10: Parquet of encoded images and named classes."""

from __future__ import annotations

from pathlib import Path

import datasets
import numpy as np
from PIL import Image

NAMES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


def drawn_pixels(count: int, side: int) -> tuple[np.ndarray, list[int]]:
    """Images [count, side, side, 3] and their classes."""
    random = np.random.default_rng(0)
    return random.integers(0, 256, (count, side, side, 3)).astype(np.uint8), random.integers(0, 10, count).tolist()


def write_images(path: Path, count: int, side: int) -> tuple[np.ndarray, list[int]]:
    """Write a set of images, and return them."""
    pixels, classes = drawn_pixels(count, side)
    write_rows(path, [Image.fromarray(each) for each in pixels], classes)
    return pixels, classes


def write_rows(path: Path, images: list, classes: list[int]) -> None:
    """Write images of Pillow, or None, with their classes; -1 is a class that is kept back."""
    features = datasets.Features({"img": datasets.Image(), "label": datasets.ClassLabel(names=NAMES)})
    path.parent.mkdir(parents=True, exist_ok=True)
    datasets.Dataset.from_dict({"img": images, "label": classes}, features=features).to_parquet(path)
