"""The contracts of what a recipe names, to inherit: of an optimiser, of a schedule and of an objective.

`ablate docs optimizer`, `ablate docs schedule` and `ablate docs objective` show their use. Each thing is written as in
a space: an optimiser as in `recipe.optimizer`, a schedule as in `recipe.schedule.decay`, an objective as in
`recipe.objective`. Settings that an optimiser omits must be under `space: {recipe: {optimizer: …}}` of the grammar. An
objective that is not made of text sets `drawn`, and `output` where it wants no logits.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn, optim

from ablate import api
from ablate.block.architecture import Architecture
from ablate.block.arithmetic import parse
from ablate.block.sizes import Sizes
from ablate.compiler import compile_model
from ablate.compiler.initialise import TrainingStreams
from ablate.data.batch import Batch, Tensors, first
from ablate.data.uniform import Uniform
from ablate.extension.loader import implementation
from ablate.source.located import Mapping
from ablate.source.yaml import overlay
from ablate.space.documents import Choice, counted
from ablate.space.recipe import PARAMETER_KINDS, Loss, ObjectiveSpec, OptimizerSpec, Schedule, ScheduleSpec
from ablate.space.schedule import relative_rate
from ablate.testing.contract import Contract, block_of, chosen_of, written_choice
from ablate.train.checkpoint import TrialProgress, load_state, save_state
from ablate.train.loss import cross_entropy
from ablate.train.microbatches import BatchShares
from ablate.train.objectives.declare import Given, Objective, Settings
from ablate.train.optimizer import set_rates, trained_parameters
from ablate.train.optimizers.declare import Trained

SIZES = Sizes(n_layers=1, d_model=8, n_heads=2, seq_len=6, vocab_size=11)
BLOCK = """
- residual: {gain: {init: 0.5, trainable: true}, branch: [layer_norm: {scale: true, bias: true}, attention]}
- residual: [layer_norm: {scale: true, bias: true}, mlp]
"""
STEPS = 5

Each = Callable[[Trained], Trained]


class OptimizerContract(Contract):
    """Seven tests of one optimiser: `optimizer` is YAML, `plugins` are the files to read, `grammar` has the defaults.

    In the last two every parameter has random gradients, the same for all settings.
    """

    optimizer: str = ""
    grammar: str | Path = "transformer"

    def test_moves_every_trained_parameter(self) -> None:
        """Every parameter has changed after a few updates."""
        start, model = self._model(), self._model()
        self._train(model, self._optimizer(model), range(STEPS))
        for (address, before), after in zip(start.named_parameters(), model.parameters(), strict=True):
            assert not torch.equal(before, after), f"{address} has not moved in {STEPS} updates"

    def test_finite_in_float32(self) -> None:
        """Every parameter is finite after a few updates, also with zero gradients."""
        model = self._model()
        self._train(model, self._optimizer(model), range(STEPS))
        silent = self._model()
        optimizer = self._optimizer(silent)
        for _ in range(STEPS):
            self._follow(silent, optimizer, lambda address, tensor: torch.zeros_like(tensor))
        for address, tensor in (*model.named_parameters(), *silent.named_parameters()):
            assert tensor.isfinite().all(), f"{address} is not finite"

    def test_deterministic(self) -> None:
        """Two runs give the same bits."""
        first, second = self._model(), self._model()
        for model in (first, second):
            self._train(model, self._optimizer(model), range(STEPS))
        self._assert_same(first, second, "two runs differ")

    def test_resumes_to_the_same_bits(self) -> None:
        """Training resumed from a checkpoint gives the same bits as without interruption."""
        whole, half, resumed = self._model(), self._model(), self._model(seed=1)
        self._train(whole, self._optimizer(whole), range(STEPS))
        optimizer, again = self._optimizer(half), self._optimizer(resumed)
        self._train(half, optimizer, range(2))
        state = save_state("trial", half, optimizer, TrainingStreams(0), TrialProgress(2))
        progress = load_state(state, "trial", resumed, again, TrainingStreams(0))
        self._train(resumed, again, range(progress.step, STEPS))
        self._assert_same(whole, resumed, "resumed from a checkpoint, training differs")

    def test_rate_zero_moves_nothing(self) -> None:
        """At a learning rate of 0, as in the first step of a schedule from zero, nothing moves or decays."""
        start, model = self._model(), self._model()
        self._train(model, self._optimizer(model), range(STEPS), share=0.0)
        self._assert_same(start, model, "a rate of 0 changes a parameter")

    def test_honours_multiples_of_the_rate(self) -> None:
        """A quarter of the rate by a part's multiple equals a quarter by the schedule."""
        by_part, by_schedule, whole = self._model(), self._model(), self._model()
        self._drift(by_part, self._optimizer(by_part, lambda each: replace(each, multiple=0.25)))
        self._drift(by_schedule, self._optimizer(by_schedule), share=0.25)
        self._drift(whole, self._optimizer(whole))
        self._assert_same(by_part, by_schedule, "a multiple of the rate is not the same as that rate")
        for (address, slow), fast in zip(by_part.named_parameters(), whole.parameters(), strict=True):
            assert not torch.equal(slow, fast), f"the rate of {address} has no effect"

    def test_decays_the_kinds_that_it_is_told(self) -> None:
        """Weight decay changes only parameters of the kinds in `decays`; nothing to test without that setting."""
        _, settings = self._settings()
        if not {"weight_decay", "decays"} <= set(type(settings).model_fields):
            return
        plain = self._model()
        self._drift(plain, self._optimizer(plain, weight_decay=0.0))
        kinds = {each.address: each.kind for each in trained_parameters(plain, settings)}
        for kind in PARAMETER_KINDS:
            model = self._model()
            self._drift(model, self._optimizer(model, weight_decay=0.5, decays=(kind,)))
            for (address, tensor), without in zip(model.named_parameters(), plain.parameters(), strict=True):
                decayed = not torch.equal(tensor, without)
                told = f"decays: [{kind}] {'changes' if decayed else 'leaves'} {address}, of kind {kinds[address]}"
                assert decayed == (kinds[address] == kind), told

    def _settings(self) -> tuple[OptimizerSpec, Any]:
        """InputError for a mistake in the YAML."""
        grammar = api.load_grammar(self.grammar, plugins=self.plugins)
        written = written_choice(OptimizerSpec, self.optimizer)
        defaults = grammar.space
        for key in ("recipe", "optimizer"):
            inner = defaults.get(key) if defaults is not None else None
            defaults = inner if isinstance(inner, Mapping) else None
        if isinstance(written, Mapping) and defaults is not None:
            entries = tuple(entry for entry in defaults.entries if entry[0].value in written)
            written = overlay(Mapping(entries, defaults.span), written)
        spec, chosen = chosen_of(OptimizerSpec, written, grammar.catalogue)
        return spec, spec.read(chosen.settings)

    def _optimizer(self, model: nn.Module, each: Each = lambda trained: trained, **changes: Any) -> optim.Optimizer:
        """Changed settings, over the model's parameters as changed by `each`."""
        spec, settings = self._settings()
        settings = settings.model_copy(update=changes)
        parameters = [each(trained) for trained in trained_parameters(model, settings)]
        built: optim.Optimizer = implementation(spec)(parameters, settings)
        held = [id(tensor) for group in built.param_groups for tensor in group["params"]]
        assert sorted(held) == sorted(map(id, model.parameters())), (
            "its groups do not contain every parameter exactly once"
        )
        return built

    def _model(self, seed: int = 0) -> nn.Module:
        """Build a decoder with parameters of every kind, none of them zero, so that decay changes each."""
        grammar = api.load_grammar("transformer")
        around = Architecture(
            kind="decoder",
            sizes=SIZES,
            block=block_of(BLOCK, "block", grammar),
            positions="learned",
            embedding_std=parse(1),
            embedding_scale=parse(1),
            embedding_dropout=0.0,
            position_std=parse(1),
            position_rows=SIZES.seq_len,
            logit_scale=parse(1),
            tied=False,
            entry_norm=None,
            final_norm=None,
            init=api.read_init("normal: {std: 0.3}", grammar.catalogue),
        )
        model = compile_model(around, grammar.catalogue, seed=seed)
        generator = torch.Generator().manual_seed(seed)
        for tensor in model.parameters():
            tensor.data += 0.1 * torch.rand(tensor.shape, generator=generator)
        return model

    def _train(self, model: nn.Module, optimizer: optim.Optimizer, steps: range, share: float = 1.0) -> None:
        """Update by the gradients of a loss; each step has its own batch."""
        for step in steps:
            drawn = torch.randint(11, (4, SIZES.seq_len + 1), generator=torch.Generator().manual_seed(step))
            torch.autograd.backward(cross_entropy(model(drawn[:, :-1]), drawn[:, 1:]))
            set_rates(optimizer, share)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    def _drift(self, model: nn.Module, optimizer: optim.Optimizer, share: float = 1.0) -> None:
        """Update by random gradients."""
        generator = torch.Generator().manual_seed(0)
        for _ in range(STEPS):
            self._follow(model, optimizer, lambda _, t: torch.randn(t.shape, generator=generator), share)

    def _follow(
        self,
        model: nn.Module,
        optimizer: optim.Optimizer,
        gradient: Callable[[str, Tensor], Tensor],
        share: float = 1.0,
    ) -> None:
        for address, tensor in model.named_parameters():
            tensor.grad = gradient(address, tensor)
        set_rates(optimizer, share)
        optimizer.step()

    def _assert_same(self, model: nn.Module, other: nn.Module, message: str) -> None:
        for (address, ours), theirs in zip(model.named_parameters(), other.parameters(), strict=True):
            assert torch.equal(ours, theirs), f"{message}: {address}"


LENGTHS = tuple(itertools.product((1, 2, 37), (0, 0.25, 1.0), (0, 3), (False, True)))
"""Steps, warm-up, hold, and whether the rate starts from zero (finished steps are counted)."""
FLOORS = (0.0, 0.25)


class ScheduleContract(Contract):
    """Five tests of one schedule: `schedule` is YAML, `plugins` are the files to read."""

    schedule: str = ""

    def test_rates_are_shares_of_the_peak(self) -> None:
        """Every rate is a finite number from 0 to 1."""
        for told, floor, rates in self._every():
            for step, rate in enumerate(rates):
                known = math.isfinite(rate) and 0 <= rate <= 1 + 1e-12
                assert known, f"step {step} has the rate {rate} (floor {floor}, {told})"

    def test_never_below_the_floor(self) -> None:
        """No step after the warm-up has a rate below the floor; nothing to test without a floor."""
        spec, _ = self._settings()
        for told, floor, rates in self._every() if spec.has_floor else ():
            steps, warmup, *_ = told
            for step in range(min(counted(warmup, steps), steps), steps):
                assert rates[step] >= floor - 1e-12, f"step {step} falls below {floor} to {rates[step]} ({told})"

    def test_begins_at_the_peak(self) -> None:
        """The step that ends the warm-up and the hold has the peak rate."""
        for told, _, rates in self._every():
            steps, warmup, hold, from_zero = told
            peak = max(counted(warmup, steps) + hold - (not from_zero), 0)
            if peak < steps:
                assert math.isclose(rates[peak], 1.0), f"step {peak} has {rates[peak]}, not the peak ({told})"

    def test_a_function_of_the_step_alone(self) -> None:
        """Rates do not depend on the order in which steps are queried."""
        for told, floor, rates in self._every():
            backwards = [self._rate(step, told, floor) for step in reversed(range(told[0]))]
            assert backwards[::-1] == rates, f"queried in another order, the rates differ ({told})"

    def test_free_of_torch(self) -> None:
        """Its file does not import torch: planning computes rates without it."""
        spec, _ = self._settings()
        named = vars(sys.modules[spec.module])
        assert "torch" not in named, f"{spec.path} imports torch"

    def _every(self) -> Iterator[tuple[tuple[int, float, int, bool], float, list[float]]]:
        for told in LENGTHS:
            for floor in FLOORS:
                yield told, floor, [self._rate(step, told, floor) for step in range(told[0])]

    def _rate(self, step: int, told: tuple[int, float, int, bool], floor: float) -> float:
        spec, settings = self._settings()
        steps, warmup, hold, from_zero = told
        timed = Schedule(warmup=warmup, hold=hold, decay=Choice(spec.name), floor=floor, from_zero=from_zero)
        return relative_rate(step, steps, timed, settings, 1e-3)

    def _settings(self) -> tuple[ScheduleSpec, Any]:
        """InputError for a mistake in the YAML."""
        written = written_choice(ScheduleSpec, self.schedule)
        spec, chosen = chosen_of(ScheduleSpec, written, api.catalogue(self.plugins))
        return spec, spec.read(chosen.settings)


EXAMPLES = 6
PARTS = (2, 4)


class ObjectiveContract(Contract):
    """Four tests of one objective: `objective` is YAML, `plugins` are the files to read.

    `sizes` are those of the model; the special tokens that the objective needs are added to its vocabulary.
    """

    objective: str = ""
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

    def drawn(self) -> Batch:
        """A draw from the data: of a text, sequences, and the same one token later."""
        n_tokens, length = self.sizes.vocab_size, self.settings.window(self.sizes)
        windows = torch.randint(1, n_tokens, (EXAMPLES, length + 1), generator=torch.Generator().manual_seed(1))
        return Batch(windows[:, :-1].contiguous(), windows[:, 1:].contiguous())

    def output(self, batch: Batch) -> Tensors:
        """The output of a model: logits for each target, and classes of each example where it has any."""
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
        """The objective's surroundings: the sizes, with the special tokens that it needs."""
        names = (*self.settings.special, *(["sentinels"] if self.settings.sentinels else []))
        special: dict[str, Any] = {name: id for id, name in enumerate(names, start=self.sizes.vocab_size)}
        more = len(self.settings.special) + self.settings.sentinels
        return Given(replace(self.sizes, vocab_size=self.sizes.vocab_size + more, **special), Loss())

    @cached_property
    def _read(self) -> tuple[ObjectiveSpec, Settings]:
        """InputError for a mistake in the YAML."""
        written = written_choice(ObjectiveSpec, self.objective)
        spec, chosen = chosen_of(ObjectiveSpec, written, api.catalogue(self.plugins))
        return spec, spec.read(chosen.settings)

    @cached_property
    def _made(self) -> Objective:
        made: Objective = implementation(self.spec)(self.settings, self.given)
        return made

    def _batch(self) -> Batch:
        return self._made.batch(self.drawn(), Uniform("contract"))

    def _parts(self, batch: Batch, parts: int) -> list[tuple[Tensors, Batch, dict[str, float]]]:
        """The outputs, the batch and the shares of each part."""
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
    """The tensors as one where the first are one."""
    return tensors[0] if isinstance(shape, Tensor) else tensors
