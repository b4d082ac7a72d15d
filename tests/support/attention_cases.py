"""Attention written out in NumPy float64, and random cases of it for every backend."""

from dataclasses import dataclass

import numpy as np
import torch
from hypothesis import strategies as st


def softcap(scores):
    return 3 * torch.tanh(scores / 3)


def clamp(scores):
    return scores.clamp(-2, 2)


MAPS = {"none": (), "softcap": (softcap,), "both": (softcap, clamp)}
NUMPY_MAPS = {
    "none": lambda s: s,
    "softcap": lambda s: 3 * np.tanh(s / 3),
    "both": lambda s: np.clip(3 * np.tanh(s / 3), -2, 2),
}
KINDS = {"none": None, "shared": (False, False), "head": (False, True), "row": (True, False), "batch": (True, True)}


@dataclass(frozen=True)
class Case:
    """One attention. `bias` says along what it varies, `learned` whether its gradient is wanted, `far` its size."""

    shape: tuple[int, int, int, int, int]
    causal: bool = True
    scale: float = 0.3
    maps: str = "none"
    bias: str = "none"
    learned: bool = False
    far: float = 1.0
    dtype: torch.dtype = torch.float64
    seed: int = 0

    def draw(self, device="cpu"):
        """q, k, v that ask for gradients, and the bias: float32 at least, whatever the type of the rest."""
        b, h, t, s, k = self.shape
        generator = torch.Generator().manual_seed(self.seed)
        shapes = ((b, h, t, k), (b, h, s, k), (b, h, s, k))
        drawn = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
        qkv = [x.to(device, self.dtype).requires_grad_() for x in drawn]
        if self.bias == "none":
            return qkv, None
        by_batch, by_head = KINDS[self.bias]
        shape = (b if by_batch else 1, h if by_head else 1, t, s)
        bias = self.far * torch.randn(shape, generator=generator, dtype=torch.float64)
        wide = torch.promote_types(self.dtype, torch.float32)
        return qkv, bias.to(device, wide).requires_grad_(self.learned)

    def asked(self):
        return {"causal": self.causal, "scale": self.scale, "logits": MAPS[self.maps]}


def numpy_attention(q, k, v, *, causal, scale, logit_map=lambda s: s, bias=None):
    q, k, v = (x.detach().numpy() for x in (q, k, v))
    scores = logit_map(scale * np.einsum("bhtk,bhsk->bhts", q, k))
    if bias is not None:
        scores = scores + bias.detach().numpy()
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bhts,bhsk->bhtk", weights / weights.sum(-1, keepdims=True), v)


def gradients(result, inputs):
    generator = torch.Generator().manual_seed(1)
    direction = torch.randn(result.shape, generator=generator, dtype=torch.float64)
    return torch.autograd.grad((result * direction.to(result)).sum(), inputs)


def wanted(qkv, bias):
    return [*qkv, bias] if bias is not None and bias.requires_grad else qkv


def close(actual, expected, tolerance):
    """Off by no more than `tolerance` of the largest number."""
    off = (actual.double().cpu() - expected.double().cpu()).abs().max().item()
    assert off <= tolerance * (1 + expected.abs().max().item()), off


LENGTHS = st.sampled_from([1, 2, 3, 5, 8, 9, 16, 17])
WIDTHS = st.sampled_from([1, 2, 3, 7, 8, 16, 20])


@st.composite
def cases(draw, dtypes=(torch.float64,), maps=("none",)):
    n_queries = draw(LENGTHS)
    causal = draw(st.booleans())
    return Case(
        shape=(draw(st.integers(1, 3)), draw(st.integers(1, 3)), n_queries, draw(LENGTHS), draw(WIDTHS)),
        causal=causal,
        scale=draw(st.sampled_from([0.0, -0.3]) | st.floats(0.05, 1)),
        maps=draw(st.sampled_from(maps)),
        bias=draw(st.sampled_from(list(KINDS))),
        learned=draw(st.booleans()),
        far=draw(st.sampled_from([1.0, 300.0])),
        dtype=draw(st.sampled_from(dtypes)),
        seed=draw(st.integers(0, 5)),
    )
