"""Batches of records as a function of (seed, step), and the records of an evaluation as one of (seed, split).

They are drawn as windows of text are (`batches.py`), from examples in the place of positions: the place in the data is
the step, and runs that share a seed see the same examples in the same order, whatever their model is.

A model is given values standardised by the training split, (x - mean)/std of each channel or feature, in float32;
frames that are not there are 0, the mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from ablate.data.augmentation import Augmentation
from ablate.data.batch import NO_TARGET, Batch, Tensors
from ablate.data.batches import Examples, window_starts
from ablate.data.record_stream import Records
from ablate.data.standard import Standard
from ablate.data.text import Split
from ablate.data.uniform import drawn_places
from ablate.errors import RefusedError


@dataclass(frozen=True, eq=False)
class RecordBatches:
    """Random access to batches of examples, drawn with replacement.

    Example b of step s is place b of `drawn_places`.

        images, classes = RecordBatches(Records(streams.train, layout), standard, batch=16, seed=0).at(step=7)
    """

    records: Records
    standard: Standard
    batch: int
    seed: int
    augmentation: Augmentation | None = None

    def __post_init__(self) -> None:
        if len(self.records) == 0:
            raise RefusedError("data: a split without a single example\n  = hold out less, or add examples")

    def at(self, step: int) -> Batch:
        """Return the examples of a step.

        Images give inputs [batch, channels, height, width], frames ([batch, times, features], lengths [batch]); targets
        are the classes [batch], or tokens [batch, n] with NO_TARGET behind the last. Images may be augmented, and the
        targets of a mixture are (classes, other classes, share of the first), [batch] each.
        """
        examples = drawn_places(self.seed, step, self.batch, len(self.records))
        if self.augmentation is None:
            return _batch(self.records, self.standard, examples)
        pixels = self.augmentation.pixels(self.records.values(examples), step)
        classes = torch.from_numpy(self.records.targets(examples, NO_TARGET))
        return self.augmentation.mixed(Batch(torch.from_numpy(self.standard.given(pixels)), classes), step)


def evaluation_records(records: Records, standard: Standard, number: int, *, seed: int, split: Split) -> Examples:
    """Return the `number` of examples that every evaluation of a trial of `seed` uses, whatever its model is.

    Each seed has its own, stratified over the split: see `window_starts`, whose positions are the examples here.
    Raises RefusedError if the split has fewer.
    """
    if len(records) < number:
        raise RefusedError(
            f"data: a split of {len(records):,} examples does not hold {number:,} to evaluate on. Add examples, hold "
            "out a larger share (data.tuning, data.verdict), or lower measure.evaluation.windows."
        )
    chosen = window_starts(len(records), number, seed=seed, split=split)
    return Examples(*_batch(records, standard, chosen), bytes=None)


def _batch(records: Records, standard: Standard, chosen: npt.NDArray[np.int64]) -> Batch:
    values = torch.from_numpy(standard(records, chosen))
    inputs: Tensors = values
    if records.layout.kind == "frames":
        inputs = (values, torch.from_numpy(records.lengths(chosen)))
    return Batch(inputs, torch.from_numpy(records.targets(chosen, NO_TARGET)))
