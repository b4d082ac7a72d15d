"""The contract of a component, to inherit: six checks in every slot that it fills.

    from ablate.testing import ComponentContract

    class TestOneSecondNorm(ComponentContract):
        plugins = ("one_second_norm.py",)
        component = "one_second_norm: {eps: 1e-5}"

pytest finds the tests of such a class; without pytest, `TestOneSecondNorm().check_all()` runs them. The component is
written as in a space: fields that it omits must be in the `defaults:` of the grammar.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ablate import api
from ablate.block.catalogue import ComponentSpec
from ablate.block.expression import Block
from ablate.errors import InputError
from ablate.source.problems import Problems
from ablate.source.yaml import parse_yaml
from ablate.testing.checks import BlockChecks

HOSTS = {
    "part": "[{0}]",
    "norm": "[attention: {{pre_qk: {0}, pre_v: {0}, entropy: {{qk_norm: {0}}}}}, {0}, mlp]",
    "weight": "[attention: {{query: {0}, key: {0}, value: {0}, projection: {0}}}, mlp: {{up: {0}, down: {0}}}]",
    "activation": "[mlp: {{activation: {0}}}]",
    "entropy": "[attention: {{entropy: {0}}}]",
    "position": "[attention: {{position: {0}}}]",
    "bias": "[attention: {{bias: {0}}}]",
    "matrix": "[attention: {{matrix: {0}}}]",
    "mask": "[attention: {{mask: {0}}}]",
    "gate": "[attention: {{gate: {0}}}]",
    "sink": "[attention: {{sink: {0}}}]",
    "init": "[mlp: {{up: {{dense: {{init: {0}}}}}}}]",
}
"""For each slot, a block with the component in it."""


class ComponentContract(BlockChecks):
    """Six tests of one component in every slot that it fills.

    `component` is YAML: a name, or `name: {field: value}`. `plugins` are the files to read; `grammar` gives the
    defaults of all other components.
    """

    component: str = ""
    plugins: Sequence[str | Path] = ()
    grammar: str | Path = "transformer"

    def test_shape_is_kept(self) -> None:
        """[batch, time, width] is mapped to the same shape, in the same precision."""
        for block in self.blocks():
            self.check_shape_is_kept(block, api.catalogue(self.plugins))

    def test_causal(self) -> None:
        """Later tokens change nothing in earlier ones."""
        for block in self.blocks():
            self.check_causal(block, api.catalogue(self.plugins))

    def test_finite_gradients_in_bfloat16(self) -> None:
        """Every parameter gets a finite gradient."""
        for block in self.blocks():
            self.check_finite_gradients_in_bfloat16(block, api.catalogue(self.plugins))

    def test_deterministic(self) -> None:
        """The same seed gives the same bits."""
        for block in self.blocks():
            self.check_deterministic(block, api.catalogue(self.plugins))

    def test_size_as_declared(self) -> None:
        """`cost` equals what PyTorch counts."""
        for block in self.blocks():
            self.check_size_as_declared(block, api.catalogue(self.plugins))

    def test_forecast(self) -> None:
        """What `propagate` says of token kernels is what initialisations measure; there is no test without one."""
        if hasattr(self._spec().config, "propagate"):
            for block in self.blocks():
                self.check_forecast(block, api.catalogue(self.plugins))

    def check_all(self) -> None:
        """Run every test in turn; the first AssertionError says what does not hold."""
        for name in dir(self):
            if name.startswith("test_"):
                getattr(self, name)()

    def blocks(self) -> Iterator[Block]:
        """Yield a block for each slot that the component fills; InputError for a mistake in its YAML."""
        grammar = api.load_grammar(self.grammar, plugins=self.plugins)
        written = f"{{{self.component}}}" if ":" in self.component else self.component
        for slot in self._spec().slots:
            if slot not in HOSTS:
                raise InputError(f"there is no test block with a slot {slot!r}\n  = the slots are: {', '.join(HOSTS)}")
            problems = Problems()
            block = grammar.reader_for(problems).block(parse_yaml(HOSTS[slot].format(written), "component"))
            problems.raise_if_any()
            assert block is not None
            yield block

    def _spec(self) -> ComponentSpec:
        name = self.component.partition(":")[0].strip()
        catalogue = api.catalogue(self.plugins)
        if name not in catalogue:
            raise InputError(
                f"{type(self).__name__}.component names no component: {name!r}\n  = name one that a plugin declares"
            )
        return catalogue[name]
