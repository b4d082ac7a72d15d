"""From blocks to models at the sizes of a space, variants, and trials with their identities."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ablate.block.added import untold
from ablate.block.architecture import Architecture
from ablate.block.cost import Cost
from ablate.block.expression import Block
from ablate.block.fingerprint import digest, fingerprint
from ablate.block.normal_form import normalise
from ablate.errors import InputError
from ablate.output.words import ordinal
from ablate.plan.effective import effective_model, effective_recipe
from ablate.plan.hidden_future import check_hides_the_future
from ablate.plan.identity import computed, conditions_of, model_identity, trained_by, trial_id_of
from ablate.plan.plan import Variant
from ablate.plan.setting import PLAIN, Setting
from ablate.plan.size import cost
from ablate.plan.trial import HeldOut, Trial
from ablate.plan.tuned import Tuned, block_at, recipe_at
from ablate.source.problems import Problems
from ablate.space.changed import with_changes
from ablate.space.documents import Recipe
from ablate.space.fair import Tune
from ablate.space.space import Space
from ablate.space.variants import Changes


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenisedText:
    """What a plan knows of a corpus: its vocabulary, its fingerprint and, where measured, its repetition."""

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
        """The notes on the repetition, where a model uses it."""
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
        """Return the text that a treatment with these changes is trained on."""
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
        """Return the recipe of a model under a setting."""
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

        What tuning will choose, or how many steps a budget will give, is not known yet: then two recipes are the same
        only as they are written.
        """
        model = self.identity(block, setting)
        changed = self.at(setting.changes)
        if (changed.recipe, changed.data) == (self.space.recipe, self.space.data):
            return model
        recipe, usual = (self._described(space, block, setting) for space in (changed, self.space))
        if changed.data == self.space.data and recipe == usual:
            return model
        data = changed.data.model_dump(mode="json", exclude=untold(changed.data))
        return digest([model, recipe, data], 64)

    @property
    def _tunes(self) -> bool:
        return isinstance(self.space.fair.tune, Tune)

    def _described(self, space: Space, block: Block, setting: Setting) -> dict[str, Any]:
        """Return what the recipe of a space comes to, or that recipe where it is not known whole."""
        if self._tunes or setting.open:
            return space.recipe.model_dump(mode="json", exclude=untold(space.recipe))
        recipe = space.recipe.model_copy(update={"steps": setting.steps or space.recipe.steps})
        return effective_recipe(recipe, self.architecture(block, setting), self.space.grammar.catalogue)

    def cost(self, block: Block, setting: Setting = PLAIN) -> Cost:
        """Compute parameters and FLOPs; InputError where a component cannot be built or trained at these sizes."""
        if self.space.model.causal:
            check_hides_the_future(block, self.space.grammar.catalogue)
        self._check_ahead(setting)
        return cost(self.architecture(block, setting), self.space.grammar.catalogue)

    def _check_ahead(self, setting: Setting) -> None:
        """Raise InputError for a loss on tokens further ahead than a sequence is long."""
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
        """Make a variant of a block and its names, the first of which is shown. Its id is the block's fingerprint, or,
        where sizes, steps or salt are not the space's, one of its own; tuned values do not enter it.
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
        variants = {variant.id: variant for variant in variants}.values()
        architectures = {variant.id: self.architecture(variant.block, variant.setting) for variant in variants}
        models = {id: computed(architecture, catalogue) for id, architecture in architectures.items()}
        recipes = {variant.id: self.recipe(variant.setting) for variant in variants}
        spaces = {variant.id: self.at(variant.setting.changes) for variant in variants}
        texts = {variant.id: self.text(variant.setting.changes) for variant in variants}
        for seed in seeds:
            for variant in variants:
                trial = Trial(
                    id="",
                    variant=variant.id,
                    architecture=architectures[variant.id],
                    data=spaces[variant.id].data,
                    corpus=texts[variant.id].fingerprint,
                    folder=str(space.folder),
                    recipe=recipes[variant.id],
                    measure=space.measure,
                    seed=seed,
                    salt=variant.setting.salt,
                    threads=space.threads,
                    split=split,
                )
                training = trained_by(trial, catalogue)
                yield dataclasses.replace(
                    trial,
                    id=trial_id_of(trial, models[variant.id], training),
                    conditions=conditions_of(trial, training),
                )


def _expected(vocab_size: int) -> float:
    return min(1.0, math.pi**2 / (6 * math.log(max(2, vocab_size)) ** 2))
