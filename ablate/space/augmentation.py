"""The check that what a recipe changes in images has images to change, and an objective that can learn from them."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from ablate.block.catalogue import Catalogue
from ablate.source.problems import Problems
from ablate.space.documents import Augment, Data, Recipe
from ablate.space.layouts import CORPORA, CORPUS, layout_of
from ablate.space.objectives import ObjectiveSpec
from ablate.space.origin import Keys, Origins

AUGMENT: Final[Keys] = ("recipe", "augment")
RANDAUGMENT: Final[Keys] = (*AUGMENT, "randaugment")
MIXUP: Final[Keys] = (*AUGMENT, "mixup")
LEFT: Final = "or leave it out"
CHANNELS: Final = (1, 3)
"""How many channels images have that torchvision transforms: grey, or colours."""


def check_augmentation(recipe: Recipe, data: Data, catalogue: Catalogue, origins: Origins, problems: Problems) -> None:
    """Report augmentation of what is no image, of images that it cannot change, and mixtures that cannot be learnt."""
    if recipe.augment == Augment():
        return
    layout = layout_of(data, catalogue)
    if layout is None or layout.kind != "images":
        message = f"recipe.augment changes images, but corpus {data.corpus.name} has none"
        origins.add(problems, message, AUGMENT, CORPUS, notes=(CORPORA["images"], LEFT))
        return
    if recipe.augment.randaugment is not None:
        if layout.dtype != "uint8" or layout.shape[0] not in CHANNELS:
            message = f"randaugment changes images of 1 or 3 channels (uint8), but {data.corpus.name} has {layout}"
            origins.add(problems, message, RANDAUGMENT, CORPUS, notes=("leave it out",))
        elif find_spec("torchvision") is None:
            message = "randaugment is done by torchvision, which is not installed"
            origins.add(problems, message, RANDAUGMENT, notes=("pip install 'ablate[images]'", LEFT))
    known = catalogue.of_kind(ObjectiveSpec)
    if recipe.augment.mixup and not known[recipe.objective.name].mixtures:
        able = [spec.name for spec in known.values() if spec.mixtures]
        message = f"mixup mixes the classes of two examples, which {recipe.objective.name} cannot learn"
        notes = (*(f"recipe.objective: {name}" for name in sorted(able)), LEFT)
        origins.add(problems, message, MIXUP, ("recipe", "objective"), notes=notes)
