"""The check that the rules of a search derive a block of which a model of the space's kind can be made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ablate.block.catalogue import Branches, Catalogue, Sequenced
from ablate.block.classifier import MLP, mixes
from ablate.block.expression import Node, ValueAddress
from ablate.block.select import Selector
from ablate.block.value_addresses import ENCODER
from ablate.grammar.derivation import Template, contained
from ablate.source.located import to_python
from ablate.source.problems import Problems
from ablate.space.encoder import WITH_ENCODER
from ablate.space.space import Space
from ablate.space.variants import is_inside

KIND: Final = ("model", "kind")
START: Final = ("design", "search", "start")


def check_kind_of_search(space: Space, problems: Problems) -> None:
    """Report a search that can propose nothing: by its rules, no derivation fits the kind of the model.

    Where something else changes the kind, or puts into a block what decides it, each block is left to the search.
    """
    search, grammar = space.design.search, space.grammar
    if search is None or _changes_kind(space):
        return
    why = _misfit(grammar.derivations, space)
    if why is not None:
        others = [name for name, start in grammar.starts.items() if _misfit(start, space) is None]
        ways = [f"derive from another start (design.search.start): {', '.join(others)}"] if others else []
        ways.append("search rules of your own whose blocks fit it (grammar), or set another model.kind")
        message = f"a search of {grammar.name} can propose no block for model.kind {space.model.kind}: {why}"
        space.origins.add(problems, message, KIND, START, notes=ways)


def _misfit(derivations: Template, space: Space) -> str | None:
    """Return why no derivation fits the kind of the model; None if one may."""
    catalogue, kind = space.grammar.catalogue, space.model.kind
    if kind == MLP and not _changes_parts(space):
        mixing, _ = contained(derivations, lambda value: isinstance(value, Node) and mixes(catalogue[value.name]))
        return "all that its rules derive mixes the tokens of a sequence, and there is one token" if mixing else None
    if kind == WITH_ENCODER and not _names_encoder(space):
        _, reading = contained(derivations, lambda value: value == ValueAddress(ENCODER))
        return None if reading else f"nothing that its rules derive reads {ENCODER}"
    return None


def _changes_kind(space: Space) -> bool:
    """Return whether the model of the search may be of another kind than that of the space."""
    search = space.design.search
    assert search is not None
    changed = [address for address, _ in space.changes_of(search.from_)]
    return any(is_inside(".".join(KIND), each) for each in (*changed, *(f.address for f in search.vary.factors)))


def _set_in_block(space: Space) -> Iterator[tuple[Selector, str]]:
    """Yield the addresses that are set in each derived block, and what is set there as text."""
    search = space.design.search
    assert search is not None
    yield from ((override.address, str(to_python(override.value))) for override in space.overrides)
    yield from ((factor.selector, str(factor.values)) for factor in search.vary.factors if factor.in_block)


def _changes_parts(space: Space) -> bool:
    """Return whether a whole sequence of parts is set in each derived block."""
    names = {name for address, _ in _set_in_block(space) for name in address.fields[-1:]}
    return not names.isdisjoint(_of_sequences(space.grammar.catalogue))


def _of_sequences(catalogue: Catalogue) -> set[str]:
    """Return the names of the fields of components that are sequences of parts."""
    fields = (field for spec in catalogue for field in spec.fields.items())
    return {name for name, kind in fields if isinstance(kind, Sequenced | Branches)}


def _names_encoder(space: Space) -> bool:
    return any(ENCODER in text for _, text in _set_in_block(space))
