"""A space with values changed at some of its addresses, read as the space itself is read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ablate.source.located import Mapping
from ablate.source.problems import Problems
from ablate.space.classifier import check_classifier
from ablate.space.corpora import CorpusSpec
from ablate.space.fits import check_fits
from ablate.space.layers import lay_on_space
from ablate.space.layouts import layout_of
from ablate.space.origin import Origins
from ablate.space.sections import Sections
from ablate.space.space import Space
from ablate.space.streamed import example_length, streamed
from ablate.space.variants import Change


def with_changes(space: Space, changes: Iterable[Change], problems: Problems) -> Space | None:
    """Return the space with its model, recipe and data changed; None after a mistake, which is then in `problems`.

    A corpus that is not changed stays the same text, however much of it the changed recipe reads.
    """
    located, before = space.located, len(problems)
    corpora = space.grammar.catalogue.of_kind(CorpusSpec)
    assert isinstance(located, Mapping)
    for change in changes:
        located = lay_on_space(located, change.document, space.grammar.space, corpora)
    sections = Sections(located, space.grammar, problems, Origins(located, space.path, space.origins.tokenizers))
    (model, around), recipe, data = sections.model(), sections.recipe(), sections.data()
    rest = space.measure, space.judge, space.design
    check_fits(model, recipe, data, *rest, space.grammar.catalogue, sections.origins, problems)
    if len(problems) > before or model is None or around is None or recipe is None or data is None:
        return None
    windows = space.measure.evaluation.windows
    length = example_length(space.model, space.recipe, space.grammar.catalogue)
    layout = layout_of(data, space.grammar.catalogue)
    read = streamed(data, space.recipe, length=length, windows=windows, layout=layout)
    changed = replace(space, located=located, model=model, around=around, recipe=recipe, data=read)
    check_classifier(changed, sections.origins, problems)
    return changed if len(problems) == before else None


def check_changes(space: Space, problems: Problems) -> None:
    """Report each change of a variant that a section refuses, or that has no effect."""
    for variant in space.variants.values():
        whole = with_changes(space, variant.changes, problems)
        if whole is None:
            continue
        for change in variant.changes:
            others = [other for other in variant.changes if other is not change]
            without = with_changes(space, others, Problems())
            if without is not None and decided(without) == decided(whole):
                message = f"{change.address} has no effect in variant {variant.name}: the space has this value already"
                problems.add(message, change.key.span, notes=("remove it, or set another value",))


def decided(space: Space) -> tuple[object, ...]:
    """Return what decides how a model is built and trained, apart from its block."""
    return space.model.model_dump(), space.around, space.recipe.model_dump(), space.data.model_dump()
