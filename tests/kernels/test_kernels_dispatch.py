"""xformers' own dispatcher is asked with the very inputs: an operator by name, or why there is none."""

import sys
import types

import pytest
import torch
from fake_cuda import fake_cuda, inputs

from ablate.kernels import attend, xformers
from ablate.kernels.choose import missing_xformers
from ablate.kernels.xformers import Dispatch, dispatch

pytestmark = pytest.mark.fast

HEADER = "No operator found for `memory_efficient_attention_forward` with inputs:\n     query : shape=(2, 16, 4, 32)\n"
TOO_NEW = "requires device with capability <= (9, 0) but your GPU has capability (10, 0) (too new)"


class Operator:
    def __init__(self, name, reasons=()):
        self.NAME, self.reasons = name, list(reasons)
        self.__module__ = "xformers.ops.fmha.simulated"

    def not_supported_reasons(self, inputs):
        return self.reasons


class Simulated:
    """Stands for xformers: what its dispatcher says, and what it was asked."""

    def __init__(self, monkeypatch, *, forward=None, backward=None, failed=None):
        self.asked, self.ran = [], []

        def answering(found):
            def answer(inputs, *rest):
                self.asked.append(inputs)
                if isinstance(found, str):
                    raise NotImplementedError(found)
                return found

            return answer

        def attention(**handed):
            self.ran.append(handed)
            raise NotImplementedError("nothing is built")

        def put(name, **content):
            module = types.ModuleType(name)
            module.__dict__.update(content)
            monkeypatch.setitem(sys.modules, name, module)

        put("xformers")
        put("xformers.ops", LowerTriangularMask=type("Mask", (), {}), memory_efficient_attention=attention)
        put("xformers.ops.fmha")
        put("xformers.ops.fmha.dispatch", _dispatch_fw=answering(forward), _dispatch_bw=answering(backward))
        put("xformers.ops.fmha.common", Inputs=lambda **handed: types.SimpleNamespace(**handed))
        put("xformers.ops.fmha.simulated", BwOp=backward)
        put("xformers._cpp_lib", _cpp_library_load_exception=failed)


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    monkeypatch.setattr(xformers, "_asked", {})
    missing_xformers.cache_clear()
    yield
    missing_xformers.cache_clear()


def ask(dropout=0.0, device="cpu", **given):
    q, k, v, bias = inputs(device=device, **given)
    return dispatch(q, k, v, causal=True, scale=0.3, bias=bias, dropout=dropout)


def not_built(*names):
    return HEADER + "\n".join(
        f"`{name}` is not supported because:\n    {why}\n    xFormers wasn't build with CUDA support"
        for name, why in zip(names, ("dtype=torch.float32 (supported: {torch.float16})", TOO_NEW), strict=True)
    )


def test_a_library_that_does_not_load_is_named_with_its_reason(monkeypatch):
    failed = RuntimeError("xFormers can't load C++/CUDA extensions. xFormers was built for:\n    PyTorch …")
    failed.build_info = types.SimpleNamespace(torch_version="2.10.0+cu128")
    failed.__cause__ = OSError("libcudart.so.12: cannot open shared object file: No such file or directory")
    Simulated(monkeypatch, forward=not_built("fa2F@2.5.7-pt", "cutlassF-pt"), failed=failed)
    monkeypatch.setattr(torch, "__version__", "2.13.0+cu130")
    assert ask() == Dispatch(
        refusal="xformers has no operator here (xFormers wasn't build with CUDA support: its library, built for "
        "PyTorch 2.10.0+cu128, does not load beside PyTorch 2.13.0+cu130: libcudart.so.12: cannot open shared "
        "object file: No such file or directory)"
    )


def test_the_library_that_is_installed_here_is_asked_and_the_next_backend_is_taken(monkeypatch):
    """The real xformers beside the real torch, which it is not built for: what a fresh GPU machine has."""
    pytest.importorskip("xformers")
    import xformers._cpp_lib

    if xformers._cpp_lib._built_with_cuda:
        pytest.skip("this xformers has its kernels")
    used = []

    def spying(*args, **asked):
        used.append(asked)
        return args[2]

    monkeypatch.setitem(sys.modules["ablate.kernels.attend"].BACKENDS, "sdpa", spying)
    with fake_cuda(built="13.0"):
        found = ask(device="cuda", gradient=False)
        q, k, v, _ = inputs(gradient=False)
        attend(q, k, v, causal=True, scale=0.3)
    assert found.operators == ""
    assert found.refusal.startswith(
        "xformers has no operator here (xFormers wasn't build with CUDA support: its librar"
    )
    assert len(used) == 1


def test_the_dispatcher_says_yes_and_names_its_operators(monkeypatch):
    simulated = Simulated(monkeypatch, forward=Operator("fa2F@2.5.7-pt"), backward=Operator("cutlassB-pt"))
    assert ask() == Dispatch(operators="fa2F@2.5.7-pt, cutlassB-pt")
    assert ask(gradient=False) == Dispatch(operators="fa2F@2.5.7-pt")
    assert simulated.asked[0].query.shape == (2, 16, 4, 32)


def test_the_same_inputs_are_asked_about_once(monkeypatch):
    simulated = Simulated(monkeypatch, forward=Operator("F"), backward=Operator("B"))
    for _ in range(3):
        ask()
    assert len(simulated.asked) == 2  # forward and backward
    ask(d_head=64)
    assert len(simulated.asked) == 4


def test_a_refusal_of_the_backward_pass_is_a_refusal(monkeypatch):
    refused = HEADER + "`cutlassB-pt` is not supported because:\n    query.shape[-1] % 8 != 0"
    Simulated(monkeypatch, forward=Operator("cutlassF-pt"), backward=refused)
    assert ask().refusal == "xformers has no operator here (query.shape[-1] % 8 != 0)"


def test_with_dropout_the_backward_operator_is_that_of_the_forward_one(monkeypatch):
    Simulated(monkeypatch, forward=Operator("cutlassF-pt"), backward=Operator("cutlassB-pt", ["too wide for dropout"]))
    assert ask().operators == "cutlassF-pt, cutlassB-pt"
    assert ask(dropout=0.1).refusal == "xformers has no operator here (too wide for dropout)"


def test_of_operators_with_different_reasons_each_is_named_but_those_that_no_build_has(monkeypatch):
    said = (
        "`fa3F@0.0.0` is not supported because:\n    operator wasn't built - see `python -m xformers.info`\n"
        "`fa2F@2.5.7-pt` is not supported because:\n    dtype=torch.float32\n"
        f"`cutlassF-pt` is not supported because:\n    {TOO_NEW}"
    )
    Simulated(monkeypatch, forward=HEADER + said)
    refusal = ask().refusal
    assert refusal == f"xformers has no operator here (fa2F@2.5.7-pt: dtype=torch.float32; cutlassF-pt: {TOO_NEW})"


def test_an_import_that_fails_is_a_refusal(monkeypatch):
    def refuse():
        raise ImportError("built for another torch")

    monkeypatch.setattr(xformers, "import_ops", refuse)
    assert ask().refusal == "xformers cannot be imported (built for another torch)"


def test_a_version_without_such_a_dispatcher_says_neither(monkeypatch):
    Simulated(monkeypatch)
    monkeypatch.delattr(sys.modules["xformers.ops.fmha.dispatch"], "_dispatch_bw")
    assert ask() == Dispatch()


def test_xformers_asked_for_by_name_says_why_it_cannot(monkeypatch):
    Simulated(monkeypatch, forward=HEADER + "`cutlassF-pt` is not supported because:\n    query.shape[-1] % 8 != 0")
    with fake_cuda():
        q, k, v, _ = inputs(gradient=False)
        with pytest.raises(ValueError, match=r"kernel 'xformers': xformers has no operator here \(query.shape\[-1\]"):
            attend(q, k, v, causal=True, scale=0.3, kernel="xformers")
