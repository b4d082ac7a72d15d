"""The kernels of a model and why, asked of the model on the meta device; the same as those that then compute it."""

import pytest
import torch
from builders import CATALOGUE, SIZES, architecture, node
from torch import nn

from ablate.block.expression import Sequence
from ablate.compiler import compile_model
from ablate.kernels import Attend, BackendChoice, explain, flex
from ablate.kernels.attend import BACKENDS

pytestmark = pytest.mark.fast


def model(device="meta", dtype=torch.float32, **fields):
    block = Sequence((node("attention", **fields),))
    return compile_model(architecture(block), CATALOGUE, device=device, dtype=dtype)


def tokens(device="meta"):
    return torch.zeros(1, SIZES.seq_len, dtype=torch.int64, device=device)


@pytest.fixture
def on_cuda(monkeypatch):
    monkeypatch.setattr(flex, "missing", lambda: "")


def test_each_attention_by_its_address():
    plain = BackendChoice("sdpa", "first choice on cpu")
    assert explain(model(), tokens(), device_type="cpu") == {"layers.1.attention": plain, "layers.2.attention": plain}


def test_maps_biases_and_dropout_are_counted(on_cuda):
    def chosen(device_type, **fields):
        (choice,) = set(explain(model(**fields), tokens(), device_type=device_type).values())
        return choice

    assert chosen("cuda").name == "xformers"
    assert chosen("cuda", bias=node("alibi")).name == "xformers"
    capped = chosen("cuda", entropy=(node("softcap", cap=30.0),))
    assert capped.name == "eager"
    assert "flex needs heads at least 16 wide" in capped.reason  # heads are 8 wide here
    assert chosen("cpu", dropout=0.1) == BackendChoice("sdpa", "sdpa holds all scores for dropout on cpu")


def test_the_type_that_attention_is_computed_in(on_cuda):
    (double,) = set(explain(model(dtype=torch.float64), tokens(), device_type="cuda").values())
    assert "xformers does not compute in float64" in double.reason
    (named,) = set(explain(model(), tokens(), device_type="cuda", dtype="float64").values())
    assert named == double


def test_a_bias_that_learns_is_seen_without_gradients_too(on_cuda):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Parameter(torch.zeros(1, 2, 12, 12, device="meta"))
            self.attend = Attend(causal=True, scale=0.3, biases=(lambda q, k, scale: self.table,))

        def forward(self, x):
            return self.attend(x, x, x)

    x = torch.zeros(1, 2, 12, 32, device="meta")
    with torch.no_grad():
        found = explain(Model(), x, device_type="cuda")
    assert found[""].name == "flex"


@pytest.mark.parametrize("fields", [{}, {"bias": node("alibi")}, {"entropy": (node("clamp", bound=8.0),)}])
def test_what_is_said_is_what_is_used(fields, monkeypatch):
    said = {choice.name for choice in explain(model(**fields), tokens(), device_type="cpu").values()}
    used = set()

    def spying(name, backend):
        return lambda *args, **asked: used.add(name) or backend(*args, **asked)

    for name, backend in list(BACKENDS.items()):
        monkeypatch.setitem(BACKENDS, name, spying(name, backend))
    model(device="cpu", **fields)(tokens("cpu"))
    assert used == said


def test_nothing_is_left_on_the_model():
    compiled = model()
    explain(compiled, tokens())
    assert not any(module._forward_pre_hooks for module in compiled.modules())
