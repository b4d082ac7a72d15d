"""The contract of an objective, to inherit: four checks on batches of random tokens and random logits.

    from ablate.testing import ObjectiveContract

    class TestPreviousToken(ObjectiveContract):
        plugins = ("previous_token.py",)
        objective = "previous_token"

pytest finds the tests of such a class; without pytest, `TestPreviousToken().check_all()` runs them. The objective is
written as in `recipe.objective`. One that is not made of text sets `drawn`, and `output` where it wants no logits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ablate import api
from ablate.block.sizes import Sizes
from ablate.data.batch import Batch, Tensors, first
from ablate.data.uniform import Uniform
from ablate.extension.kinds import OBJECTIVE
from ablate.extension.loader import implementation
from ablate.source.problems import Problems
from ablate.source.yaml import parse_yaml
from ablate.space.choice import read_choice
from ablate.space.documents import Loss
from ablate.space.objectives import ObjectiveSpec
from ablate.space.ways import HINTS
from ablate.train.microbatches import BatchShares
from ablate.train.objectives.declare import Given, Objective, Settings

EXAMPLES = 6
PARTS = (2, 4)


class ObjectiveContract:
    """Four tests of one objective: `objective` is YAML, `plugins` are the files to read.

    `sizes` are those of the model; the special tokens that the objective needs are added to its vocabulary.
    """

    objective: str = ""
    plugins: Sequence[str | Path] = ()
    sizes: Sizes = Sizes(n_layers=1, d_model=8, n_heads=2, seq_len=12, source_len=12, vocab_size=11, causal=False)

    def test_a_batch_follows_from_what_is_drawn_and_a_key(self) -> None:
        """The same draw and key make the same batch, of as many examples as were drawn."""
        once, again = (self._made.batch(self.drawn(), Uniform("one")) for _ in range(2))
        for side in ("inputs", "targets"):
            pairs = zip(_several(getattr(once, side)), _several(getattr(again, side)), strict=True)
            assert all(torch.equal(a, b) for a, b in pairs), f"the {side} of two batches of one draw and key differ"
            lengths = {len(tensor) for tensor in _several(getattr(once, side))}
            assert lengths == {EXAMPLES}, f"its {side} are {lengths} examples, but {EXAMPLES} were drawn"

    def test_parts_add_up_to_the_batch(self) -> None:
        """Each term of a batch is the sum of those of its parts, weighted by their shares of its targets."""
        batch = self._batch()
        whole = self._terms(batch, 1)
        for parts in PARTS:
            for place, value in self._terms(batch, parts).items():
                near = abs(value - whole[place]) <= 1e-12 * max(1, abs(whole[place]))
                assert near, f"{place or 'the loss'} is {whole[place]} at once, {value} in {parts} parts"

    def test_an_evaluation_measures_what_it_declares(self) -> None:
        """It measures eval_loss, which is the loss, and declared numbers; their sums do not depend on parts."""
        batch, measured = self._batch(), dict(self._made.measured)
        assert next(iter(measured)) == "eval_loss", f"eval_loss must come first, but it is {next(iter(measured))}"
        unknown = set(measured) - {"eval_loss", *self.spec.measures}
        assert not unknown, f"measured, but not declared: {', '.join(sorted(unknown))}"
        counts = self._made.targets(batch)
        assert set(measured.values()) <= set(counts), f"no number of targets for {set(measured.values()) - set(counts)}"
        whole = self._measured(batch, 1)
        assert len(whole) == len(measured), f"{len(whole)} numbers for the metrics {', '.join(measured)}"
        loss = self._terms(batch, 1)[""]
        same = abs(whole[0] / counts[measured["eval_loss"]] - loss) <= 1e-9 * max(1, abs(loss))
        assert same, f"eval_loss is {whole[0] / counts[measured['eval_loss']]}, but the loss is {loss}"
        for parts in PARTS:
            found = self._measured(batch, parts)
            near = all(abs(a - b) <= 1e-9 * max(1, abs(a)) for a, b in zip(whole, found, strict=True))
            assert near, f"sums differ over {parts} parts: {whole}, {found}"

    def test_every_term_has_a_finite_gradient(self) -> None:
        """The gradient of each term is finite, and that of the loss is not 0."""
        batch = self._batch()
        output = self.output(batch)
        outputs = [tensor.requires_grad_() for tensor in _several(output)]
        for term in self._made.terms(output, batch):
            found = torch.autograd.grad(term.mean, outputs, allow_unused=True, retain_graph=True)
            known = [gradient for gradient in found if gradient is not None]
            finite = bool(known) and all(gradient.isfinite().all() for gradient in known)
            assert finite, f"the gradient of {term.place or 'the loss'} is not finite"
            moves = bool(term.place) or any(gradient.abs().max() > 0 for gradient in known)
            assert moves, "the gradient of the loss is 0"

    def check_all(self) -> None:
        """Run every test in turn; the first AssertionError says what does not hold."""
        for name in dir(self):
            if name.startswith("test_"):
                getattr(self, name)()

    def drawn(self) -> Batch:
        """Return what is drawn from the data: of a text, tokens and the same one later."""
        n_tokens, length = self.sizes.vocab_size, self.settings.window(self.sizes)
        windows = torch.randint(1, n_tokens, (EXAMPLES, length + 1), generator=torch.Generator().manual_seed(1))
        return Batch(windows[:, :-1].contiguous(), windows[:, 1:].contiguous())

    def output(self, batch: Batch) -> Tensors:
        """Return what a model gives: logits for each target, and classes of each example where it has any."""
        drawn = torch.Generator().manual_seed(2)
        shapes = [(*first(batch.targets).shape, self.given.sizes.vocab_size)]
        shapes += [(batch.examples, self.settings.classes)] if self.settings.classes else []
        given = [torch.randn(shape, generator=drawn, dtype=torch.float64) for shape in shapes]
        return given[0] if len(given) == 1 else tuple(given)

    @cached_property
    def spec(self) -> ObjectiveSpec:
        """Its declaration."""
        return self._read[0]

    @property
    def settings(self) -> Settings:
        """Its settings."""
        return self._read[1]

    @property
    def given(self) -> Given:
        """What it is built for: the sizes, with the special tokens that it needs."""
        names = (*self.settings.special, *(["sentinels"] if self.settings.sentinels else []))
        special: dict[str, Any] = {name: id for id, name in enumerate(names, start=self.sizes.vocab_size)}
        more = len(self.settings.special) + self.settings.sentinels
        return Given(replace(self.sizes, vocab_size=self.sizes.vocab_size + more, **special), Loss())

    @cached_property
    def _read(self) -> tuple[ObjectiveSpec, Settings]:
        """Return the objective and its settings; InputError for a mistake in their YAML."""
        problems = Problems()
        known = api.catalogue(self.plugins).of_kind(ObjectiveSpec)
        written = parse_yaml(self.objective, "the objective of the contract")
        chosen = read_choice(written, OBJECTIVE, known, "objective", problems, HINTS)
        problems.raise_if_any()
        assert chosen is not None
        return known[chosen.name], known[chosen.name].read(chosen.settings)

    @cached_property
    def _made(self) -> Objective:
        built: Any = implementation(self.spec)
        return built(self.settings, self.given)  # type: ignore[no-any-return]

    def _batch(self) -> Batch:
        return self._made.batch(self.drawn(), Uniform("contract"))

    def _parts(self, batch: Batch, parts: int) -> list[tuple[Tensors, Batch, dict[str, float]]]:
        """Return the outputs, the batch and the shares of each part."""
        output = self.output(batch)
        both = Batch((*_several(batch.inputs), *_several(output)), batch.targets)
        cut = BatchShares(parts).of(both, torch.device("cpu"), self._made)
        n_inputs = len(_several(batch.inputs))
        each = []
        for part in cut:
            inputs, given = part.batch.inputs[:n_inputs], part.batch.inputs[n_inputs:]
            alone = Batch(_like(batch.inputs, inputs), part.batch.targets)
            each.append((_like(output, given), alone, dict(part.shares)))
        return each

    def _terms(self, batch: Batch, parts: int) -> dict[str, float]:
        sums: dict[str, float] = {}
        for output, part, shares in self._parts(batch, parts):
            for term in self._made.terms(output, part):
                sums[term.place] = sums.get(term.place, 0.0) + float(term.mean) * shares[term.of]
        return sums

    def _measured(self, batch: Batch, parts: int) -> list[float]:
        each = [[float(x) for x in self._made.measures(output, part)] for output, part, _ in self._parts(batch, parts)]
        return [sum(numbers) for numbers in zip(*each, strict=True)]


def _several(tensors: Tensors) -> tuple[Tensor, ...]:
    return (tensors,) if isinstance(tensors, Tensor) else tensors


def _like(shape: Tensors, tensors: tuple[Tensor, ...] | Tensor) -> Tensors:
    """Return tensors as one where the first are one."""
    return tensors[0] if isinstance(shape, Tensor) else tensors
