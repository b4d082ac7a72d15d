"""Images of handwritten digits, 8 x 8, which come with scikit-learn; there are 1,797.

    values 0 to 16: of a bitmap of 32 x 32, how many of each 4 x 4 pixels are black

The writers are not in the set, so a writer may be in several splits. A linear classifier gets about 96 % right.

    Alpaydin & Kaynak 1998, Optical Recognition of Handwritten Digits, UCI Machine Learning Repository,
    doi:10.24432/C50P49 (of which this is the test set)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ablate.data.corpora.declare import Layout, Settings, Text, corpus, implements, record_of

LAYOUT = Layout(shape=(1, 8, 8), dtype="uint8", targets=0, classes=10)


@corpus("digits", source="Alpaydin & Kaynak 1998, doi:10.24432/C50P49; scikit-learn", version=1)
class Digits(Settings):
    """No settings: `corpus: digits`."""

    @property
    def layout(self) -> Layout:
        return LAYOUT


import numpy as np


@implements(Digits)
def read(settings: Digits, folder: Path) -> DigitImages:
    return DigitImages()


@dataclass(frozen=True)
class DigitImages:
    """The images in the order of the set, each named by its number."""

    title: ClassVar[str] = "digits of scikit-learn"
    place: ClassVar[str] = "scikit-learn:digits"
    notes: ClassVar[tuple[str, ...]] = ("writers are not known: one may be in several splits",)

    def stamp(self) -> str | None:
        return "digits"

    def texts(self) -> Iterator[Text]:
        from sklearn.datasets import load_digits

        images, classes = load_digits(return_X_y=True)
        for number, (image, label) in enumerate(zip(images.astype(np.uint8), classes.tolist(), strict=True)):
            yield Text(f"{number:09d}", record_of(LAYOUT, image.reshape(LAYOUT.shape), label))
