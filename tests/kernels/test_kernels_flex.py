"""FlexAttention on CPU, forward alone: unfused in every test, and compiled once."""

import itertools

import pytest
import torch
from attention_cases import MAPS, Case, close

from ablate.kernels import attend
from ablate.kernels.eager import attend_eager
from ablate.kernels.flex import fused, past, score_mod

CASES = [
    Case((2, 3, 8, 8, 4), maps="softcap", seed=1),
    Case((1, 2, 9, 9, 4), maps="both", bias="shared"),
    Case((2, 3, 17, 17, 3), bias="head", far=300.0),
    Case((2, 2, 130, 130, 16), maps="softcap", bias="batch"),
    Case((2, 2, 1, 5, 7), causal=False, maps="softcap", bias="row"),
    Case((2, 1, 7, 3, 1), causal=False),
    Case((2, 2, 9, 9, 4), scale=0.0),
    Case((2, 2, 9, 9, 4), scale=-0.3, maps="softcap", bias="head"),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.maps}-{case.bias}-{case.scale}-{case.shape}")
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_equals_eager(case):
    (q, k, v), bias = case.draw()
    with torch.no_grad():
        actual = attend(q, k, v, bias=bias, kernel="flex", **case.asked())
        close(actual, attend_eager(q, k, v, bias=bias, **case.asked()), 1e-12)


def test_a_score_is_changed_only_where_it_is_asked_for():
    assert score_mod((), None) is None
    bias = torch.arange(24.0).reshape(1, 2, 3, 4)
    mod = score_mod((lambda s: 10 * s,), bias)
    for h, t, s in itertools.product(range(2), range(3), range(4)):
        assert mod(torch.tensor(1.0), *map(torch.tensor, (1, h, t, s))) == 10 + bias[0, h, t, s]


def test_the_block_mask_is_causal_and_kept():
    device = torch.device("cpu")
    mask = past(5, 5, device)
    assert mask is past(5, 5, device)
    t, s = torch.arange(5)[:, None], torch.arange(5)
    assert torch.equal(mask.mask_mod(0, 0, t, s), torch.ones(5, 5).tril().bool())


@pytest.mark.slow
def test_compiled_it_equals_eager_for_each_bias_anew():
    for seed, maps in ((0, "softcap"), (1, "softcap"), (0, "both")):
        case = Case((1, 2, 130, 130, 16), maps=maps, bias="shared", dtype=torch.float32, seed=seed)
        drawn, bias = case.draw()
        q, k, v = (x.detach() for x in drawn)
        with torch.no_grad():
            mask = past(130, 130, q.device)
            actual = fused()(q, k, v, score_mod=score_mod(MAPS[maps], bias), block_mask=mask, scale=case.scale)
            close(actual, attend_eager(q, k, v, bias=bias, **case.asked()), 1e-5)
