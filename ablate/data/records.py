"""Batches of records: drawn by (seed, step), those of an evaluation by (seed, split); images may be augmented.

They are drawn as windows of text are (`batch.py`), from examples in the place of positions. A model is given values
standardised by the training split, (x - mean)/std of each channel or feature, in float32; frames that are not there are
0, the mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import betaincinv

from ablate.data.batch import NO_TARGET, Batch, Examples, Tensors, first, window_starts
from ablate.data.record_stream import Records
from ablate.data.sources import Split
from ablate.data.standardisation import Standard
from ablate.data.uniform import Uniform, drawn_places
from ablate.errors import RefusedError
from ablate.space.recipe import Augment, RandAugment


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

    They are stratified over the split: see `window_starts`. Raises RefusedError if the split has fewer.
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


# Augmentation: images of training batches are changed at random, those of evaluations never.
#
#     RandAugment     x <- T_n(… T_1(x))                   each T one of torchvision's 14 transformations, all as likely
#     MixUp           x_b <- λ x_b + (1 - λ) x_{b-1}       λ ~ Beta(α, α), one for the batch
#                     loss_b = λ loss(class_b) + (1 - λ) loss(class_{b-1})
#
# RandAugment is of pixels, before they are standardised; all of its transformations have one magnitude, of 0 to 30.
# MixUp is of what a model is given; behind x_0 stands the last example of the batch. As examples are drawn at random,
# the one before is any other.
#
# What is drawn is a function of (seed, step). λ is the quantile of a number drawn by a key. torchvision draws from
# PyTorch's generator, which for the time is set to a number drawn by a key, and afterwards is as it was before.
#
#     Cubuk et al. 2020, arXiv:1909.13719; Zhang et al. 2018, arXiv:1710.09412, Sec. 2

SEEDS: Final = 2**53  # the seeds of a generator: uniform draws are multiples of one over their number


@dataclass(frozen=True)
class Augmentation:
    """The changes of a training batch's images by a recipe, for one seed."""

    settings: Augment
    seed: int

    def pixels(self, images: npt.NDArray[np.uint8], step: int) -> npt.NDArray[np.uint8]:
        """Images [B, C, H, W] after RandAugment, if the recipe has it."""
        if self.settings.randaugment is None:
            return images
        drawn = Uniform(f"randaugment/{self.seed}/{step}")
        return transformed(images, self.settings.randaugment, int(drawn(1)[0] * SEEDS))

    def mixed(self, batch: Batch, step: int) -> Batch:
        """A batch after MixUp, if the recipe has it: the targets are then two classes [B] each, and λ [B]."""
        if not self.settings.mixup:
            return batch
        share = self.share(step)
        images, classes = first(batch.inputs), first(batch.targets)
        mixture = images * share + images.roll(1, 0) * (1 - share)
        weight = torch.full(classes.shape, share, dtype=torch.float64)
        return Batch(mixture, (classes, classes.roll(1, 0), weight))

    def share(self, step: int) -> float:
        """λ of a step."""
        drawn = Uniform(f"mixup/{self.seed}/{step}")
        return float(betaincinv(self.settings.mixup, self.settings.mixup, drawn(1)[0]))


def transformed(images: npt.NDArray[np.uint8], settings: RandAugment, seed: int) -> npt.NDArray[np.uint8]:
    """Images [B, C, H, W], each transformed by itself, by torchvision."""
    from torchvision.transforms import RandAugment as Transform

    transform = Transform(num_ops=settings.operations, magnitude=settings.magnitude)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        changed = [transform(torch.from_numpy(np.array(image))) for image in images]
    return np.asarray(torch.stack(changed).numpy(), dtype=np.uint8)
