"""The contract of an optimiser, to inherit: seven checks on a small decoder with parameters of every kind.

    from ablate.testing import OptimizerContract

    class TestSign(OptimizerContract):
        plugins = ("sign.py",)
        optimizer = "sign: {lr: 1e-3, embedding_lr: null, weight_decay: 0.1, decays: [weights]}"

pytest finds the tests of such a class; without pytest, `TestSign().check_all()` runs them. The optimiser is written as
in a space: settings that it omits must be under `space: {recipe: {optimizer: …}}` of the grammar.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn, optim

from ablate import api
from ablate.block.architecture import Architecture
from ablate.block.arithmetic import parse
from ablate.block.sizes import Sizes
from ablate.compiler import compile_model
from ablate.compiler.random_streams import TrainingStreams
from ablate.extension.kinds import OPTIMIZER
from ablate.extension.loader import implementation
from ablate.source.located import Mapping
from ablate.source.overlay import overlay
from ablate.source.problems import Problems
from ablate.source.yaml import parse_yaml
from ablate.space.choice import read_choice
from ablate.space.optimizers import PARAMETER_KINDS, OptimizerSpec
from ablate.space.ways import HINTS
from ablate.train.checkpoint import TrialProgress, load_state, save_state
from ablate.train.loss import cross_entropy
from ablate.train.optimizer import set_rates, trained_parameters
from ablate.train.optimizers.declare import Trained

SIZES = Sizes(n_layers=1, d_model=8, n_heads=2, seq_len=6, vocab_size=11)
BLOCK = """
- residual: {gain: {init: 0.5, trainable: true}, branch: [layer_norm: {scale: true, bias: true}, attention]}
- residual: [layer_norm: {scale: true, bias: true}, mlp]
"""
STEPS = 5

Each = Callable[[Trained], Trained]


class OptimizerContract:
    """Seven tests of one optimiser: `optimizer` is YAML, `plugins` are the files to read, `grammar` has the defaults.

    In the last two every parameter has random gradients, the same for all settings.
    """

    optimizer: str = ""
    plugins: Sequence[str | Path] = ()
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

    def check_all(self) -> None:
        """Run every test in turn; the first AssertionError says what does not hold."""
        for name in dir(self):
            if name.startswith("test_"):
                getattr(self, name)()

    def _settings(self) -> tuple[OptimizerSpec, Any]:
        """Return the optimiser and its settings; InputError for a mistake in their YAML."""
        grammar, problems = api.load_grammar(self.grammar, plugins=self.plugins), Problems()
        known = grammar.catalogue.of_kind(OptimizerSpec)
        written = parse_yaml(self.optimizer, "the optimizer of the contract")
        defaults = grammar.space
        for key in ("recipe", "optimizer"):
            inner = defaults.get(key) if defaults is not None else None
            defaults = inner if isinstance(inner, Mapping) else None
        if isinstance(written, Mapping) and defaults is not None:
            entries = tuple(entry for entry in defaults.entries if entry[0].value in written)
            written = overlay(Mapping(entries, defaults.span), written)
        chosen = read_choice(written, OPTIMIZER, known, "optimizer", problems, HINTS)
        problems.raise_if_any()
        assert chosen is not None
        return known[chosen.name], known[chosen.name].read(chosen.settings)

    def _optimizer(self, model: nn.Module, each: Each = lambda trained: trained, **changes: Any) -> optim.Optimizer:
        """Build the optimiser of a model with changed settings, over its parameters as changed by `each`."""
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
        grammar, problems = api.load_grammar("transformer"), Problems()
        block = grammar.reader_for(problems).block(parse_yaml(BLOCK, "block"))
        problems.raise_if_any()
        assert block is not None
        around = Architecture(
            kind="decoder",
            sizes=SIZES,
            block=block,
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
            cross_entropy(model(drawn[:, :-1]), drawn[:, 1:]).backward()  # type: ignore[no-untyped-call]
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
        for (address, ours), theirs in zip(self._named(model), other.parameters(), strict=True):
            assert torch.equal(ours, theirs), f"{message}: {address}"

    def _named(self, model: nn.Module) -> Iterator[tuple[str, Tensor]]:
        yield from model.named_parameters()
