"""Models: from the blocks of a space to its models at their sizes, as tuned, and from these to variants and trials."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from ablate.block.address import is_there
from ablate.block.architecture import Architecture
from ablate.block.catalogue import Catalogue, FieldType, Part, Several, additions_at_default, in_slot
from ablate.block.expression import Block, Node, Series, Value
from ablate.block.expression import Sequence as Parts
from ablate.block.normal_form import Canonical, digest, fingerprint, normalise
from ablate.block.sizes import Cost
from ablate.errors import InputError
from ablate.output.words import ordinal
from ablate.plan.identity import ModelTraining, effective_model, effective_recipe, model_identity
from ablate.plan.plan import PLAIN, HeldOut, Setting, Trial, Variant, conditions_of, trial_id
from ablate.plan.size import cost
from ablate.source.located import Mapping, Scalar
from ablate.source.problems import Problems
from ablate.source.yaml import overlay
from ablate.space.changes import with_changes
from ablate.space.fair import Plain, Tune, TunedField, text_of
from ablate.space.recipe import Recipe, RecipeReader
from ablate.space.space import Space
from ablate.space.variants import Changes, Override, with_value

# Tuned values: those of a setting, applied to the recipe and to the block.

Tuned: TypeAlias = tuple[tuple[str, Plain], ...]  # values by the names of their fields in `fair.tune`


def fields_of(tune: Tune, block: Block, recipe: Recipe, catalogue: Catalogue) -> tuple[TunedField, ...]:
    """Return the fields tuned for a block under a recipe: those that either of them has."""
    return tuple(
        field
        for field in tune.fields
        if (has_field(recipe, field) if field.path else is_there(block, field.address, catalogue))
    )


def has_field(recipe: Recipe, field: TunedField) -> bool:
    """Return whether a recipe has a field; a rate of one optimiser is none of another.

    A setting that came later is not in a recipe at its default, but a value of it was read when the field was.
    """
    value: Any = recipe.model_dump()
    steps = field.path[1:]
    if steps[:1] == ("optimizer",) and len(steps) == 3:
        steps = steps[:2]
    for step in steps:
        if not isinstance(value, dict) or step not in value:
            return False
        value = value[step]
    return True


def recipe_at(space: Space, tuned: Tuned) -> Recipe:
    chosen = [(field, field.at(value)) for field, value in _values_by_field(space, tuned) if field.path]
    if not chosen:
        return space.recipe
    over = Mapping((), chosen[0][0].key.span)
    for tuned_field, value in chosen:
        nested: Mapping | Any = value
        for step in reversed(tuned_field.path):
            nested = Mapping(((Scalar(step, step, tuned_field.key.span), nested),), tuned_field.key.span)
        over = overlay(over, nested)
    assert isinstance(space.located, Mapping)
    problems = Problems()
    recipe = RecipeReader(space.located, space.grammar, problems, space.origins).read_with(over, problems)
    problems.raise_if_any()
    assert recipe is not None
    return recipe


def block_at(space: Space, block: Block, tuned: Tuned, problems: Problems | None = None) -> Block:
    """Return a block with these values, where it has the fields. Raises Invalid for a bad value; `problems` say why."""
    chosen = [(field, value) for field, value in _values_by_field(space, tuned) if not field.path]
    reader = space.grammar.reader_for(Problems() if problems is None else problems)
    for tuned_field, value in chosen:
        block = with_value(block, Override(tuned_field.address, tuned_field.key, tuned_field.at(value)), reader)
    return normalise(block, space.grammar.catalogue) if chosen else block


def value_in(recipe: Recipe, field: TunedField) -> str:
    value: Any = recipe.model_dump()
    for step in field.path[1:]:
        value = value.get(step)
    return text_of(value)


def _values_by_field(space: Space, tuned: Tuned) -> Iterator[tuple[TunedField, Plain]]:
    tune = space.fair.tune
    if isinstance(tune, Tune):
        yield from ((tune.field(name), value) for name, value in tuned)


# Causality: whether a block hides later tokens, as it must to be trained on predicting them.
#
# A component declares that it `leaks` if it shows a query later tokens in a causal model. Of a list of masks a query
# sees what all of them show.

MASK_SLOT: Final = "mask"  # the slot of which a list shows what all of it shows


def check_hides_the_future(block: Block, catalogue: Catalogue) -> None:
    """Raise InputError for a block that shows a query later tokens: it has nothing to learn from predicting them."""
    if (name := next(leaking(block, catalogue), None)) is not None:
        raise InputError(
            f"{name} shows later tokens, but training predicts each next token: the model would see what it predicts\n"
            "  = replace it, as by mask: causal; such blocks can be shown and counted: ablate show BLOCK --space FILE"
        )


def leaking(block: Block, catalogue: Catalogue) -> Iterator[str]:
    """Yield the components that show later tokens; of a list of masks, all of which must show a key, only if all do."""
    return (name for part in block for name in _leaking_in(part, None, catalogue))


def _leaking_in(value: Value, kind: FieldType | None, catalogue: Catalogue) -> list[str]:
    match value:
        case Node(name=name, fields=fields):
            spec = catalogue[name]
            kinds = spec.fields if kind is None else {field: in_slot(each, kind) for field, each in spec.fields.items()}
            inside = [each for field, child in fields for each in _leaking_in(child, kinds[field], catalogue)]
            return [name, *inside] if getattr(spec.config, "leaks", False) else inside
        case Series():
            assert isinstance(kind, Several)
            return [each for child in value for each in _leaking_in(child, kind.of, catalogue)]
        case Parts() | tuple():
            found = [_leaking_in(child, None, catalogue) for child in value]
            together = isinstance(kind, Part) and kind.slot == MASK_SLOT
            return [] if together and not all(found) else [each for names in found for each in names]
    return []


# The models of a space: architecture, recipe, identity and cost of each block, its variants and its trials.


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenisedText:
    """A corpus as a plan needs it: its vocabulary, its fingerprint and, where measured, its repetition."""

    vocab_size: int
    fingerprint: str
    repetition: float | None = None


@dataclass(frozen=True)
class Models:
    """A space over a corpus of that vocabulary and fingerprint.

    `repetition` is that measured on the corpus, None where the corpus was not read: models that use it are then checked
    with the value that Zipf's law predicts (arXiv:2403.09635, App. A.1), and `notes` say so. `read` returns the text of
    a space whose treatments change its data or context, and `texts` are those that are known already.
    """

    space: Space
    vocab_size: int
    corpus: str
    repetition: float | None = None
    read: Callable[[Space], TokenisedText] | None = field(default=None, repr=False, compare=False)
    _changed: dict[Changes, Space] = field(default_factory=dict, repr=False, compare=False)
    _identities: dict[tuple[Block, Setting], str] = field(default_factory=dict, repr=False, compare=False)
    texts: dict[Changes, TokenisedText] = field(default_factory=dict, repr=False, compare=False)

    @property
    def notes(self) -> tuple[str, ...]:
        if not self.space.names_repetition:
            return ()
        if self.repetition is None:
            expected = f"{_expected(self.vocab_size):.4f}, as predicted by Zipf's law"
            return (f"repetition is not known before the corpus is read: checked with {expected}",)
        length = f"{self.space.model.context} tokens of the training split"
        return (f"repetition, measured in sequences of {length}: {self.repetition:.4f}",)

    def at(self, changes: Changes) -> Space:
        """Return the space with these changes; InputError where it refuses them together."""
        if not changes:
            return self.space
        if changes not in self._changed:
            problems = Problems()
            changed = with_changes(self.space, self.space.written_changes(changes), problems)
            problems.raise_if_any()
            assert changed is not None
            self._changed[changes] = changed
        return self._changed[changes]

    def text(self, changes: Changes) -> TokenisedText:
        changed = self.at(changes)
        context = changed.model.context != self.space.model.context and changed.names_repetition
        if changed.data == self.space.data and not context:
            return TokenisedText(vocab_size=self.vocab_size, fingerprint=self.corpus, repetition=self.repetition)
        if changes not in self.texts:
            assert self.read is not None, "a plan with other texts is built with a way to read them"
            self.texts[changes] = self.read(changed)
        return self.texts[changes]

    def architecture(self, block: Block, setting: Setting = PLAIN) -> Architecture:
        """Return the model around a block, with the changes of a treatment and the values that tuning chose."""
        space, text, repetition = self.at(setting.changes), self.text(setting.changes), None
        if space.names_repetition:
            repetition = _expected(text.vocab_size) if text.repetition is None else text.repetition
        plain = space.architecture(block_at(space, block, setting.tuned), text.vocab_size, repetition)
        sizes = plain.sizes
        layers, width = setting.layers or sizes.n_layers, setting.width or sizes.d_model
        return dataclasses.replace(plain, sizes=dataclasses.replace(sizes, n_layers=layers, d_model=width))

    def recipe(self, setting: Setting = PLAIN) -> Recipe:
        recipe = recipe_at(self.at(setting.changes), setting.tuned)
        return recipe.model_copy(update={"steps": setting.steps or recipe.steps})

    def identity(self, block: Block, setting: Setting = PLAIN) -> str:
        """Return a hash that is equal for blocks that are the same model, at the sizes of the space or setting."""
        if (block, setting) not in self._identities:
            described_by = model_identity if self._tunes else effective_model
            described = described_by(self.architecture(block, setting), self.space.grammar.catalogue)
            self._identities[block, setting] = digest(described, 64)
        return self._identities[block, setting]

    def as_written(self, block: Block, setting: Setting = PLAIN) -> str:
        """Return a hash that is equal for blocks that are built alike, for what is measured of them: seconds."""
        return digest(model_identity(self.architecture(block, setting), self.space.grammar.catalogue), 64)

    def treatment(self, block: Block, setting: Setting = PLAIN) -> str:
        """Return a hash that is equal for what is the same model, trained in the same way on the same text.

        Until tuning and budgets are known, two recipes are the same only as they are written.
        """
        model = self.identity(block, setting)
        changed = self.at(setting.changes)
        if (changed.recipe, changed.data) == (self.space.recipe, self.space.data):
            return model
        recipe, usual = (self._described(space, block, setting) for space in (changed, self.space))
        if changed.data == self.space.data and recipe == usual:
            return model
        data = changed.data.model_dump(mode="json", exclude=additions_at_default(changed.data))
        return digest([model, recipe, data], 64)

    @property
    def _tunes(self) -> bool:
        return isinstance(self.space.fair.tune, Tune)

    def _described(self, space: Space, block: Block, setting: Setting) -> dict[str, Canonical]:
        """The recipe of a space by its effect, or as it is written where it is not known whole."""
        if self._tunes or setting.open:
            return space.recipe.model_dump(mode="json", exclude=additions_at_default(space.recipe))
        recipe = space.recipe.model_copy(update={"steps": setting.steps or space.recipe.steps})
        return effective_recipe(recipe, self.architecture(block, setting), self.space.grammar.catalogue)

    def cost(self, block: Block, setting: Setting = PLAIN) -> Cost:
        """Compute parameters and FLOPs; InputError where a component cannot be built or trained at these sizes."""
        if self.space.model.causal:
            check_hides_the_future(block, self.space.grammar.catalogue)
        self._check_ahead(setting)
        return cost(self.architecture(block, setting), self.space.grammar.catalogue)

    def _check_ahead(self, setting: Setting) -> None:
        space = self.at(setting.changes)
        furthest = len(space.recipe.loss.ahead) + 1
        if furthest > space.model.context:
            raise InputError(
                f"recipe.loss.ahead weighs the {ordinal(furthest)} token ahead, but a sequence has "
                f"{space.model.context}\n"
                "  = give fewer weights, or a longer model.context"
            )

    def variant(
        self,
        names: Sequence[str],
        block: Block,
        edits: tuple[str, ...],
        counted: Cost,
        setting: Setting = PLAIN,
        terms: tuple[str, ...] = (),
    ) -> Variant:
        """Make a variant of a block; the first of its names is shown.

        Its id is the block's fingerprint, or, where sizes, steps or salt are not the space's, one of its own; tuned
        values do not enter it.
        """
        catalogue = self.space.grammar.catalogue
        mark, trained = fingerprint(block, catalogue), block_at(self.space, block, setting.tuned)
        if not setting.plain:
            own: list[object] = [setting.layers, setting.width, setting.steps, setting.salt]
            own += ["open"] if setting.open else []
            own += [[address, value] for address, value in setting.changes]
            mark = digest([mark, *own], len(mark))
        return Variant(
            id=mark,
            names=tuple(dict.fromkeys(names)),
            block=normalise(block, catalogue),
            edits=edits,
            parameters=counted.parameters,
            flops=counted.flops,
            spared=counted.spared,
            setting=setting,
            terms=terms,
            breaks=tuple((broken.name, broken.because) for broken in self.space.tolerated(trained)),
        )

    def tuned(self, variant: Variant, tuned: Tuned) -> Variant:
        """Return the variant with the values that tuning chose, and the parameters, FLOPs and breaks it then has."""
        setting = dataclasses.replace(variant.setting, tuned=tuned)
        if block_at(self.space, variant.block, tuned) == variant.block:
            return dataclasses.replace(variant, setting=setting)
        like = self.variant(variant.names, variant.block, variant.edits, self.cost(variant.block, setting), setting)
        return dataclasses.replace(like, id=variant.id, terms=variant.terms)

    def trials(self, variants: Iterable[Variant], seeds: Sequence[int], split: HeldOut = "verdict") -> Iterator[Trial]:
        """Yield trials seed by seed, so that an interrupted run has complete pairs; evaluated on `split`."""
        space, catalogue = self.space, self.space.grammar.catalogue
        unseeded: list[tuple[Trial, dict[str, Canonical]]] = []
        for variant in {variant.id: variant for variant in variants}.values():
            work = ModelTraining(
                architecture=self.architecture(variant.block, variant.setting),
                data=self.at(variant.setting.changes).data,
                corpus=self.text(variant.setting.changes).fingerprint,
                folder=str(space.folder),
                recipe=self.recipe(variant.setting),
                measure=space.measure,
                threads=space.threads,
            )
            trial = Trial(id="", variant=variant.id, work=work, seed=0, salt=variant.setting.salt, split=split)
            trial = dataclasses.replace(trial, conditions=conditions_of(trial, work.conditions(catalogue)))
            unseeded.append((trial, work.identity(catalogue)))
        for seed in seeds:
            for trial, identity in unseeded:
                seeded = dataclasses.replace(trial, seed=seed)
                yield dataclasses.replace(seeded, id=trial_id(seeded, identity))


def _expected(vocab_size: int) -> float:
    return min(1.0, math.pi**2 / (6 * math.log(max(2, vocab_size)) ** 2))
