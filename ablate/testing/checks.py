"""The checks that every component must pass, each on a block that contains it; AssertionError if one fails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ablate.api import read_init
from ablate.block.architecture import Architecture, plain_decoder
from ablate.block.catalogue import Catalogue
from ablate.block.expression import Block
from ablate.block.sizes import Sizes
from ablate.compiler import compile_block, size_report
from ablate.compiler.random_streams import TorchStreams, seeded
from ablate.components.registry import declarations
from ablate.plan.hidden_future import leaking
from ablate.plan.size import cost
from ablate.signal.propagation import Array, Signal
from ablate.theory.blocks import through_block

SIZES = Sizes(n_layers=2, d_model=16, n_heads=2, seq_len=12, vocab_size=11)
KEPT = 7
"""Tokens that stay the same when the later ones change."""
WIDE, SHORT, STARTS = 128, 8, 8
"""The width and the number of tokens at which a forecast is checked, and how many initialisations are its measure."""
FAR = 0.1
"""How far a forecast may be off, besides the spread of starts: it is exact in the limit of width."""
FAN_IN = "normal: 1/sqrt(width)"
_PLACES = np.arange(SHORT)
TOKENS = np.exp(-0.3 * np.abs(_PLACES[:, None] - _PLACES)) * np.outer(0.8 + 0.05 * _PLACES, 0.8 + 0.05 * _PLACES)
"""The kernel of tokens that are less alike the further apart they are, and of different sizes."""
GRADIENTS = 0.7 * np.eye(SHORT) + 0.3
"""The kernel of the gradient behind the block."""


class BlockChecks:
    """Each check takes a block and the catalogue it is built from, by default that of the shipped components.

    Sizes and the default init of weights are small, for tests; a subclass may choose others.
    """

    sizes: Sizes = SIZES
    init: str = "normal: {std: 0.3}"
    """Large enough that no branch is negligible."""

    def check_shape_is_kept(self, block: Block, catalogue: Catalogue | None = None) -> None:
        """Check that [batch, time, width] is mapped to the same shape, in the same precision."""
        model = self.compiled(block, catalogue)
        x = self.signal(3)
        assert model(x).shape == x.shape, f"{tuple(x.shape)} became {tuple(model(x).shape)}"
        assert model(x).dtype == x.dtype, f"{x.dtype} became {model(x).dtype}"

    def check_causal(self, block: Block, catalogue: Catalogue | None = None) -> None:
        """Check that later tokens change no bit of earlier ones, unless a part declares that it `leaks`."""
        known = catalogue or declarations()
        if any(leaking(block, known)):
            return
        leak = self.leak(block, catalogue)
        assert leak == 0, f"earlier tokens change by {leak:g} when only later ones do"

    def leak(self, block: Block, catalogue: Catalogue | None = None, *, causal: bool = True) -> float:
        """Return how much the first tokens change when only later ones do."""
        sizes = replace(self.sizes, causal=causal)
        model = self.compiled(block, catalogue, sizes=sizes, dtype=torch.float64).eval()
        x = self.signal(2).double()
        other = torch.cat((x[:, :KEPT], 3 * x[:, KEPT:].flip(1)), dim=1)
        return float((model(x) - model(other))[:, :KEPT].abs().max().item())

    def check_finite_gradients_in_bfloat16(self, block: Block, catalogue: Catalogue | None = None) -> None:
        """Check that every parameter gets a gradient, and that it is finite in the coarsest precision."""
        model = self.compiled(block, catalogue, dtype=torch.bfloat16)
        x = self.signal(2).bfloat16().requires_grad_()
        y = model(x)
        assert y.dtype == torch.bfloat16, f"bfloat16 became {y.dtype}"
        y.square().mean().backward()
        for name, tensor in (("x", x), *model.named_parameters()):
            assert tensor.grad is not None, f"{name} has no gradient"
            assert tensor.grad.isfinite().all(), f"the gradient of {name} is not finite"

    def check_deterministic(self, block: Block, catalogue: Catalogue | None = None) -> None:
        """Check that a seed determines parameters, outputs and gradients to the bit; evaluation draws nothing."""
        x = self.signal(2).requires_grad_()
        models = [self.compiled(block, catalogue, seed=3) for _ in range(2)]
        outputs = []
        for model in models:
            with seeded(3):  # in training a component may draw random numbers, as dropout does: a trial seeds them
                outputs.append(model(x))
            outputs[-1].sum().backward()
        assert torch.equal(*outputs), "two forward passes differ"
        before = TorchStreams.here().cpu
        assert torch.equal(*(model.eval()(x) for model in models)), "two forward passes in evaluation differ"
        drawn = not torch.equal(before, TorchStreams.here().cpu)
        assert not drawn, "a forward pass in evaluation draws random numbers, so two evaluations differ"
        pairs = zip(models[0].named_parameters(), models[1].named_parameters(), strict=True)
        for (name, first), (_, second) in pairs:
            assert torch.equal(first, second), f"two initialisations of {name} differ"
            assert first.grad is not None and second.grad is not None, f"{name} has no gradient"
            assert torch.equal(first.grad, second.grad), f"two gradients of {name} differ"

    def check_size_as_declared(self, block: Block, catalogue: Catalogue | None = None) -> None:
        """Check that `cost` equals PyTorch's count of parameters, of FLOPs, and of FLOPs spared in training."""
        known = catalogue or declarations()
        model = self.around(block, known)
        declared, counted = cost(model, known), size_report(model, known)
        assert declared == counted, f"declared {declared}, counted {counted}"

    def check_forecast(self, block: Block, catalogue: Catalogue | None = None) -> None:
        """Check that the parts of a block say what they do to token kernels, forwards and to those of gradients back.

        A forecast of layer 1, alone and as the branch of a skip, is compared with the mean over `STARTS`
        initialisations of width `WIDE`, in float64: kernels differ, in the root of their squares, by at most `FAR` of
        it, and four standard errors of the mean. Raises InputError for a part that is not forecast.
        """
        known = catalogue or declarations()
        sizes = replace(self.sizes, d_model=WIDE, n_heads=4, seq_len=SHORT)
        init = read_init(FAN_IN, known)
        alone = through_block(block, Signal.root(TOKENS), sizes.at(1), init, known)
        skipped = Signal.root(TOKENS).forked(lambda x: (x, through_block(block, x, sizes.at(1), init, known)))
        starts = [measured_kernels(block, known, sizes, seed) for seed in range(STARTS)]
        for what, forecast in (
            ("token kernel", alone.kernel),
            ("kernel of gradients", alone.backward(GRADIENTS)),
            ("token kernel beside a skip", skipped.kernel),
            ("kernel of gradients beside a skip", skipped.backward(GRADIENTS)),
        ):
            found = np.array([start[what] for start in starts])
            mean, error = found.mean(0), found.std(0, ddof=1) / STARTS**0.5
            off, size = float(np.linalg.norm(forecast - mean)), float(np.linalg.norm(mean))
            assert off <= FAR * size + 4 * float(np.linalg.norm(error)), (
                f"the forecast of the {what} is {off / max(size, 1e-12):.0%} off what {STARTS} initialisations measure"
            )

    def compiled(
        self, block: Block, catalogue: Catalogue | None, *, sizes: Sizes | None = None, **options: Any
    ) -> nn.Module:
        """Build the block as a module; `options` are those of `compile_block`."""
        known = catalogue or declarations()
        return compile_block(block, sizes or self.sizes, known, init=read_init(self.init, known), **options)

    def signal(self, batch: int) -> Tensor:
        """Return [batch, seq_len, d_model] of standard normal numbers, always the same."""
        shape = (batch, self.sizes.seq_len, self.sizes.d_model)
        return torch.randn(shape, generator=torch.Generator().manual_seed(0))

    def around(self, block: Block, known: Catalogue) -> Architecture:
        """Return a small decoder of such blocks."""
        return plain_decoder(block, self.sizes, init=read_init(self.init, known))


def measured_kernels(block: Block, known: Catalogue, sizes: Sizes, seed: int) -> Mapping[str, Array]:
    """Return the token kernels behind an initialised block, alone and beside a skip, and of the gradient before it."""
    random = np.random.default_rng(seed)
    x = torch.tensor(_of_kernel(TOKENS, sizes.d_model, random), requires_grad=True)
    init = read_init(FAN_IN, known)
    with seeded(seed):
        y = compile_block(block, sizes, known, layer=1, init=init, seed=seed, dtype=torch.float64).train()(x)
    sent = torch.tensor(_of_kernel(GRADIENTS, sizes.d_model, random))
    (g,) = torch.autograd.grad(y, x, sent, allow_unused=True, materialize_grads=True)
    return {
        "token kernel": _kernel(y),
        "kernel of gradients": _kernel(g),
        "token kernel beside a skip": _kernel(x + y),
        "kernel of gradients beside a skip": _kernel(sent + g),
    }


def _of_kernel(kernel: Array, width: int, random: np.random.Generator) -> Array:
    """Return three random sequences, [3, T, width], each of exactly that kernel."""
    turned = np.linalg.qr(random.normal(size=(3, width, len(kernel)))).Q.transpose(0, 2, 1)
    return np.asarray(np.linalg.cholesky(kernel) @ turned * width**0.5)


def _kernel(x: Tensor) -> Array:
    """Return the mean over sequences of x xᵀ / d, [T, T]."""
    kernel: Array = (torch.einsum("btd,bsd->ts", x, x) / (len(x) * x.shape[-1])).detach().numpy()
    return kernel
