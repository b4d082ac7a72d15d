"""Changes: a space with values changed at some of its addresses, read and checked as the space itself is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Final, TypeAlias

from ablate.block.address import ENCODER, Selector, is_there, parts_by_name, value_at
from ablate.block.architecture import BLOCK, CLASSIFIERS, MLP, Architecture, faults, mixes
from ablate.block.arithmetic import Expression, parse
from ablate.block.catalogue import Branches, Catalogue, Sequenced
from ablate.block.expression import Block, Node, Value, ValueAddress, walk
from ablate.block.expression import Sequence as Parts
from ablate.block.normal_form import normalise
from ablate.block.reader import Invalid
from ablate.extension.declaration import PACKAGE
from ablate.grammar.derivation import Template, contained
from ablate.source.located import Mapping, Scalar, to_python
from ablate.source.problems import Problem, Problems
from ablate.space.data import CorpusSpec, DataReader
from ablate.space.design import Factorial, Pruner, Search, SizeLadderDesign
from ablate.space.fair import Match, text_of
from ablate.space.fits import check_fits, example_length, layout_of, streamed
from ablate.space.metrics import LOSSES
from ablate.space.model import WITH_ENCODER, ModelReader
from ablate.space.overlay import Keys, Origins, lay_on_space
from ablate.space.recipe import RecipeReader
from ablate.space.space import Space, drawn_blocks
from ablate.space.tuning import note_absent
from ablate.space.variants import Change, is_inside, overlap, with_value
from ablate.space.vary import FEWEST_SIZES, FactorLevel, LadderSize, VariedAddress


def with_changes(space: Space, changes: Iterable[Change], problems: Problems) -> Space | None:
    """Return the space with its model, recipe and data changed; None after a mistake, which is then in `problems`.

    A corpus that is not changed stays the same text, however much of it the changed recipe reads.
    """
    located, before = space.located, len(problems)
    corpora = space.grammar.catalogue.of_kind(CorpusSpec)
    assert isinstance(located, Mapping)
    for change in changes:
        located = lay_on_space(located, change.document, space.grammar.space, corpora)
    origins = Origins(located, space.path, space.origins.tokenizers)
    resolved = (located, space.grammar, problems, origins)
    model, around = ModelReader(*resolved).read()
    recipe, data = RecipeReader(*resolved).read(), DataReader(*resolved).read()
    rest = space.measure, space.judge, space.design
    check_fits(model, recipe, data, *rest, space.grammar.catalogue, origins, problems)
    if len(problems) > before or model is None or around is None or recipe is None or data is None:
        return None
    windows = space.measure.evaluation.windows
    length = example_length(space.model, space.recipe, space.grammar.catalogue)
    layout = layout_of(data, space.grammar.catalogue)
    read = streamed(data, space.recipe, length=length, windows=windows, layout=layout)
    changed = replace(space, located=located, model=model, around=around, recipe=recipe, data=read)
    check_classifier(changed, origins, problems)
    return changed if len(problems) == before else None


def check_changes(space: Space, problems: Problems) -> None:
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
    """The values that decide how a model is built and trained, apart from its block."""
    return space.model.model_dump(), space.around, space.recipe.model_dump(), space.data.model_dump()


# Models of images or of features: they fit their data, no other has what only they have, and nothing is set of which
# they compute nothing

COUNTS_HEADS: Final = frozenset({"heads", "head_width"})
MEAN_POOLING: Final = "mean"
STD_OF_EMBEDDING: Final = ("model", "embedding", "std")


def check_classifier(space: Space, origins: Origins, problems: Problems) -> None:
    """Report values that do not fit the kind of a space's model; of its blocks, a plan reports them."""
    whole = [space.architecture(block, vocab_size=1) for block in space.blocks.values()]
    for architecture in whole[:1]:
        for fault in faults(architecture, space.grammar.catalogue):
            if fault.field != BLOCK:
                paths = (("model", fault.field), ("model", "kind"))
                origins.add(problems, fault.message, *paths, notes=(fault.way_out,))
    if space.model.kind in CLASSIFIERS:
        for path, message, way_out in _without_effect(space, whole):
            origins.add(problems, message, path, ("model", "kind"), notes=(way_out,))


def _without_effect(space: Space, whole: list[Architecture]) -> Iterator[tuple[Keys, str, str]]:
    """Yield values that are set and compute nothing: a treatment by one would compare a model with itself."""
    model, catalogue = space.model, space.grammar.catalogue
    if model.kind == MLP and model.heads != 1 and not any(_counts_heads(each, catalogue) for each in whole):
        message = f"model.heads is {model.heads}, but a model of kind {MLP} has one token, and no attention"
        yield ("model", "heads"), message, "set it to 1"
    plain = _plain_std(space)
    if plain is None or model.embedding.std == plain or not (model.kind == MLP or model.pooling == MEAN_POOLING):
        return
    what = MLP if model.kind == MLP else f"{model.kind} with pooling: {model.pooling}"
    std = model.embedding.std.text
    message = f"model.embedding.std is {std}, but a model of kind {what} has nothing that starts at it"
    yield STD_OF_EMBEDDING, message, f"set it to {plain.text}; what reads the input starts as model.init says"


def _plain_std(space: Space) -> Expression | None:
    if space.grammar.space is None:
        return None
    written = Origins(space.grammar.space, space.grammar.path).written(*STD_OF_EMBEDDING)
    value = written.value if isinstance(written, Scalar) else None
    return parse(value) if isinstance(value, int | float | str) else None


def _counts_heads(architecture: Architecture, catalogue: Catalogue) -> bool:
    """Return whether anything but attention may depend on model.heads: arithmetic, an init, a component of a user."""
    nodes = list(walk(Parts((*architecture.block, *architecture.around()))))
    by_head = any(("per_head", True) in node.fields for node in nodes)
    foreign = any(not catalogue[node.name].path.is_relative_to(PACKAGE) for node in nodes)
    return by_head or foreign or not COUNTS_HEADS.isdisjoint(architecture.names())


# Factors of a factorial: each value is one, and each level another model

SET_TWICE = "it would be set twice"

Read: TypeAlias = "list[tuple[FactorLevel, object]]"  # the levels of a factor, each with the values that it comes to


def check_vary(space: Space, problems: Problems) -> None:
    design = space.design.factorial
    if design is None or not design.vary.factors:
        return
    ends = tuple(space.blocks[name] for name in space.design.blocks)
    for factor in design.vary.factors:
        before = len(problems)
        if factor.in_block:
            _check_beside_edits(factor, design, space, problems)
        else:
            _check_factor_beside_variants(factor, design, space, problems)
        if len(problems) == before:
            read = _levels(factor, ends, space, problems)
            if len(problems) == before:
                check_different(factor, read, problems)
    check_parts(design.vary.factors, ends, space, problems)


def _check_factor_beside_variants(factor: VariedAddress, design: Factorial, space: Space, problems: Problems) -> None:
    for name, change in _changes_of(dict.fromkeys((design.from_, design.to)), space):
        if overlap(change.address, factor.address):
            message = f"{factor.address} is varied, and {name} sets {change.address}: {SET_TWICE}"
            notes = (f"remove it from variant {name}, or from vary",)
            problems.add(message, factor.key.span, notes=notes, also=((change.key.span, "beside this"),))


def _changes_of(names: Iterable[str], space: Space) -> Iterator[tuple[str, Change]]:
    return ((name, change) for name in names if name in space.variants for change in space.variants[name].changes)


def _check_beside_edits(factor: VariedAddress, design: Factorial, space: Space, problems: Problems) -> None:
    """Report a field of the block that has one value at the start and another at the end."""
    before, after = (_values_at(factor, space.blocks[name], space) for name in (design.from_, design.to))
    if before and after and before != after:
        message = f"{factor.address} is varied, and also an edit from {design.from_} to {design.to}: {SET_TWICE}"
        notes = ("remove it from vary, or let both blocks have the same value there",)
        problems.add(message, factor.key.span, notes=notes)


def _values_at(factor: VariedAddress, block: Block, space: Space) -> set[Value]:
    normal, fields = normalise(block, space.grammar.catalogue), factor.selector.fields
    parts = parts_by_name(normal, space.grammar.catalogue)
    return {v for name, node in parts if fnmatchcase(name, factor.selector.part) for v in value_at(node, fields)}


def levels_around(factor: VariedAddress, space: Space, problems: Problems) -> Read:
    """Read the space with each level.

    One that does not fit another value of the space is no mistake: runs that have both are left out, with the reason.
    """
    found: Read = []
    at_key: list[Problem] = []
    for level in factor.levels:
        mistakes = Problems()
        changed = with_changes(space, [factor.change(level)], mistakes)
        for mistake in mistakes:
            if mistake.is_at([level.written.span]):
                problems.append(mistake)
            elif mistake.is_at([factor.key.span, *(word.span for word in factor.words)]):
                at_key.append(mistake)
        if changed is not None:
            found.append((level, decided(changed)))
    if not found:
        for mistake in at_key:
            problems.append(mistake)
    return found


def levels_in_block(factor: VariedAddress, blocks: Sequence[Block], space: Space, problems: Problems) -> Read:
    """Apply each level to those of the blocks that have its field; a problem if none has."""
    catalogue = space.grammar.catalogue
    there = [block for block in blocks if is_there(block, factor.selector, catalogue)]
    if not there:
        note_absent(factor.selector, factor.words, factor.key, blocks, catalogue, problems, "vary")
        return []
    reader = space.grammar.reader_for(problems)
    found: Read = []
    for level in factor.levels:
        try:
            changed = [with_value(block, factor.override(level), reader) for block in there]
        except Invalid:
            continue
        found.append((level, [normalise(block, catalogue) for block in changed]))
    return found


def check_different(factor: VariedAddress, read: Read, problems: Problems) -> None:
    """Report levels that come to the same; if all do, the factor has no effect."""
    if len(read) > 1 and all(one == read[0][1] for _, one in read):
        notes = ("remove it, or list other values",)
        message = f"vary of {factor.address} has no effect: all its levels come to the same"
        problems.add(message, factor.key.span, notes=notes)
        return
    for level, one in read:
        first = next(other for other, another in read if another == one)
        if first is not level:
            message = f"{text_of(level.value)} in vary of {factor.address} is the same as {text_of(first.value)}"
            also = ((first.written.span, "listed here"),)
            problems.add(message, level.written.span, notes=("list each value once",), also=also)


def check_parts(factors: Sequence[VariedAddress], blocks: Sequence[Block], space: Space, problems: Problems) -> None:
    """Report two factors that set the same field of one part: `residual.gain` and `attention_residual.gain`."""
    inside = [factor for factor in factors if factor.in_block]
    for place, factor in enumerate(inside):
        for other in inside[:place]:
            if set(_parts_set(factor, blocks, space)) & set(_parts_set(other, blocks, space)):
                message = f"{factor.address} and {other.address} set the same value"
                also = ((other.key.span, "beside this"),)
                problems.add(message, factor.key.span, notes=("keep one of them",), also=also)


def _parts_set(factor: VariedAddress, blocks: Sequence[Block], space: Space) -> Iterator[tuple[str, tuple[str, ...]]]:
    for block in blocks:
        for name, node in parts_by_name(block, space.grammar.catalogue):
            if fnmatchcase(name, factor.selector.part) and value_at(node, factor.selector.fields):
                yield name, factor.selector.fields


# Checks of the sizes of a ladder: each is a size, and a law can be fitted to them

DECIDE_TOKENS = ("recipe.batch", "recipe.batch_ramp", "model.context")
"""The addresses that decide how many tokens a step has, and which of them the first batch."""


def check_ladder(space: Space, problems: Problems) -> None:
    """Report sizes that the space refuses or has twice, and all that keeps a ladder from having a law."""
    ladder = space.design.ladder
    if ladder is None:
        return
    _check_ladder_judged(ladder, space, problems)
    _check_number_of_sizes(ladder, space, problems)
    _check_next_size(ladder, space, problems)
    _check_sizes_beside_variants(ladder, space, problems)
    _check_each_size(ladder, space, problems)


def _check_ladder_judged(ladder: SizeLadderDesign, space: Space, problems: Problems) -> None:
    baseline = space.judge.against
    if baseline not in ladder.compare:
        message = f"a ladder is of its baseline too, and {baseline} is not one of {', '.join(ladder.compare)}"
        notes = (f"add {baseline} to compare, or judge against {ladder.compare[0]}",)
        problems.add(message, space.origins.value("judge", "against"), notes=notes)
    if not set(space.judge.metrics) & set(LOSSES):
        notes = (f"judge one of: {', '.join(LOSSES)}",)
        message = "a ladder fits laws of a loss, and none is judged"
        problems.add(message, space.origins.key("judge", "metrics"), notes=notes)
    if space.auto is not None:
        message = "a ladder fits its laws once, to fixed seeds: it adds none"
        problems.add(message, space.origins.section("seeds"), notes=("give a number: seeds: 5",))
    elif len(space.seeds) < 2:
        message = "a ladder needs two seeds or more at each size: its intervals are of their noise"
        problems.add(message, space.origins.section("seeds"), notes=("such as seeds: 3",))


def _check_number_of_sizes(ladder: SizeLadderDesign, space: Space, problems: Problems) -> None:
    fewest, sizes = FEWEST_SIZES[ladder.law], len(ladder.sizes.sizes)
    if sizes < fewest:
        message = f"the {ladder.law} law takes {fewest} sizes or more, got {sizes}"
        notes = ["list more sizes"] + ["or set law: power, which takes 3"] * (ladder.law != "power" and sizes == 3)
        problems.add(message, space.origins.key("design", "ladder", "sizes"), notes=(", ".join(notes),))


def _check_next_size(ladder: SizeLadderDesign, space: Space, problems: Problems) -> None:
    """Report a next size whose compute would follow from a match or a budget: it is counted, and not fitted to them."""
    terms = space.fair.terms.values()
    addresses = [change.address for _, change in _changes_of(ladder.compare, space)]
    other_tokens = any(is_inside(address, deciding) for address in addresses for deciding in DECIDE_TOKENS)
    refit = ("flops", "wallclock", *(["tokens"] if other_tokens else []))
    if ladder.sizes.next is not None and any(isinstance(each.match, Match) or each.budget in refit for each in terms):
        message = "next is counted as it is written, and fair would change its size or its steps"
        notes = ("leave next out: the next size is then as far above the last as that is above the one before",)
        problems.add(message, space.origins.key("design", "ladder", "next"), notes=notes)


def _check_sizes_beside_variants(ladder: SizeLadderDesign, space: Space, problems: Problems) -> None:
    for name, change in _changes_of(ladder.compare, space):
        other = next((other for other in ladder.sizes.changes if overlap(change.address, other.address)), None)
        if other is not None:
            message = f"{other.address} is set by a size, and {name} sets {change.address}: {SET_TWICE}"
            notes = (f"remove it from variant {name}, or from the sizes",)
            problems.add(message, other.key.span, notes=notes, also=((change.key.span, "beside this"),))


def _add_of_size(mistakes: Problems, size: LadderSize, problems: Problems) -> None:
    """Report mistakes in the values of a size where these are, and what does not fit it at the whole size."""
    own = [span for change in size.changed for span in (change.written.span, *(word.span for word in change.path))]
    for mistake in mistakes:
        if mistake.is_at(own):
            problems.append(mistake)
        else:
            message = f"the size {size.name} does not fit: {mistake.message}"
            problems.add(message, size.written.span, notes=mistake.notes)


def _check_each_size(ladder: SizeLadderDesign, space: Space, problems: Problems) -> None:
    seen: list[tuple[LadderSize, object]] = []
    for size in ladder.sizes.every:
        mistakes = Problems()
        changed = with_changes(space, size.changed, mistakes)
        if changed is None:
            _add_of_size(mistakes, size, problems)
            continue
        came_to = decided(changed)
        first = next((other for other, another in seen if another == came_to), None)
        if first is not None:
            also = ((first.written.span, "the same as this"),)
            message, notes = f"the size {size.name} is there twice", ("list each size once",)
            problems.add(message, size.written.span, notes=notes, also=also)
        seen.append((size, came_to))


# Checks of what a search varies: that each value is one its address takes, and that a search can compare the models.
#
# Of a range three numbers are read: its ends and the first between them, which is a fraction unless a step is given.
# A combination of values that do not fit together is no mistake: the search refuses it, as it refuses a block.

DATA = "data."
MEASURED_AT_START = ("start_loss", "start_gradient_norm")
"""The numbers that are measured on the first batch before a block is trained."""


def check_searched_values(space: Space, problems: Problems) -> None:
    check_kind_of_search(space, problems)
    search = space.design.search
    if search is None or not search.vary.factors:
        return
    blocks = _blocks_with_fields(search, space)
    for factor in search.vary.factors:
        before = len(problems)
        _check_comparable(factor, search, problems)
        if len(problems) == before:
            read = _levels_read(factor, blocks, space, problems)
            if len(problems) == before:
                check_different(replace(factor, levels=tuple(level for level, _ in read)), read, problems)
    check_parts(search.vary.factors, blocks, space, problems)


def _blocks_with_fields(search: Search, space: Space) -> tuple[Block, ...]:
    """Return the reference, and for each field that it does not have a block of the grammar that has it."""
    reference, catalogue = space.blocks[search.from_], space.grammar.catalogue
    absent = [f for f in search.vary.factors if f.in_block and not is_there(reference, f.selector, catalogue)]
    drawn = drawn_blocks(space.grammar) if absent else ()
    found = (next((b for b in drawn if is_there(b, f.selector, catalogue)), None) for f in absent)
    return (reference, *dict.fromkeys(block for block in found if block is not None))


def _check_comparable(factor: VariedAddress, search: Search, problems: Problems) -> None:
    span = factor.key.span
    if factor.address.startswith(DATA):
        message = f"a search trains all that it proposes on the same text: {factor.address} cannot be varied"
        notes = ("compare texts by a factorial: factorial: {from: …, vary: {data.tokenizer: […]}}",)
        problems.add(message, span, notes=notes)
    if factor.address == "recipe.steps" and isinstance(search.pruner, Pruner):
        message = "recipe.steps is varied, but the rungs of the pruner are the same steps for all that is proposed"
        problems.add(message, span, notes=("set pruner: none, or remove recipe.steps from vary",))
    measured = [by for by in search.beforehand.veto if by in MEASURED_AT_START]
    measured += [order.by] if (order := search.beforehand.order) is not None and order.by in MEASURED_AT_START else []
    if measured and any(is_inside(factor.address, address) for address in DECIDE_TOKENS):
        message = f"{factor.address} is varied, but {measured[0]} is measured on one batch for all that is proposed"
        problems.add(message, span, notes=("remove it from vary, or veto and order by parameters or flops",))


def _levels_read(factor: VariedAddress, blocks: tuple[Block, ...], space: Space, problems: Problems) -> Read:
    """Read the levels; of a range its ends and one number between them."""
    if factor.range is None:
        return _levels(factor, blocks, space, problems)
    before = len(problems)
    ends = _levels(replace(factor, levels=(factor.levels[0], factor.levels[-1])), blocks, space, problems)
    if len(problems) > before:
        return ends
    mistakes = Problems()
    within = _levels(replace(factor, levels=factor.levels[1:2]), blocks, space, mistakes)
    for mistake in mistakes:
        problems.append(_in_range(mistake, factor))
    return [*ends[:1], *within, *ends[1:]]


def _levels(factor: VariedAddress, blocks: tuple[Block, ...], space: Space, problems: Problems) -> Read:
    if factor.in_block:
        return levels_in_block(factor, blocks, space, problems)
    return levels_around(factor, space, problems)


def _in_range(mistake: Problem, factor: VariedAddress) -> Problem:
    """Add the way out of a mistake about a number between the ends: a step between numbers that are accepted."""
    assert factor.range is not None
    step = factor.range.step
    ends = [end.value for end in (factor.range.low, factor.range.high)]
    if step is not None:
        return replace(mistake, span=step.span, notes=(*mistake.notes, "give another step, or list the values"))
    if all(isinstance(end, int) for end in ends):
        return replace(mistake, notes=(*mistake.notes, "for whole numbers give a step: step: 1"))
    return replace(mistake, notes=(*mistake.notes, "list the values that are possible"))


# Rules of a search: they derive a block of which a model of the space's kind can be made

KIND_OF_MODEL: Final = ("model", "kind")
START_OF_SEARCH: Final = ("design", "search", "start")


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
        space.origins.add(problems, message, KIND_OF_MODEL, START_OF_SEARCH, notes=ways)


def _misfit(derivations: Template, space: Space) -> str | None:
    """Return the reason if no derivation fits the kind of the model; None if one may."""
    catalogue, kind = space.grammar.catalogue, space.model.kind
    if kind == MLP and not _changes_parts(space):
        mixing, _ = contained(derivations, lambda value: isinstance(value, Node) and mixes(catalogue[value.name]))
        return "all that its rules derive mixes the tokens of a sequence, and there is one token" if mixing else None
    if kind == WITH_ENCODER and not any(ENCODER in text for _, text in _set_in_block(space)):
        _, reading = contained(derivations, lambda value: value == ValueAddress(ENCODER))
        return None if reading else f"nothing that its rules derive reads {ENCODER}"
    return None


def _changes_kind(space: Space) -> bool:
    search = space.design.search
    assert search is not None
    changed = [address for address, _ in space.changes_of(search.from_)]
    return any(
        is_inside(".".join(KIND_OF_MODEL), each) for each in (*changed, *(f.address for f in search.vary.factors))
    )


def _set_in_block(space: Space) -> Iterator[tuple[Selector, str]]:
    """Yield the addresses that are set in each derived block, each with the value as text."""
    search = space.design.search
    assert search is not None
    yield from ((override.address, str(to_python(override.value))) for override in space.overrides)
    yield from ((factor.selector, str(factor.values)) for factor in search.vary.factors if factor.in_block)


def _changes_parts(space: Space) -> bool:
    names = {name for address, _ in _set_in_block(space) for name in address.fields[-1:]}
    fields = [field for spec in space.grammar.catalogue for field in spec.fields.items()]
    return any(name in names for name, kind in fields if isinstance(kind, Sequenced | Branches))
