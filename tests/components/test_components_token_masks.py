"""Masks that follow from the tokens: documents and padding, in models, against NumPy over the pairs that are seen."""

import copy
import gc
import math
import pickle
import weakref
from dataclasses import replace

import numpy as np
import pytest
import torch
from builders import CATALOGUE, SIZES, architecture, node, residual, sequence

from ablate.api import load_block
from ablate.compiler import compile_block, compile_model, size_report
from ablate.components.masks.document import DocumentMask, document_mask
from ablate.components.masks.padding import PaddingMask
from ablate.errors import InputError
from ablate.kernels import Attend
from ablate.kernels.gate import THIS_PROCESS, sites
from ablate.plan.models import leaking
from ablate.plan.size import cost
from ablate.probes.watch import watching

END, FILLING = 3, 5
TOKENS = np.array([[1, END, 2, 4, 6, END, END, 7, 1, 2], [2, 4, 7, 1, 6, 2, 8, FILLING, FILLING, FILLING]])
DOCUMENTS = np.array([[0, 0, 1, 1, 1, 1, 2, 3, 3, 3], [0] * 10])
T = 10
ROWS, COLUMNS = np.indices((T, T))


def past(causal):
    return (ROWS >= COLUMNS) if causal else np.ones((T, T), dtype=bool)


def same_document(causal):
    return (DOCUMENTS[:, :, None] == DOCUMENTS[:, None, :]) & past(causal)


def real(causal):
    return (TOKENS != FILLING)[:, None, :] & past(causal) | np.eye(T, dtype=bool)


def near(causal):
    return (ROWS - COLUMNS < 3) & ((ROWS >= COLUMNS) if causal else (COLUMNS - ROWS < 3))


DOCUMENT = node("document", of="tokens", separator=float(END))
PADDING = node("padding", token=float(FILLING), of="tokens")
WINDOW = node("window", size=3.0)
MASKS = {
    "document": (DOCUMENT, same_document),
    "padding": (PADDING, real),
    "near in the document": ((DOCUMENT, WINDOW), lambda causal: same_document(causal) & near(causal)),
    "all three": ((WINDOW, PADDING, DOCUMENT), lambda causal: same_document(causal) & near(causal) & real(causal)),
    "the past, not all": ((node("full"), node("causal")), lambda causal: (ROWS >= COLUMNS)[None]),
}
NAMES = pytest.mark.parametrize("name", MASKS)
CAUSAL = pytest.mark.parametrize("causal", [True, False])


def model_of(mask, *, causal=True, layers=2, dtype=torch.float64, **fields):
    sizes = replace(SIZES, causal=causal, seq_len=T, n_layers=layers)
    block = sequence(residual(node("attention", mask=mask, **fields)))
    whole = architecture(block, sizes=sizes, init=node("normal", std=0.3))
    return compile_model(whole, CATALOGUE, dtype=dtype)


def logits_of(model, seen, tokens=TOKENS):
    """The decoder of two heads, eight wide, written out: a sum over the pairs seen, in torch for its gradients."""
    w = dict(model.named_parameters())
    x = 50.0 * w["embedding.weight"][torch.from_numpy(tokens)]
    shown = torch.from_numpy(np.broadcast_to(seen, (len(tokens), *seen.shape[-2:])).copy())[:, None]
    for layer in range(1, 3):
        q, k, v = (
            (x @ w[f"layers.{layer}.attention.{name}.weight"].mT).unflatten(-1, (2, 8)).transpose(1, 2)
            for name in ("query", "key", "value")
        )
        weights = torch.exp(torch.einsum("bhtk,bhsk->bhts", q, k) / math.sqrt(8)) * shown
        y = torch.einsum("bhts,bhsk->bhtk", weights / weights.sum(-1, keepdim=True), v)
        x = x + y.transpose(1, 2).flatten(2) @ w[f"layers.{layer}.attention.projection.weight"].mT
    return x @ w["head.weight"].mT


def gradients(model, logits):
    weights = torch.from_numpy(np.random.default_rng(0).normal(size=tuple(logits.shape)))
    return torch.autograd.grad((logits * weights).sum(), list(model.parameters()))


@CAUSAL
@NAMES
def test_the_model_is_that_over_the_pairs_that_are_seen(name, causal):
    mask, seen = MASKS[name]
    model = model_of(mask, causal=causal)
    actual, expected = model(torch.from_numpy(TOKENS)), logits_of(model, seen(causal))
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-9)
    for mine, exact in zip(gradients(model, actual), gradients(model, expected), strict=True):
        torch.testing.assert_close(mine, exact, rtol=1e-9, atol=1e-9)
    if name != "the past, not all":
        assert not torch.allclose(expected, logits_of(model, past(causal)), atol=1e-3), "else this could not fail"


def test_documents_in_one_sequence_are_what_they_are_alone():
    packed = torch.tensor([[1, 2, 4, END, 7, 6, END, 2, 8, 1]])
    for mask, same in ((DOCUMENT, True), (None, False)):
        model = model_of(mask)
        whole = model(packed)
        alone = torch.cat([model(packed[:, a:b]) for a, b in ((0, 4), (4, 7), (7, 10))], dim=1)
        assert torch.allclose(whole, alone, atol=1e-12) == same


def test_the_separator_is_that_of_the_tokenizer_unless_one_is_given():
    sizes = replace(SIZES, seq_len=T, separator=END)
    block = sequence(residual(node("attention", mask=node("document", separator=None))))
    model = compile_model(architecture(block, sizes=sizes), CATALOGUE, dtype=torch.float64)
    torch.testing.assert_close(model(torch.from_numpy(TOKENS)), logits_of(model, same_document(True)))


@NAMES
def test_later_tokens_change_nothing_earlier_and_other_documents_nothing_at_all(name):
    model = model_of(MASKS[name][0])
    tokens, other = torch.from_numpy(TOKENS), torch.from_numpy(TOKENS).clone()
    other[0, 4] = 8
    changed = (model(tokens) != model(other)).any(-1)
    assert not changed[1].any() and not changed[0, :4].any()
    if DOCUMENT in (MASKS[name][0], *(MASKS[name][0] if isinstance(MASKS[name][0], tuple) else ())):
        assert changed[0, 4] and not changed[0, 6:].any()


def test_what_fills_up_is_seen_by_no_other_token():
    model = model_of(PADDING, causal=False)
    one, other = (torch.from_numpy(np.where(TOKENS == FILLING, FILLING, TOKENS)) for _ in range(2))
    with torch.no_grad():
        before = model(one)
        model.get_submodule("embedding").weight[FILLING] += 1.0  # type: ignore[operator]
    after = model(other)
    real_ones = torch.from_numpy(TOKENS != FILLING)
    assert torch.equal(before[real_ones], after[real_ones])
    assert not torch.equal(before[~real_ones], after[~real_ones])


def test_all_layers_of_a_pass_share_one_table():
    saved = []

    def keep(tensor):
        if tensor.shape[-2:] == (T, T) and tensor.dtype == torch.float32:
            saved.append((tuple(tensor.shape), tensor.untyped_storage().data_ptr()))
        return tensor

    model = model_of((DOCUMENT, WINDOW), layers=4, dtype=torch.float32)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        model(torch.from_numpy(TOKENS))
    tables = {place for shape, place in saved if shape[:2] == (2, 1)}
    assert len(tables) == 1, "one for all four layers"
    assert not [shape for shape, _ in saved if shape[:2] == (2, 2)], "and none for each head"


def test_each_pass_has_the_mask_of_its_own_tokens():
    model = model_of(DOCUMENT)
    other = np.roll(TOKENS, 3, axis=1)
    first, second = model(torch.from_numpy(TOKENS)), model(torch.from_numpy(other))
    rolled = torch.from_numpy(other)
    ends = (other == END).astype(int)
    documents = ends.cumsum(1) - ends
    seen = (documents[:, :, None] == documents[:, None]) & past(True)
    torch.testing.assert_close(second, logits_of(model, seen, other))
    rolled.copy_(torch.from_numpy(TOKENS))  # the same tensor, with other tokens in it
    torch.testing.assert_close(model(rolled), first)


def test_it_can_be_copied_and_has_no_parameters():
    model = model_of((DOCUMENT, WINDOW))
    plain = model_of(None)
    assert [name for name, _ in model.named_parameters()] == [name for name, _ in plain.named_parameters()]
    tokens = torch.from_numpy(TOKENS)
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        with torch.no_grad():
            copied.get_submodule("embedding").weight += 0.01
        assert not torch.equal(copied(tokens), model(tokens))
        torch.testing.assert_close(copied(tokens), logits_of(copied, same_document(True) & near(True)))


def test_a_mask_of_a_batch_is_equal_to_itself_alone():
    one, other = (document_mask(torch.from_numpy(TOKENS), {}, END, True) for _ in range(2))
    assert one == one and one != other and len({one, other}) == 2
    assert one.of_one().batch == 1 and one.of_one().documents.tolist() == DOCUMENTS[:1].tolist()
    filled = PaddingMask(torch.from_numpy(TOKENS != FILLING)).of_one()
    assert filled.real.tolist() == (TOKENS[1:] != FILLING).tolist()


@NAMES
def test_backends_are_checked_under_the_mask_of_one_sequence(name):
    model = model_of(MASKS[name][0], dtype=torch.float32)
    found = sites(model, lambda: model(torch.from_numpy(TOKENS)))
    assert len(found) == 2
    for site in found.values():
        assert site.mask is not None and site.mask.batch in (None, 1)
        assert THIS_PROCESS.choose(site).name == "sdpa"


def test_a_backend_that_ignores_documents_is_refused(monkeypatch):
    from ablate.kernels import gate

    def blind(q, k, v, *, mask=None, padding=None, causal=False, **options):
        return gate_sdpa(q, k, v, causal=True, **options)

    gate_sdpa = gate.BACKENDS["sdpa"]
    monkeypatch.setitem(gate.BACKENDS, "sdpa", blind)
    model = model_of(DOCUMENT, dtype=torch.float32)
    site = next(iter(sites(model, lambda: model(torch.from_numpy(TOKENS))).values()))
    assert gate.Gate().choose(site).name == "eager"


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("name", ["document", "near in the document"])
def test_flex_sees_the_same(name):
    model = model_of(MASKS[name][0], dtype=torch.float32)
    tokens = torch.from_numpy(TOKENS)
    with torch.no_grad():
        expected = model(tokens)
        for module in model.modules():
            if isinstance(module, Attend):
                module.kernel = "flex"
        torch.testing.assert_close(model(tokens), expected, rtol=1e-4, atol=1e-4)


@NAMES
def test_products_are_counted(name):
    for matrix in ("softmax", node("shaped", skip=1, gain=1, centre=1)):
        block = sequence(residual(node("attention", mask=MASKS[name][0], matrix=matrix)))
        model = architecture(block, sizes=replace(SIZES, seq_len=T))
        assert cost(model, CATALOGUE) == size_report(model, CATALOGUE)


def test_a_centre_is_over_the_same_document():
    shaped = node("shaped", skip=0, gain=0, centre=-1)
    model = model_of(DOCUMENT, layers=1, matrix=shaped)
    core = model.get_submodule("layers.1.attention.attend")
    v = torch.randn(2, 2, T, 8, dtype=torch.float64)
    seen = torch.from_numpy(same_document(True)).double()[:, None]
    rule = document_mask(torch.from_numpy(TOKENS), {}, END, True)
    core.mask = lambda: rule
    torch.testing.assert_close(core.uniform(v, v, v), seen / seen.sum(-1, keepdim=True) @ v)
    core.mask, core.padding = None, lambda: torch.from_numpy(TOKENS != FILLING)
    seen = torch.from_numpy((TOKENS != FILLING)[:, None, :] & past(True)).double()[:, None]
    torch.testing.assert_close(core.uniform(v, v, v), seen / seen.sum(-1, keepdim=True).clamp(min=1) @ v)


def test_entropy_is_over_what_is_seen_and_over_real_queries():
    from ablate.probes.registry import select

    model = model_of(None, layers=1, causal=False)
    core = model.get_submodule("layers.1.attention.attend")
    core.padding = lambda: torch.from_numpy(TOKENS != FILLING)
    found = []
    core.register_forward_pre_hook(lambda _, qkv: found.extend(qkv))
    with watching(model.eval(), select(("attention_entropy",))) as readings:
        model(torch.from_numpy(TOKENS))
    q, k = (x.detach().numpy() for x in found[:2])
    scores = np.where((TOKENS != FILLING)[:, None, None, :], np.einsum("bhtk,bhsk->bhts", q, k) / math.sqrt(8), -np.inf)
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    entropy = -(weights * np.log(np.where(weights > 0, weights, 1))).sum(-1)
    expected = entropy.transpose(0, 2, 1)[TOKENS != FILLING].mean()
    assert float(readings[0].value) == pytest.approx(expected, rel=1e-10)
    assert abs(entropy.mean() - expected) > 1e-6


def test_the_largest_logit_is_over_what_is_seen():
    model = model_of(DOCUMENT, layers=1)
    core = model.get_submodule("layers.1.attention.attend")
    rule = document_mask(torch.from_numpy(TOKENS), {}, END, True)
    core.mask, core.padding = lambda: rule, lambda: torch.from_numpy(TOKENS != FILLING)
    q, k = (torch.randn(2, 2, T, 8, dtype=torch.float64) for _ in range(2))
    seen = same_document(True) & (TOKENS != FILLING)[:, None, :]
    scores = np.where(seen[:, None], np.einsum("bhtk,bhsk->bhts", q.numpy(), k.numpy()) / math.sqrt(8), -np.inf)
    np.testing.assert_allclose(core.largest(q, k).numpy(), scores.max((0, 2, 3)))


@pytest.mark.parametrize(
    "mask",
    [DOCUMENT, (DOCUMENT, WINDOW), (DOCUMENT, PADDING), (DOCUMENT, PADDING, WINDOW)],
    ids=["one", "with a window", "two of tokens", "three"],
)
def test_each_mask_of_tokens_is_made_once_in_a_pass_and_gone_behind_it(mask, monkeypatch):
    made = []

    def counted(cls):
        new = cls.__init__

        def init(self, *args, **kwargs):
            made.append(weakref.ref(self))
            new(self, *args, **kwargs)

        monkeypatch.setattr(cls, "__init__", init)

    counted(DocumentMask)
    counted(PaddingMask)
    model = model_of(mask, layers=4)
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            model(torch.from_numpy(TOKENS)).sum().backward()
    finally:
        gc.enable()
    assert len(made) == 3 * (1 if mask is DOCUMENT else sum(each is not WINDOW for each in mask))
    assert not [each for each in made if each() is not None], "and nothing waits for the garbage collector"


@NAMES
def test_a_pass_in_inference_mode_leaves_nothing_that_training_cannot_use(name):
    model = model_of(MASKS[name][0])
    tokens = torch.from_numpy(TOKENS)
    with torch.inference_mode():
        inside = model(tokens)
        torch.testing.assert_close(model(torch.from_numpy(TOKENS)), inside)
    outside = model(tokens)
    outside.sum().backward()
    torch.testing.assert_close(outside, inside)


def test_what_is_written_into_tokens_past_torch_counts():
    model, numbers = model_of(DOCUMENT), TOKENS.copy()
    tokens = torch.from_numpy(numbers)
    before = model(tokens)
    numbers[0, 4] = END
    assert not torch.equal(model(tokens), before)
    assert torch.equal(model(tokens), model(torch.from_numpy(numbers.copy())))


@pytest.mark.parametrize(("mask", "number"), [("document", 11.0), ("padding", 300.0)])
def test_a_token_that_there_is_not_is_refused(mask, number):
    masks = {"document": node("document", separator=number), "padding": node("padding", token=number)}
    with pytest.raises(InputError, match=rf"is {number:g}, but tokens are below 11\n  = "):
        cost(architecture(sequence(node("attention", mask=masks[mask]))), CATALOGUE)


def test_a_list_of_masks_leaks_only_if_all_of_it_does():
    def names(mask):
        return list(leaking(sequence(node("attention", mask=mask)), CATALOGUE))

    assert names((node("full"), node("causal"))) == names(DOCUMENT) == []
    assert names(node("full")) == ["full"] and names((node("full"), node("prefix", length=2.0))) == ["full", "prefix"]
    full = node("full")
    again = sequence(node("attention", mask=(full, node("causal"))), node("attention", mask=full))
    assert list(leaking(again, CATALOGUE)) == ["full"], "the same node, alone in the second"
    assert list(leaking(load_block("[attention: {mask: {cycle: [full, causal]}}]"), CATALOGUE)) == ["full"]
    assert not list(leaking(load_block("[attention: {mask: {cycle: [[document, full], causal]}}]"), CATALOGUE))


def test_a_block_alone_has_no_tokens():
    with pytest.raises(InputError, match=r"tokens is read, but is not in this model(.|\n)*  = a block"):
        compile_block(sequence(node("attention", mask=DOCUMENT)), SIZES, CATALOGUE, init=node("normal", std=0.02))


def test_a_document_mask_is_its_table():
    mask = DocumentMask(torch.from_numpy(DOCUMENTS))
    assert mask.rows(0, T, T)[:, 0].tolist() == same_document(True).tolist()
    assert mask.rows(4, 6, T)[:, 0].tolist() == same_document(True)[:, 4:6].tolist()
