"""Augmentation: of training batches alone, a function of (seed, step), and what MixUp and RandAugment say it is."""

import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

import numpy as np
import pytest
import torch
from scipy import stats
from test_data_batches import philox_words

from ablate.data.record_stream import RecordCodec, Records, record_of
from ablate.data.records import Augmentation, RecordBatches
from ablate.data.sources import Text
from ablate.data.standardisation import Standard
from ablate.space.data import Layout
from ablate.space.recipe import Augment

IMAGES = Layout(shape=(3, 12, 12), dtype="uint8", targets=0, classes=7)
STANDARD = Standard((100.0, 120.0, 90.0), (50.0, 60.0, 40.0))
DRAWN = np.random.default_rng(0)
PIXELS = DRAWN.integers(0, 256, (20, 3, 12, 12)).astype(np.uint8)
CLASSES = DRAWN.integers(0, 7, 20)


def batches(augment=None, seed=3, batch=6):
    texts = (Text(f"{n}", record_of(IMAGES, PIXELS[n], int(CLASSES[n]))) for n in range(20))
    records = Records(RecordCodec(IMAGES).encode(texts), IMAGES)
    augmentation = None if augment is None else Augmentation(Augment(**augment), seed)
    return RecordBatches(records, STANDARD, batch, seed, augmentation)


def standardised(pixels):
    return (pixels.astype(np.float64) - np.reshape(STANDARD.mean, (3, 1, 1))) / np.reshape(STANDARD.std, (3, 1, 1))


def the_same(one, other):
    pairs = zip((one.inputs, *one.targets), (other.inputs, *other.targets), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("alpha", [0.2, 1.0, 8.0])
def test_a_mixture_is_of_each_example_and_the_one_before(alpha):
    chosen = [word % 20 for word in philox_words((3, 5), 6)]
    images, (classes, others, share) = batches({"mixup": alpha}).at(5)
    assert (
        classes.tolist() == CLASSES[chosen].tolist() and others.tolist() == CLASSES[[chosen[-1], *chosen[:-1]]].tolist()
    )
    assert share.dtype == torch.float64 and len(share) == 6 and len(set(share.tolist())) == 1
    weight, whole = share[0].item(), standardised(PIXELS[chosen])
    expected = np.stack([weight * whole[b] + (1 - weight) * whole[b - 1] for b in range(6)])
    assert images.dtype == torch.float32 and images.numpy() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("alpha", [0.2, 1.0, 8.0])
def test_shares_are_distributed_as_beta(alpha):
    augmentation = Augmentation(Augment(mixup=alpha), seed=0)
    shares = [augmentation.share(step) for step in range(400)]
    assert stats.kstest(shares, stats.beta(alpha, alpha).cdf).pvalue > 0.01
    assert shares != [Augmentation(Augment(mixup=alpha), seed=1).share(step) for step in range(400)]


def test_what_is_not_augmented_is_what_it_was():
    plain, neither = batches().at(2), batches({}).at(2)
    assert torch.equal(plain.inputs, neither.inputs) and torch.equal(plain.targets, neither.targets)


class Stand:
    """In the place of torchvision's RandAugment: draws from PyTorch's generator, as that does, and turns an image."""

    def __init__(self, num_ops, magnitude):
        self.turns, self.magnitude = num_ops, magnitude

    def __call__(self, image):
        assert image.dtype == torch.uint8 and image.shape == (3, 12, 12)
        for _ in range(self.turns):
            image = torch.rot90(image, int(torch.randint(4, (1,))), (1, 2))
        return image.roll(self.magnitude, 2)


@pytest.fixture
def stand_in(monkeypatch):
    package, transforms = ModuleType("torchvision"), ModuleType("torchvision.transforms")
    package.__spec__, transforms.RandAugment = ModuleSpec("torchvision", None), Stand
    monkeypatch.setitem(sys.modules, "torchvision", package)
    monkeypatch.setitem(sys.modules, "torchvision.transforms", transforms)


def turned(step, seed=3, **settings):
    return batches({"randaugment": settings}, seed=seed).at(step)


def test_pixels_are_transformed_each_by_itself_and_before_they_are_standardised(stand_in):
    chosen = [word % 20 for word in philox_words((3, 5), 6)]
    images, classes = turned(5, operations=1, magnitude=2)
    assert classes.tolist() == CLASSES[chosen].tolist()
    found = []
    for image, pixels in zip(images.numpy(), PIXELS[chosen], strict=True):
        turns = [np.roll(np.rot90(pixels, k, (1, 2)), 2, axis=2) for k in range(4)]
        found += [k for k in range(4) if np.array_equal(image, standardised(turns[k]).astype(np.float32))]
    assert len(found) == 6 and len(set(found)) > 1


def test_transformations_follow_from_seed_and_step_and_leave_the_generator_as_it_was(stand_in):
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    first = turned(4)
    assert torch.equal(torch.rand(3), expected)
    torch.manual_seed(12)
    assert torch.equal(first.inputs, turned(4).inputs)
    everything = batches({"randaugment": {}, "mixup": 0.4})
    assert the_same(everything.at(9), batches({"randaugment": {}, "mixup": 0.4}).at(9))
    alone = batches({"mixup": 0.4}).at(9)
    assert torch.equal(alone.targets[2], everything.at(9).targets[2])  # each draws by a key of its own


def test_other_steps_and_seeds_are_transformed_otherwise(stand_in):
    def transformations(step, seed):
        numbered = np.arange(8 * 3 * 144).reshape(8, 3, 12, 12) % 251
        augmentation = Augmentation(Augment(randaugment={}), seed)
        return augmentation.pixels(numbered.astype(np.uint8), step).tobytes()

    assert len({transformations(step, seed) for step in range(3) for seed in range(3)}) == 9


@pytest.mark.skipif(find_spec("torchvision") is None, reason="torchvision is an extra")
def test_torchvision_transforms_images_and_draws_what_is_asked():
    none, much = turned(5, operations=2, magnitude=0), turned(5, operations=2, magnitude=30)
    plain = batches().at(5)
    assert much.inputs.shape == plain.inputs.shape and much.inputs.isfinite().all()
    changed = [not torch.equal(a, b) for a, b in zip(much.inputs, plain.inputs, strict=True)]
    assert sum(changed) >= 4 and not torch.equal(none.inputs, much.inputs)
    assert torch.equal(much.inputs, turned(5, operations=2, magnitude=30).inputs)
