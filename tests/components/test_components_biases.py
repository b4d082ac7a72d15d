"""Biases against their equations, written here as loops over queries and keys, in float64 by NumPy."""

import copy
import math
import pickle
from dataclasses import replace
from decimal import ROUND_FLOOR, Decimal, localcontext

import numpy as np
import pytest
import torch
from builders import CATALOGUE, SIZES, architecture, default_init, node, sequence
from reading import read_block

from ablate.block.diff import diff
from ablate.block.equation import equation
from ablate.block.expression import print_block
from ablate.block.normal_form import fingerprint
from ablate.compiler import compile_block, compile_model, size_report
from ablate.components.biases.alibi import slopes
from ablate.components.biases.t5 import edges
from ablate.errors import InputError
from ablate.plan.size import cost

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 12, 16))
T, K = 12, 8
CAUSAL = pytest.mark.parametrize("causal", [True, False])


def compiled(bias, *, causal=True, sizes=SIZES, dtype=torch.float64):
    block = sequence(node("attention", bias=bias))
    sizes = replace(sizes, causal=causal)
    model = compile_block(block, sizes, CATALOGUE, init=default_init(), dtype=dtype)
    return model, {name: parameter.detach().double().numpy() for name, parameter in model.named_parameters()}


def heads(x, n_heads=2):
    return x.reshape(2, -1, n_heads, x.shape[-1] // n_heads).transpose(0, 2, 1, 3)


def attend(w, added, causal, x=X):
    """Attention with `added[b, h, i, j]` on the scores, and the output projection."""
    q, k, v = (heads(x @ w[f"attention.{name}.weight"].T) for name in ("query", "key", "value"))
    scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(K) + added
    if causal:
        scores = np.where(np.tri(scores.shape[-1], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = weights / weights.sum(-1, keepdims=True) @ v
    return mixed.transpose(0, 2, 1, 3).reshape(x.shape) @ w["attention.projection.weight"].T


def run(model, x=X):
    return model(torch.from_numpy(x)).detach().numpy()


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def looped(shape, entry):
    """[…, i, j] from a function of heads, queries and keys."""
    found = np.zeros(shape)
    for index in np.ndindex(*shape):
        found[index] = entry(*index)
    return found


# ALiBi


@pytest.mark.fast
@CAUSAL
def test_alibi_falls_with_distance_at_a_slope_for_each_head(causal):
    model, w = compiled("alibi", causal=causal)
    added = looped((2, T, T), lambda h, i, j: -(2.0 ** (-8 * (h + 1) / 2)) * abs(i - j))
    close(run(model), attend(w, added, causal))
    assert np.abs(run(model) - attend(w, added[::-1], causal)).max() > 1e-2


@pytest.mark.fast
@pytest.mark.parametrize("n_heads", [1, 2, 4, 8, 16])
def test_slopes_are_a_geometric_series_that_ends_at_2_to_the_minus_8(n_heads):
    np.testing.assert_allclose(slopes(n_heads), [2 ** (-8 * h / n_heads) for h in range(1, n_heads + 1)], rtol=1e-15)


@pytest.mark.fast
@pytest.mark.parametrize("n_heads", [3, 5, 6, 12, 20])
def test_between_powers_of_two_every_second_slope_of_the_next_one_fills_up(n_heads):
    below = 2 ** int(math.log2(n_heads))
    next_one = [2 ** (-8 * h / (2 * below)) for h in range(1, 2 * below + 1)]
    expected = [2 ** (-8 * h / below) for h in range(1, below + 1)] + next_one[::2][: n_heads - below]
    np.testing.assert_allclose(slopes(n_heads), expected, rtol=1e-15)
    assert len(set(slopes(n_heads))) == n_heads


# T5


def bucket(past, buckets, max_distance, causal):
    """b(i - j), by the logarithm that the paper's code takes, with 60 digits."""
    if not causal:
        side = buckets // 2 if past < 0 else 0
        return side + bucket(abs(past), buckets // 2, max_distance, True)
    past, exact = max(past, 0), buckets // 2
    if past < exact:
        return past
    with localcontext() as context:
        context.prec = 60
        share = (Decimal(past) / exact).ln() / (Decimal(max_distance) / exact).ln()
        # A distance that is an edge has a logarithm that is whole, but for its last digits.
        further = (share * (buckets - exact) + Decimal("1e-40")).to_integral_value(ROUND_FLOOR)
    return min(exact + int(further), buckets - 1)


@pytest.mark.fast
@CAUSAL
@pytest.mark.parametrize(("buckets", "max_distance"), [(8, 10), (6, 5), (32, 128), (4, 1000)])
def test_t5_adds_a_number_for_each_bucket_of_distances(causal, buckets, max_distance):
    node_ = node("t5", buckets=float(buckets), max_distance=float(max_distance))
    model, w = compiled(node_, causal=causal)
    numbers = w["attention.bias.weight"]
    assert numbers.shape == (2, buckets)
    added = looped((2, T, T), lambda h, i, j: numbers[h, bucket(i - j, buckets, max_distance, causal)])
    close(run(model), attend(w, added, causal))
    if not causal:
        mirrored = looped((2, T, T), lambda h, i, j: numbers[h, bucket(j - i, buckets, max_distance, causal)])
        assert np.abs(run(model) - attend(w, mirrored, causal)).max() > 1e-2


@pytest.mark.parametrize(("buckets", "max_distance"), [(32, 128), (16, 128), (2, 2), (3, 7), (64, 4096), (7, 100)])
def test_buckets_of_long_distances(buckets, max_distance):
    begins = edges(buckets, max_distance)
    found = [np.searchsorted(begins, n, side="right") - 1 for n in range(2 * max_distance)]
    assert found == [bucket(n, buckets, max_distance, True) for n in range(2 * max_distance)]


@pytest.mark.fast
def test_the_buckets_of_the_released_code():
    # N = 32, M = 128: exact up to 16 causally; 8 a side otherwise, then 8 buckets that end at 8·2^(k/2) rounded up
    assert edges(32, 128)[:17] == tuple(range(17))
    assert edges(32, 128)[-1] == math.ceil(16 * 8 ** (15 / 16))
    assert edges(16, 128) == (*range(8), *(math.ceil(8 * 2 ** (k / 2) - 1e-9) for k in range(8)))


@pytest.mark.fast
def test_an_edge_is_not_lost_to_rounding():
    """Distances that are edges exactly belong to the bucket they open; by floats some fall into the one before."""
    slipped = 0
    for buckets in range(4, 40):
        exact = buckets // 2
        for base in (2, 3, 5):
            n, m = exact * base, exact * base ** (buckets - exact)  # n is the edge of bucket `exact + 1`
            assert edges(buckets, m)[exact + 1] == n
            slipped += int(math.log(n / exact) / math.log(m / exact) * (buckets - exact)) != 1
    assert slipped > 0


@pytest.mark.fast
@pytest.mark.parametrize(
    ("fields", "causal", "because"),
    [
        ({"buckets": 8.5}, True, r"t5\.buckets is 8\.5\n  = give a whole number"),
        ({"max_distance": 9.5}, True, r"t5\.max_distance is 9\.5\n  = give a whole number"),
        ({"buckets": 7.0}, False, "an even number"),
        ({"buckets": 2.0}, False, "an even number"),
        ({"buckets": 32.0, "max_distance": 16.0}, True, "below 16 already have buckets"),
    ],
)
def test_buckets_that_do_not_exist_are_refused(fields, causal, because):
    block = sequence(node("attention", bias=node("t5", **fields)))
    with pytest.raises(InputError, match=because):
        cost(architecture(block, sizes=replace(SIZES, causal=causal)), CATALOGUE)


@pytest.mark.fast
def test_t5_starts_by_its_own_init_or_the_models():
    _, w = compiled("t5")
    assert 0.1 < w["attention.bias.weight"].std() < 0.6  # of 0.3
    _, w = compiled(node("t5", init="zero"))
    assert not w["attention.bias.weight"].any()


# Transformer-XL


def wave(n, width, base):
    """R_n: sines, then cosines."""
    frequencies = [base ** (-2 * p / width) for p in range(width // 2)]
    return np.array([math.sin(n * f) for f in frequencies] + [math.cos(n * f) for f in frequencies])


def xl_scores(w, causal, base, x=X):
    q, k = (heads(x @ w[f"attention.{name}.weight"].T) for name in ("query", "key"))
    position, u, v = (w[f"attention.bias.{name}"] for name in ("weight", "u", "v"))
    length = x.shape[1]

    def entry(b, h, i, j):
        if causal and j > i:
            return 0.0
        r = position[h * K : (h + 1) * K] @ wave(i - j, 16, base)
        return (u[h] @ k[b, h, j] + (q[b, h, i] + v[h]) @ r) / math.sqrt(K)

    return looped((2, 2, length, length), entry)


@pytest.mark.fast
@CAUSAL
@pytest.mark.parametrize("length", [12, 5, 1, 15])
def test_transformer_xl_knows_content_and_distance_apart(causal, length):
    x = RNG.normal(size=(2, length, 16))
    model, w = compiled(node("transformer_xl", base=100.0), causal=causal)
    close(run(model, x), attend(w, xl_scores(w, causal, 100.0, x), causal, x))
    if length > 1:
        assert np.abs(run(model, x) - attend(w, xl_scores(w, causal, 90.0, x), causal, x)).max() > 1e-6


@pytest.mark.fast
@CAUSAL
@pytest.mark.parametrize("scale", ["1/sqrt(head_width)", "1/head_width"])
def test_it_is_scaled_as_the_scores_are(causal, scale):
    block = sequence(node("attention", bias=node("transformer_xl", base=100.0), scale=scale))
    sizes = replace(SIZES, causal=causal)
    model = compile_block(block, sizes, CATALOGUE, init=default_init(), dtype=torch.float64)
    w = {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}
    number = {"1/sqrt(head_width)": K**-0.5, "1/head_width": 1 / K}[scale]
    # queries and u, v times a number are scores times that number
    for name in ("query.weight", "bias.u", "bias.v"):
        w[f"attention.{name}"] = w[f"attention.{name}"] * number * math.sqrt(K)
    close(run(model), attend(w, xl_scores(w, causal, 100.0), causal))


@pytest.mark.fast
def test_its_scores_are_zero_at_zero_queries_where_u_and_v_start_at_zero():
    bias = node("transformer_xl", start="zero")
    zero = node("dense", init="zero")
    blocks = [sequence(node("attention", query=zero, bias=b)) for b in (bias, None, "transformer_xl")]
    outputs = [
        compile_block(block, SIZES, CATALOGUE, init=default_init(), dtype=torch.float64)(torch.from_numpy(X))
        for block in blocks
    ]
    torch.testing.assert_close(outputs[0], outputs[1], rtol=1e-12, atol=1e-14)
    assert (outputs[2] - outputs[1]).abs().max() > 1e-2


@pytest.mark.fast
@CAUSAL
@pytest.mark.parametrize("n_heads", [1, 2, 4])
@pytest.mark.parametrize("bias", ["alibi", "t5", "transformer_xl"])
def test_products_and_parameters_are_counted(causal, n_heads, bias):
    model = architecture(
        sequence(node("attention", bias=bias)), sizes=replace(SIZES, causal=causal, n_heads=n_heads, seq_len=7)
    )
    assert cost(model, CATALOGUE) == size_report(model, CATALOGUE)
    plain = architecture(sequence(node("attention")), sizes=replace(SIZES, causal=causal, n_heads=n_heads, seq_len=7))
    more = cost(model, CATALOGUE).flops - cost(plain, CATALOGUE).flops
    distances = 7 if causal else 13
    expected = 2 * 16 * (16 * distances + 7 * distances + 7)  # r, (q + v)·r, u·k
    assert more == (2 * expected if bias == "transformer_xl" else 0)  # two layers


@pytest.mark.fast
def test_an_odd_width_is_refused():
    block = sequence(node("attention", bias="transformer_xl"))
    with pytest.raises(InputError, match="even width"):
        cost(architecture(block, sizes=replace(SIZES, d_model=15, n_heads=3)), CATALOGUE)


@pytest.mark.fast
@pytest.mark.parametrize("bias", ["alibi", "t5", "transformer_xl"])
def test_biases_are_in_float32_in_a_bfloat16_model_and_can_be_copied(bias):
    model, _ = compiled(bias)
    expected = run(model)
    close(run(copy.deepcopy(model)), expected)
    q = torch.randn(2, 2, T, K, dtype=torch.bfloat16)
    low = copy.deepcopy(model).to(torch.bfloat16).attention.bias.bias(q, q, 0.3)
    assert low.dtype == torch.float32
    part = pickle.loads(pickle.dumps(model.attention.bias)).to(torch.bfloat16)
    torch.testing.assert_close(part.bias(q, q, 0.3), low)
    close(run(model), expected)


# Several


@pytest.mark.fast
@CAUSAL
def test_a_list_is_added_up(causal):
    five = node("t5", buckets=8.0, max_distance=10.0)
    model, w = compiled(("alibi", five), causal=causal)
    numbers = w["attention.bias.t5.weight"]
    of_both = looped(
        (2, T, T),
        lambda h, i, j: numbers[h, bucket(i - j, 8, 10, causal)] - 2.0 ** (-8 * (h + 1) / 2) * abs(i - j),
    )
    close(run(model), attend(w, of_both, causal))
    other, _ = compiled((five, "alibi"), causal=causal)
    other.load_state_dict(model.state_dict())
    close(run(other), run(model))


@pytest.mark.fast
@CAUSAL
def test_all_three_are_added_up(causal):
    model, w = compiled(
        (node("transformer_xl", base=100.0), "alibi", node("t5", buckets=8.0, max_distance=10.0)), causal=causal
    )
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".bias." in name:
                parameter.copy_(torch.from_numpy(0.3 * np.random.default_rng(8).normal(size=parameter.shape)))
    w = {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}
    alone = {name.replace("bias.transformer_xl", "bias"): value for name, value in w.items()}
    numbers = w["attention.bias.t5.weight"]
    others = looped(
        (2, T, T),
        lambda h, i, j: numbers[h, bucket(i - j, 8, 10, causal)] - 2.0 ** (-8 * (h + 1) / 2) * abs(i - j),
    )
    close(run(model), attend(w, others + xl_scores(alone, causal, 100.0), causal))


@pytest.mark.fast
@CAUSAL
@pytest.mark.parametrize(
    "bias", [("alibi", "t5"), ("t5", "transformer_xl"), ("alibi", "t5", "transformer_xl")], ids=str
)
@pytest.mark.parametrize("matrix", ["softmax", "shaped", node("shaped", gain=0), node("e_spa", decay=0.1)], ids=str)
def test_products_and_parameters_of_several_are_counted(causal, bias, matrix):
    sizes = replace(SIZES, causal=causal)
    whole = replace(architecture(sequence(node("attention", bias=bias, matrix=matrix))), sizes=sizes)
    assert cost(whole, CATALOGUE) == size_report(whole, CATALOGUE)


@pytest.mark.fast
def test_a_list_of_one_is_that_one_and_is_printed_as_before():
    one, listed, none = (read_block(f"[attention: {{bias: {text}}}]") for text in ("alibi", "[alibi]", "none"))
    assert one == listed != none
    two = read_block("[attention: {bias: [alibi, {t5: {buckets: 16}}]}]")
    assert read_block(print_block(two, CATALOGUE)) == two
    assert {fingerprint(block, CATALOGUE) for block in (one, two, none)} == {
        fingerprint(block, CATALOGUE) for block in (listed, two, none)
    }
    assert len({fingerprint(block, CATALOGUE) for block in (one, two, none)}) == 3
    (edit,) = diff(one, two, CATALOGUE).edits
    assert (edit.before, edit.after) == ("alibi", "[alibi, {t5: {buckets: 16, max_distance: 128, init: none}}]")


@pytest.mark.fast
def test_layers_may_have_lists_of_their_own():
    block = read_block("[attention: {bias: {cycle: [[alibi, t5], none]}}]")
    whole = replace(architecture(block), sizes=SIZES)
    assert cost(whole, CATALOGUE) == size_report(whole, CATALOGUE)
    names = [name for name, _ in compile_model(whole, CATALOGUE, seed=0).named_parameters() if "bias" in name]
    assert names == ["layers.1.attention.bias.t5.weight"]


@pytest.mark.fast
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bias: [alibi, alibi]", "alibi is listed twice"),
        ("bias: [alibi, rope]", "rope does not fit slot bias"),
        ("bias: []", "expected one component for slot bias, got a list"),
        ("position: [rope]", "expected one component for slot position, got a list"),
    ],
    ids=str,
)
def test_lists_that_are_none(text, message):
    with pytest.raises(InputError, match=message):
        read_block(f"[attention: {{{text}}}]")


@pytest.mark.fast
def test_the_equation_adds_them_up():
    text = equation(sequence(node("attention", bias=("t5", "alibi"))), SIZES, CATALOGUE).text
    assert "B_ij = w_h,b(i - j) - m_h |i - j|" in text
