"""Images of a split of a data set of the Hugging Face hub, each with its class, streamed as far as the steps need it.

    image -> scaled so that its shorter side is `size` -> the middle size x size of it      bicubic, by Pillow

An image that is `size` x `size` already stays as it is, pixel for pixel.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ablate.data.corpora.declare import (
    CORPUS,
    Bytes,
    CorpusError,
    CorpusFault,
    Layout,
    Settings,
    Skipped,
    Text,
    corpus,
    implements,
    record_of,
)


@corpus("hub_images", source="Hugging Face Hub, huggingface.co/datasets", version=1)
class HubImages(Settings):
    """`{hub_images: uoft-cs/cifar10, split: train, image: img, label: label, size: 32, classes: 10}`.

    `image` and `label` name fields, `config` one of several configurations. Images are `size` x `size`, in colour or,
    with `channels: 1`, in grey. As much as the steps need is read, up to the image that reaches `at_most` bytes of
    pixels: 1 GiB by default, which fits in memory.
    """

    hub_images: str
    config: str | None = None
    split: str
    image: str
    label: str
    size: Annotated[int, Field(ge=1, le=1024)]
    channels: Literal[1, 3] = 3
    classes: Annotated[int, Field(ge=2, le=65_535)]
    at_most: Bytes = 2**30

    @property
    def layout(self) -> Layout:
        return Layout(shape=(self.channels, self.size, self.size), dtype="uint8", targets=0, classes=self.classes)


import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from ablate.data.corpora.hub import DAMAGED, OfTheHub

if TYPE_CHECKING:
    from PIL.Image import Image

MODES: Final = frozenset({"1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr"})
"""Pillow's modes of at most 8 bits in each channel; of more, pixels would be cut off."""

Pixels = npt.NDArray[np.uint8]


@implements(HubImages)
def read(settings: HubImages, folder: Path) -> HubOfImages:
    return HubOfImages(settings)


class HubOfImages(OfTheHub[HubImages]):
    """The images of one split of a data set, in its own order, up to the one that reaches `at_most` bytes of pixels."""

    corpus = "hub_images"
    fields = ("image", "label")
    instead = "corpus: digits, or {drawn_images: 20000}, which are on every machine"

    def texts(self) -> Iterator[Text | Skipped]:
        """Yield the record of each row, named by its position.

        Raises CorpusError if the hub cannot be read, lacks a field, or has labels other than the classes.
        """
        chosen, layout, size = self.settings, self.settings.layout, 0
        for position, row in enumerate(self.rows(chosen.image)):
            for setting in self.fields:
                if getattr(chosen, setting) not in row:
                    raise self.without_field(getattr(chosen, setting), row, setting)
            name, image = f"{position:09d}", _opened(row[chosen.image])
            if image is None or image.mode not in MODES:
                yield Skipped(name, "contains no image" if image is None else f"has more than 8 bits ({image.mode})")
                continue
            pixels = pixels_of(image, chosen.size, chosen.channels)
            yield Text(name, record_of(layout, pixels, self._class(position, row[chosen.label])))
            size += pixels.nbytes
            if size >= chosen.at_most:
                return

    def _class(self, position: int, label: object) -> int:
        """The class of a row's label. Raises CorpusError if it is none of those that the space says."""
        chosen = self.settings
        if isinstance(label, int) and 0 <= label < chosen.classes:
            return int(label)
        message = (
            f"row {position:,} of {chosen.hub_images} has the label {label!r}, not one of 0 to {chosen.classes - 1:,}"
        )
        at = "classes" if isinstance(label, int) and label >= 0 else "label"
        ways = (
            "name a field of whole numbers from 0 on (data.corpus.label)",
            "or say how many classes there are (data.corpus.classes); a split whose labels are kept back has -1",
        )
        raise CorpusError([CorpusFault(message, (*CORPUS, at), notes=ways)])


def pixels_of(image: Image, size: int, channels: int) -> Pixels:
    """The middle of an image, [channels, size, size], scaled so that its shorter side is `size`."""
    from PIL.Image import Resampling

    plain = image.convert("L" if channels == 1 else "RGB")
    width, height = plain.size
    if (width, height) != (size, size):
        side = min(width, height)
        left, top = (width - side) / 2, (height - side) / 2
        plain = plain.resize((size, size), Resampling.BICUBIC, box=(left, top, left + side, top + side))
    pixels = np.asarray(plain, dtype=np.uint8).reshape(size, size, channels)
    return np.ascontiguousarray(np.moveaxis(pixels, -1, 0))


def _opened(value: Any) -> Image | None:
    """An image, decoded or in the bytes of its file; None for anything else, and for what cannot be decoded."""
    from PIL import Image as images

    if isinstance(value, images.Image):
        return value
    if not isinstance(value, Mapping) or not isinstance(value.get("bytes"), bytes):
        return None
    try:
        image = images.open(io.BytesIO(value["bytes"]))
        image.load()
    except DAMAGED:
        return None
    return image
