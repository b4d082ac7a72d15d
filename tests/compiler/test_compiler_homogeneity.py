"""The blocks that Table 3 of arXiv:2405.19279 calls homogeneous are: f(kx) = k·f(x); the others are not."""

import pytest
from builders import SIZES, node, residual, sequence
from homogeneity import departure

pytestmark = pytest.mark.fast

RMS = node("rms_norm", eps=0.0)
QK_NORM = (node("qk_norm", norm=RMS),)
GAIN = "1/sqrt(2*depth)"


def table_3(*, post_qk, pre_qk, pre_v, pre_mlp, gain=GAIN):
    attention = node(
        "attention",
        entropy=QK_NORM if post_qk else (),
        pre_qk=RMS if pre_qk else None,
        pre_v=RMS if pre_v else None,
    )
    return sequence(residual(attention, gain=gain), residual(*([RMS] if pre_mlp else []), "mlp", gain=gain))


ROWS = {
    "pre_rms": (table_3(post_qk=False, pre_qk=True, pre_v=True, pre_mlp=True, gain=1), False),
    "scaled_residuals": (table_3(post_qk=False, pre_qk=True, pre_v=True, pre_mlp=True), False),
    "all_norms": (table_3(post_qk=True, pre_qk=True, pre_v=True, pre_mlp=True), False),
    "attention_norms_only": (table_3(post_qk=True, pre_qk=True, pre_v=True, pre_mlp=False), False),
    "post_qk_and_pre_v": (table_3(post_qk=True, pre_qk=False, pre_v=True, pre_mlp=False), False),
    "qk_norms_only": (table_3(post_qk=True, pre_qk=True, pre_v=False, pre_mlp=False), True),
    "pre_qk_only": (table_3(post_qk=False, pre_qk=True, pre_v=False, pre_mlp=False), True),
    "op": (table_3(post_qk=True, pre_qk=False, pre_v=False, pre_mlp=False), True),
}


@pytest.mark.parametrize("k", [0.1, 10.0])
@pytest.mark.parametrize("name", list(ROWS))
def test_homogeneous_or_not_as_the_paper_says(name, k):
    block, homogeneous = ROWS[name]
    if homogeneous:
        assert departure(block, k, SIZES) < 1e-10
    else:
        assert departure(block, k, SIZES) > 1e-2


def test_without_its_entropy_regulation_op_is_not_homogeneous():
    naive = sequence(residual("attention", gain=GAIN), residual("mlp", gain=GAIN))
    assert departure(naive, 10.0, SIZES) > 1e-2


def test_nor_with_an_activation_that_is_not():
    attention = node("attention", entropy=QK_NORM)
    gelu = sequence(residual(attention, gain=GAIN), residual(node("mlp", activation="gelu"), gain=GAIN))
    assert departure(gelu, 0.1, SIZES) > 1e-2
