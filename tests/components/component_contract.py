"""What every component must hold, whoever wrote it: a test class inherits it and says what it is run for."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import torch
from builders import CATALOGUE, SIZES, architecture, default_init, node, sequence

from ablate.block.catalogue import Catalogue, ComponentSpec, Flag
from ablate.block.expression import Block, Node
from ablate.compiler import compile_block, size_report
from ablate.plan.size import cost


def settings(spec: ComponentSpec) -> Iterator[Node]:
    """The component with every combination of its flags."""
    flags = [field for field, kind in spec.fields.items() if isinstance(kind, Flag)]
    for values in itertools.product((False, True), repeat=len(flags)):
        yield node(spec.name, **dict(zip(flags, values, strict=True)))


def hosts(component: Node, spec: ComponentSpec) -> Iterator[Block]:
    """Blocks in which the component stands, one for each slot it fills."""
    for slot in spec.slots:
        match slot:
            case "part":
                yield sequence(component)
            case "norm":
                qk_norm = node("qk_norm", norm=component)
                yield sequence(node("attention", pre_qk=component, pre_v=component, entropy=(qk_norm,)))
            case "weight":
                four = dict.fromkeys(("query", "key", "value", "projection"), component)
                three = dict.fromkeys(("up", "gate", "down"), component)
                yield sequence(node("attention", **four), node("mlp", **three))
            case "init":
                dense = node("dense", init=component)
                yield sequence(node("mlp", up=dense))
            case "activation":
                yield sequence(node("mlp", activation=component))
            case "entropy":
                yield sequence(node("attention", entropy=(component,)))
            case "position":
                yield sequence(node("attention", position=component))
            case "bias":
                yield sequence(node("attention", bias=component))
            case "matrix":
                yield sequence(node("attention", matrix=component))
            case _:
                raise AssertionError(f"the contract does not know how to host slot {slot!r}")


class ComponentContract:
    """Each check takes a block that holds the component under test."""

    def check_shape_is_kept(self, block: Block, catalogue: Catalogue = CATALOGUE) -> None:
        model = compile_block(block, SIZES, catalogue, init=default_init())
        x = torch.randn(3, SIZES.seq_len, SIZES.d_model, generator=torch.Generator().manual_seed(0))
        assert model(x).shape == x.shape
        assert model(x).dtype == x.dtype

    def check_causal(self, block: Block, catalogue: Catalogue = CATALOGUE) -> None:
        assert self.leak(block, catalogue) == 0

    def leak(self, block: Block, catalogue: Catalogue = CATALOGUE, *, causal: bool = True) -> float:
        """How much the first tokens change when only later ones do."""
        sizes = replace(SIZES, causal=causal)
        model = compile_block(block, sizes, catalogue, init=default_init(), dtype=torch.float64)
        x = torch.randn(2, 12, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        other = torch.cat((x[:, :7], 3 * x[:, 7:].flip(1)), dim=1)
        return (model(x) - model(other))[:, :7].abs().max().item()

    def check_finite_gradients_in_bfloat16(self, block: Block, catalogue: Catalogue = CATALOGUE) -> None:
        model = compile_block(block, SIZES, catalogue, init=default_init(), dtype=torch.bfloat16)
        x = torch.randn(2, 12, 16, generator=torch.Generator().manual_seed(0)).bfloat16().requires_grad_()
        y = model(x)
        assert y.dtype == torch.bfloat16
        y.square().mean().backward()
        for name, tensor in (("x", x), *model.named_parameters()):
            assert tensor.grad is not None, f"{name} has no gradient"
            assert tensor.grad.isfinite().all(), f"the gradient of {name} is not finite"

    def check_deterministic(self, block: Block, catalogue: Catalogue = CATALOGUE) -> None:
        x = torch.randn(2, 12, 16, generator=torch.Generator().manual_seed(0)).requires_grad_()
        ones = [compile_block(block, SIZES, catalogue, init=default_init(), seed=3) for _ in range(2)]
        for model in ones:
            model(x).sum().backward()
        assert torch.equal(ones[0](x), ones[1](x))
        for a, b in zip(ones[0].parameters(), ones[1].parameters(), strict=True):
            assert torch.equal(a, b)
            assert torch.equal(a.grad, b.grad)

    def check_size_as_declared(self, block: Block, catalogue: Catalogue = CATALOGUE) -> None:
        model = architecture(block)
        assert cost(model, catalogue) == size_report(model, catalogue)
