"""`pre_ln`, written as an expression, is the Pre-LN block that anyone would write in PyTorch."""

import copy
import math

import pytest
import torch
from builders import CATALOGUE, SIZES, architecture, node, pre_ln
from torch import nn
from torch.nn import functional as F

from ablate.compiler import compile_model

pytestmark = pytest.mark.fast

# Ours on the left, the names of the hand-written block on the right.
BLOCK_NAMES = {
    "attention_norm.scale": "norm1.weight",
    "attention_norm.bias": "norm1.bias",
    "attention.query.weight": "query.weight",
    "attention.query.bias": "query.bias",
    "attention.key.weight": "key.weight",
    "attention.key.bias": "key.bias",
    "attention.value.weight": "value.weight",
    "attention.value.bias": "value.bias",
    "attention.projection.weight": "projection.weight",
    "attention.projection.bias": "projection.bias",
    "mlp_norm.scale": "norm2.weight",
    "mlp_norm.bias": "norm2.bias",
    "mlp.up.weight": "up.weight",
    "mlp.up.bias": "up.bias",
    "mlp.down.weight": "down.weight",
    "mlp.down.bias": "down.bias",
}


class PreLN(nn.Module):
    """A Pre-LN decoder block by hand, with an attention that spells out its mask and its softmax."""

    def __init__(self, width, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-5), nn.LayerNorm(width, eps=1e-5)
        self.query, self.key, self.value, self.projection = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))

    def attention(self, h):
        n_batch, n_times, width = h.shape
        q, k, v = (
            linear(h).view(n_batch, n_times, self.n_heads, -1).transpose(1, 2)
            for linear in (self.query, self.key, self.value)
        )
        scores = q @ k.transpose(-1, -2) / math.sqrt(width // self.n_heads)
        future = torch.ones(n_times, n_times, dtype=torch.bool).triu(1)
        mixed = scores.masked_fill(future, -math.inf).softmax(-1) @ v
        return self.projection(mixed.transpose(1, 2).reshape(n_batch, n_times, width))


class ByHand(nn.Module):
    """The decoder around it: learned positions, final LayerNorm, an untied head."""

    def __init__(self, sizes):
        super().__init__()
        self.tokens = nn.Embedding(sizes.vocab_size, sizes.d_model)
        self.positions = nn.Parameter(torch.zeros(sizes.seq_len, sizes.d_model))
        self.blocks = nn.ModuleList(PreLN(sizes.d_model, sizes.n_heads) for _ in range(sizes.n_layers))
        self.norm = nn.LayerNorm(sizes.d_model, eps=1e-5)
        self.head = nn.Linear(sizes.d_model, sizes.vocab_size, bias=False)

    def forward(self, tokens):
        x = 2.5 * self.tokens(tokens) + self.positions[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def names():
    pairs = {
        "embedding.weight": "tokens.weight",
        "positions.weight": "positions",
        "final_norm.scale": "norm.weight",
        "final_norm.bias": "norm.bias",
        "head.weight": "head.weight",
    }
    for layer in range(SIZES.n_layers):
        pairs |= {f"layers.{layer + 1}.{ours}": f"blocks.{layer}.{theirs}" for ours, theirs in BLOCK_NAMES.items()}
    return pairs


def both(dtype, norm_eps=1e-5):
    """Our model and the hand-written one, with the same random parameters."""
    dense, norm = node("dense", bias=True), node("layer_norm", eps=norm_eps, scale=True, bias=True)
    attention = node("attention", **dict.fromkeys(("query", "key", "value", "projection"), dense))
    block = pre_ln(norm, attention=attention, mlp=node("mlp", activation="gelu", up=dense, down=dense))
    around = {"positions": "learned", "final_norm": norm, "embedding_scale": 2.5, "init": node("fan_in", gain=1.0)}
    ours = compile_model(architecture(block, **around), CATALOGUE, dtype=dtype)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in ours.named_parameters():
            spread = 0.3 if parameter.ndim > 1 and "embedding" not in name else 0.5
            parameter += (spread * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)).to(dtype)
    theirs = ByHand(SIZES).to(dtype)
    renamed = {names()[name]: value.clone() for name, value in ours.state_dict().items()}
    assert len(renamed) == len(ours.state_dict())
    theirs.load_state_dict(renamed, strict=True)
    return ours, theirs


def relative_errors(ours, theirs, tokens):
    """The largest difference relative to the largest number, for the logits and the gradient of each parameter."""
    targets = tokens.roll(-1, 1)
    logits = []
    for model in (ours, theirs):
        logits.append(model(tokens))
        F.cross_entropy(logits[-1].flatten(0, 1), targets.flatten()).backward()
    gradients = dict(theirs.named_parameters())
    errors = {"logits": difference(*logits)}
    for ours_name, parameter in ours.named_parameters():
        errors[ours_name] = difference(parameter.grad, gradients[names()[ours_name]].grad)
    return errors


def difference(a, b):
    return ((a - b).abs().max() / b.abs().max()).item()


def tokens():
    return torch.randint(SIZES.vocab_size, (4, SIZES.seq_len), generator=torch.Generator().manual_seed(0))


# A bias on keys moves every score of a query alike, so its true gradient is 0 and has no relative error.
def without_key_bias(errors):
    return {name: error for name, error in errors.items() if not name.endswith("key.bias")}


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_outputs_and_every_gradient_agree(dtype, tolerance):
    ours, theirs = both(dtype)
    errors = without_key_bias(relative_errors(ours, theirs, tokens()))
    assert max(errors.values()) < tolerance, errors
    key_bias = [p.grad.abs().max() for name, p in ours.named_parameters() if name.endswith("key.bias")]
    others = max(p.grad.abs().max() for p in ours.parameters())
    assert max(key_bias) < tolerance * others


def test_the_same_parameters_no_more_and_no_less():
    ours, theirs = both(torch.float64)
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters())
    assert set(names()) == {name for name, _ in ours.named_parameters()}


@pytest.mark.parametrize("change", ["eps", "scale", "weight"])
def test_a_small_difference_is_seen(change):
    ours, theirs = both(torch.float64, norm_eps=1.001e-5 if change == "eps" else 1e-5)
    if change == "scale":
        ours.layers["2"].attention.attend.scale *= 1 + 1e-6
    if change == "weight":
        with torch.no_grad():
            ours.layers["1"].mlp.up.weight[0, 0] += 1e-6
    errors = without_key_bias(relative_errors(ours, theirs, tokens()))
    assert max(errors.values()) > 1e-10


def test_three_steps_of_adamw_keep_them_together():
    ours, theirs = both(torch.float64)
    start = copy.deepcopy(ours.state_dict())
    optimizers = [torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1) for model in (ours, theirs)]
    for step in range(3):
        batch = (tokens() + step) % SIZES.vocab_size
        for model, optimizer in zip((ours, theirs), optimizers, strict=True):
            optimizer.zero_grad()
            F.cross_entropy(model(batch).flatten(0, 1), batch.roll(-1, 1).flatten()).backward()
            optimizer.step()
    moved = theirs.state_dict()
    for name, value in without_key_bias(ours.state_dict()).items():
        torch.testing.assert_close(value, moved[names()[name]], rtol=1e-7, atol=1e-9)
        assert not torch.equal(value, start[name])
