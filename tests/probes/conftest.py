"""A model of two blocks with the names that probes look for, written out by hand."""

import pytest
import torch
from torch import nn

from ablate.compiler.build import Scale
from ablate.kernels import Attend


class Attention(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.core = Attend(causal=causal, scale=(width // heads) ** -0.5)

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x):
        out = self.core(self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x)))
        return out.transpose(1, 2).flatten(-2)


class Mixed(nn.Module):
    """(skip + gain) x, a number a head, as the parts that mix a skip with a branch."""

    def __init__(self, heads):
        super().__init__()
        self.heads = heads
        self.skip = Scale(0.5, trainable=True, shape=(heads, 1, 1))
        self.gain = Scale(0.25, trainable=True, shape=(heads, 1, 1))

    def forward(self, x):
        split = x.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        return (self.skip(split) + self.gain(split)).transpose(1, 2).flatten(-2)


class Block(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.attention = Attention(width, heads, causal)
        self.mlp = nn.Linear(width, width)
        self.attention_gain = Scale(0.5, trainable=True)
        self.mlp_gain = Scale(0.5, trainable=True, shape=(width,))
        self.fixed_gain = Scale(0.9)
        self.mixed = Mixed(heads)
        self.sublayers = {"attention": "attention", "mlp": "mixed"}

    def forward(self, x):
        x = x + self.attention_gain(self.attention(x))
        return self.fixed_gain(x) + self.mlp_gain(torch.relu(self.mlp(self.mixed(x))))


class Model(nn.Module):
    def __init__(self, vocabulary=11, width=8, heads=2, causal=True):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleDict({str(i): Block(width, heads, causal) for i in (1, 2)})
        self.final_norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.layers.values():
            x = block(x)
        return self.head(self.final_norm(x))


@pytest.fixture(autouse=True)
def one_thread():
    """Small tensors: a second thread would only wait, and wait badly where other tests run beside these."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def build():
    def build(dtype=torch.float64, **sizes):
        torch.manual_seed(0)
        return Model(**sizes).to(dtype)

    return build


@pytest.fixture
def tokens():
    return torch.randint(11, (3, 5), generator=torch.Generator().manual_seed(1))
