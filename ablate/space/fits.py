"""The checks that model, recipe, data, measurements and judge of a space fit one another, as it is and with changes."""

from __future__ import annotations

from ablate.block.catalogue import Catalogue
from ablate.source.problems import Problems
from ablate.space.augmentation import check_augmentation
from ablate.space.corpora import CorpusSpec
from ablate.space.design import Design
from ablate.space.documents import Data, Judge, Measure, Model, Recipe
from ablate.space.encoder import check_encoder
from ablate.space.further import check_ahead
from ablate.space.layouts import check_layout
from ablate.space.metrics import known_probes
from ablate.space.objective_fit import check_corpus, check_measure, check_objective
from ablate.space.objectives import ObjectiveSpec
from ablate.space.origin import Origins


def check_fits(
    model: Model | None,
    recipe: Recipe | None,
    data: Data | None,
    measure: Measure | None,
    judge: Judge | None,
    design: Design | None,
    catalogue: Catalogue,
    origins: Origins,
    problems: Problems,
) -> None:
    """Report what does not fit; of a section with a mistake, which is None, nothing is said here."""
    objectives = catalogue.of_kind(ObjectiveSpec)
    if model is not None:
        check_encoder(model, origins, problems)
    if model is not None and data is not None:
        check_layout(model, data, catalogue, origins, problems)
    if recipe is None:
        return
    if model is not None:
        check_ahead(model, recipe, origins, problems)
        check_objective(model, recipe, judge, design, objectives, origins, problems)
    if measure is not None:
        check_measure(recipe, measure, objectives, known_probes(catalogue), origins, problems)
    if data is not None:
        corpora = catalogue.of_kind(CorpusSpec)
        check_corpus(recipe, data, judge, design, objectives, corpora, origins, problems)
        check_augmentation(recipe, data, catalogue, origins, problems)
