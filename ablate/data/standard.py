"""Standardised values of records, in float32, and whitened where a space says so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ablate.data.record_stream import Records, RecordsReport
from ablate.data.whitening import Whitening, kept_whitening

Floats = npt.NDArray[np.float64]
Single = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Standard:
    """(x - mean)/std of each channel or feature, then whitening if there is any; frames that are not there are 0."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    whitening: Whitening | None = None

    def __call__(self, records: Records, chosen: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Return the values of some examples, [examples, *shape]."""
        return self.given(records.values(chosen), _there(records, chosen))

    def given(self, values: npt.NDArray[np.generic], there: npt.NDArray[np.bool_] | None = None) -> Single:
        """Return values [examples, *shape] as a model is given them; `there` says which frames are."""
        standard = self._plain(values, there)
        return standard.astype(np.float32) if self.whitening is None else self.whitening.in_single(standard)

    def whole(self, values: npt.NDArray[np.generic], there: npt.NDArray[np.bool_] | None = None) -> Floats:
        """Return the same in float64."""
        standard = self._plain(values, there)
        return standard if self.whitening is None else self.whitening(standard)

    def _plain(self, values: npt.NDArray[np.generic], there: npt.NDArray[np.bool_] | None) -> Floats:
        shape = (-1, 1, 1) if there is None else (-1,)
        mean, std = (np.array(numbers).reshape(shape) for numbers in (self.mean, self.std))
        standard = (values.astype(np.float64) - mean) / std
        if there is not None:
            standard = np.where(there[..., None], standard, 0)
        return np.asarray(standard)


def standard_of(report: RecordsReport, train: Records, whiten: float | None, cache: Path, fingerprint: str) -> Standard:
    """Return the standard of a corpus, by the statistics of its report; `whiten` is ε, None for no whitening."""
    plain = Standard(report.mean, report.std)
    if whiten is None:
        return plain

    def parts() -> Iterator[Floats]:
        for chosen in train.parts():
            yield plain.whole(train.values(chosen))

    return Standard(report.mean, report.std, kept_whitening(cache, fingerprint, parts, whiten))


def _there(records: Records, chosen: npt.ArrayLike) -> npt.NDArray[np.bool_] | None:
    """Return which frames of some examples are there, [examples, times]; None of images."""
    if records.layout.kind == "images":
        return None
    return np.asarray(np.arange(records.layout.shape[0]) < records.lengths(chosen)[:, None])
