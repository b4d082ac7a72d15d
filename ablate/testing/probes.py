"""The contract of a probe, to inherit: five checks that every probe must pass, whatever it measures.

    from ablate.testing import ProbeContract

    class TestSparsity(ProbeContract):
        plugins = ("sparsity.py",)
        probe = "sparsity"

pytest finds the tests of such a class; without pytest, `TestSparsity().check_all()` runs them. The model is a small one
with attention and trained gains; a probe that needs another one sets `block`.
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
from ablate.probes.update import changes, streams
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
        """It reads every metric that it declares, and no other; set `block` if the model lacks a part that it reads."""
        declared = {metric.metric for metric in self.spec().metrics}
        read = {reading.metric for reading in self.readings()}
        assert read <= declared, f"not declared: {', '.join(sorted(read - declared))}"
        assert read == declared, f"declared but not read: {', '.join(sorted(declared - read))}"

    def test_its_numbers_are_finite_and_in_float64(self) -> None:
        """Its numbers are finite float64 scalars, on an untrained model and random tokens."""
        for reading in self.readings():
            place = f"{reading.metric} at {reading.address or 'the whole model'}"
            assert reading.value.ndim == 0, f"{place} is not a single number: {tuple(reading.value.shape)}"
            assert reading.value.dtype == torch.float64, f"{place} is computed in {reading.value.dtype}"
            assert math.isfinite(reading.value.item()), f"{place} is {reading.value.item()}"

    def test_the_same_model_gives_the_same_numbers(self) -> None:
        """Two readings of one model are the same, to the bit."""
        assert _values(self.readings()) == _values(self.readings()), "two readings of one model differ"

    def test_it_changes_no_bit_of_training_and_draws_nothing(self) -> None:
        """Gradients are the same with and without it, and so is the state of the random generator."""
        state = torch.get_rng_state()
        watched, plain = self.model(), self.model()
        drawn = torch.get_rng_state()
        self.step(watched, watch=True)
        assert torch.equal(torch.get_rng_state(), drawn), "it draws random numbers"
        self.step(plain, watch=False)
        for (name, with_it), without in zip(watched.named_parameters(), plain.parameters(), strict=True):
            probed, own = with_it.grad, without.grad
            assert (probed is None) == (own is None), f"{name} has a gradient only with or only without the probe"
            assert probed is None or own is None or torch.equal(probed, own), f"the gradient of {name} differs"
        torch.set_rng_state(state)

    def test_its_numbers_say_what_they_are(self) -> None:
        """Each metric has a definition and a source; the file's docstring opens with what the probe answers."""
        spec = self.spec()
        assert spec.summary, f"{spec.path} has no docstring"
        for metric in spec.metrics:
            assert metric.definition.strip() and metric.source.strip(), f"{metric.metric} has no definition or source"

    def check_all(self) -> None:
        """Run every test in turn; the first AssertionError says what does not hold."""
        for name in dir(self):
            if name.startswith("test_"):
                getattr(self, name)()

    def spec(self) -> ProbeSpec:
        """Return its declaration; InputError if there is no probe of that name."""
        known = known_probes(self._catalogue())
        if self.probe not in known:
            raise InputError(
                f"{type(self).__name__}.probe names no probe: {self.probe!r}\n  = name one that a plugin declares"
            )
        return known[self.probe]

    def readings(self) -> list[Reading]:
        """Return what it reads in one step of a model."""
        return self.step(self.model(), watch=True)

    def step(self, model: nn.Module, *, watch: bool) -> list[Reading]:
        """Run one forward and backward pass; return the readings if `watch`, those of an update after a small one."""
        spec = self.spec()
        chosen = [probe for probe in select([self.probe], self._catalogue()) if probe.spec.name == spec.name]
        tokens = torch.randint(
            self.sizes.vocab_size, (3, self.sizes.seq_len), generator=torch.Generator().manual_seed(1)
        )
        updates = [probe for probe in chosen if probe.of_updates and watch]
        before = streams(model, lambda: model(tokens)) if updates else {}
        with watching(model, chosen if watch else ()) as readings:
            logits: Tensor = model(tokens)
            loss: Tensor = nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
            loss.backward()  # type: ignore[no-untyped-call]
        if updates:
            torch.optim.SGD(model.parameters(), lr=0.1).step()
            readings += changes(updates, before, streams(model, lambda: model(tokens)))
        return readings

    def model(self) -> nn.Module:
        """Build a small decoder, always the same."""
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
