"""Augmentation: images of training batches are changed at random, those of evaluations never.

    RandAugment     x <- T_n(… T_1(x))                   each T one of torchvision's 14 transformations, equally likely
    MixUp           x_b <- λ x_b + (1 - λ) x_{b-1}       λ ~ Beta(α, α), one for the batch
                    loss_b = λ loss(class_b) + (1 - λ) loss(class_{b-1})

RandAugment is of pixels, before they are standardised; all of its transformations have one magnitude, of 0 to 30. MixUp
is of what a model is given; behind x_0 stands the last example of the batch. As examples are drawn at random, the one
before is any other.

What is drawn is a function of (seed, step). λ is the quantile of a number drawn by a key. torchvision draws from
PyTorch's generator, which for the time is set to a number drawn by a key, and afterwards is as it was before.

    Cubuk et al. 2020, arXiv:1909.13719; Zhang et al. 2018, arXiv:1710.09412, Sec. 2
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import betaincinv

from ablate.data.batch import Batch, first
from ablate.data.uniform import Uniform
from ablate.space.documents import Augment, RandAugment

SEEDS: Final = 2**53
"""How many numbers a generator may be set to: the draws that are uniform are multiples of one over it."""


@dataclass(frozen=True)
class Augmentation:
    """What a recipe changes in the images of a training batch, for one seed."""

    settings: Augment
    seed: int

    def pixels(self, images: npt.NDArray[np.uint8], step: int) -> npt.NDArray[np.uint8]:
        """Return images [B, C, H, W] after RandAugment, if the recipe has it."""
        if self.settings.randaugment is None:
            return images
        drawn = Uniform(f"randaugment/{self.seed}/{step}")
        return transformed(images, self.settings.randaugment, int(drawn(1)[0] * SEEDS))

    def mixed(self, batch: Batch, step: int) -> Batch:
        """Return a batch after MixUp, if the recipe has it: the targets are then two classes [B] each, and λ [B]."""
        if not self.settings.mixup:
            return batch
        share = self.share(step)
        images, classes = first(batch.inputs), first(batch.targets)
        mixture = images * share + images.roll(1, 0) * (1 - share)
        weight = torch.full(classes.shape, share, dtype=torch.float64)
        return Batch(mixture, (classes, classes.roll(1, 0), weight))

    def share(self, step: int) -> float:
        """Return λ of a step."""
        drawn = Uniform(f"mixup/{self.seed}/{step}")
        return float(betaincinv(self.settings.mixup, self.settings.mixup, drawn(1)[0]))


def transformed(images: npt.NDArray[np.uint8], settings: RandAugment, seed: int) -> npt.NDArray[np.uint8]:
    """Return images [B, C, H, W], each transformed by itself, by torchvision."""
    from torchvision.transforms import RandAugment as Transform

    transform = Transform(num_ops=settings.operations, magnitude=settings.magnitude)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        changed = [transform(torch.from_numpy(np.array(image))) for image in images]
    return np.asarray(torch.stack(changed).numpy(), dtype=np.uint8)
