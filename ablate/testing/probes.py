"""The contract of a probe, to inherit: what every probe holds, whatever it measures.

    from ablate.testing import ProbeContract

    class TestSparsity(ProbeContract):
        plugins = ("sparsity.py",)
        probe = "sparsity"

pytest finds the tests of such a class; without pytest, `TestSparsity().check_all()` runs them. The model is a small one
with attention and trained gains; a probe that needs another gives it as `block`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from ablate import api
from ablate.block.catalogue import Catalogue
from ablate.compiler import compile_model
from ablate.errors import InputError
from ablate.probes.reading import Reading
from ablate.probes.registry import select
from ablate.probes.watch import watching
from ablate.source.problems import Problems
from ablate.source.yaml import parse_yaml
from ablate.space.metrics import ProbeSpec, known_probes
from ablate.testing.checks import BlockChecks

GAIN = "{init: 0.5, trainable: true}"
HEADS = "{init: 0.5, trainable: true, per: head}"
BLOCK = (
    f"[residual: {{gain: {GAIN}, branch: [layer_norm, attention: {{matrix: {{shaped: {{skip: {HEADS}, gain: {HEADS}, "
    f"centre: {HEADS}}}}}}}]}}, residual: {{skip: {GAIN}, gain: {GAIN}, branch: [layer_norm, mlp]}}]"
)


class ProbeContract(BlockChecks):
    """Five tests of one probe on a small model. `probe` is its name; `plugins` are the files to read."""

    probe: str = ""
    plugins: Sequence[str | Path] = ()
    grammar: str | Path = "transformer"
    block: str = BLOCK

    def test_it_reads_the_metrics_that_it_declares(self) -> None:
        """Each that it declares, and no other; what a model has no part for is left to `block`."""
        declared = {metric.metric for metric in self.spec().metrics}
        read = {reading.metric for reading in self.readings()}
        assert read <= declared, f"not declared: {', '.join(sorted(read - declared))}"
        assert read == declared, f"declared and not read: {', '.join(sorted(declared - read))}"

    def test_its_numbers_are_finite_and_in_float64(self) -> None:
        """On a model as it starts, on text of random tokens."""
        for reading in self.readings():
            place = f"{reading.metric} at {reading.address or 'the whole model'}"
            assert reading.value.ndim == 0, f"{place} is no single number: {tuple(reading.value.shape)}"
            assert reading.value.dtype == torch.float64, f"{place} is computed in {reading.value.dtype}"
            assert math.isfinite(reading.value.item()), f"{place} is {reading.value.item()}"

    def test_the_same_model_gives_the_same_numbers(self) -> None:
        """To the bit."""
        assert _values(self.readings()) == _values(self.readings()), "two readings of one model differ"

    def test_it_changes_no_bit_of_training_and_draws_nothing(self) -> None:
        """Gradients with it and without it are the same, and so is the state of the random numbers."""
        state = torch.get_rng_state()
        watched, plain = self.model(), self.model()
        drawn = torch.get_rng_state()
        self.step(watched, watch=True)
        assert torch.equal(torch.get_rng_state(), drawn), "it draws random numbers"
        self.step(plain, watch=False)
        for (name, one), other in zip(watched.named_parameters(), plain.parameters(), strict=True):
            assert (one.grad is None) == (other.grad is None), f"the gradient of {name} is there once"
            assert one.grad is None or other.grad is None or torch.equal(one.grad, other.grad), f"{name} differs"
        torch.set_rng_state(state)

    def test_its_numbers_say_what_they_are(self) -> None:
        """Each has a definition and a source, and the file opens with a line that says what it answers."""
        spec = self.spec()
        assert spec.summary, f"{spec.path} opens without a docstring"
        for metric in spec.metrics:
            assert metric.definition.strip() and metric.source.strip(), f"{metric.metric} has no definition or source"

    def check_all(self) -> None:
        """Every test, one after another; the first AssertionError says what does not hold."""
        for name in dir(self):
            if name.startswith("test_"):
                getattr(self, name)()

    def spec(self) -> ProbeSpec:
        """Its declaration; InputError where there is no probe of that name."""
        known = known_probes(self._catalogue())
        if self.probe not in known:
            raise InputError(f"{type(self).__name__}.probe names no probe: {self.probe!r}\n  = name one of a plugin")
        return known[self.probe]

    def readings(self) -> list[Reading]:
        """What it reads in one step of a model."""
        return self.step(self.model(), watch=True)

    def step(self, model: nn.Module, *, watch: bool) -> list[Reading]:
        """One forward and backward pass; the readings, if it is watched."""
        spec = self.spec()
        chosen = [probe for probe in select([self.probe], self._catalogue()) if probe.spec.name == spec.name]
        tokens = torch.randint(
            self.sizes.vocab_size, (3, self.sizes.seq_len), generator=torch.Generator().manual_seed(1)
        )
        with watching(model, chosen if watch else ()) as readings:
            logits: Tensor = model(tokens)
            loss: Tensor = nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
            loss.backward()  # type: ignore[no-untyped-call]
        return readings

    def model(self) -> nn.Module:
        """A small decoder, always the same."""
        problems = Problems()
        grammar = api.load_grammar(self.grammar, plugins=self.plugins)
        block = grammar.reader_for(problems).block(parse_yaml(self.block, "block"))
        problems.raise_if_any()
        assert block is not None
        return compile_model(self.around(block, grammar.catalogue), grammar.catalogue, seed=3).train()

    def _catalogue(self) -> Catalogue:
        return api.catalogue(self.plugins)


def _values(readings: Sequence[Reading]) -> list[tuple[str, str, float]]:
    return [(reading.metric, reading.address, reading.value.item()) for reading in readings]
