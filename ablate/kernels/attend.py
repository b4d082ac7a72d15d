"""Attention by whichever backend fits: one function, and the module that wraps it at an address."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.attention.flex_attention import AuxRequest, BlockMask, create_block_mask, flex_attention

from ablate.kernels.bias import BiasSource, holds_mask, kind_of, mean_under_bias, mean_under_mask, running_mean, summed
from ablate.kernels.choose import Needs, choose, dispatch_xformers, objection
from ablate.kernels.eager import LogitMap, attend_eager, attend_eager_lse
from ablate.kernels.flex import KERNELS, ScoreMod, attend_flex, fused, past, score_mod
from ablate.kernels.mask import Mask, MaskSource, PastMask, current, held_by, kind_of_mask, named
from ablate.kernels.scale import as_given, largest_logits, working_dtype
from ablate.kernels.sdpa import attend_sdpa, attend_sdpa_sink, less_the_sink
from ablate.kernels.xformers import attend_xformers

# FlexAttention under a mask, with padding, or with its log-sum-exp: the blocks that a mask hides are skipped.
#
#     score_mod(s_ts) = maps(s_ts) + bias_ts, -∞ for padding
#
# Padding is not among the blocks: they would have to be found anew for every batch.


def attend_flex_masked(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H S K"],
    v: Float[Tensor, "B H S K"],
    *,
    causal: bool,
    scale: float,
    logits: tuple[LogitMap, ...] = (),
    bias: Float[Tensor, "#B #H T S"] | None = None,
    mask: Mask | None = None,
    padding: Bool[Tensor, "B S"] | None = None,
) -> Float[Tensor, "B H T K"]:
    """`attend_eager` without dropout. NotImplementedError on CPU if a gradient is needed."""
    if mask is None and padding is None:
        return attend_flex(q, k, v, causal=causal, scale=scale, logits=logits, bias=bias)
    mod, seen = without_padding(score_mod(logits, bias), padding), mask_blocks(mask, q, k, causal=causal)
    result: Tensor = _flex_attention(q, k, v, score_mod=mod, block_mask=seen, scale=scale)
    return result


def attend_flex_lse(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H S K"],
    v: Float[Tensor, "B H S K"],
    *,
    causal: bool,
    scale: float,
    logits: tuple[LogitMap, ...] = (),
    bias: Float[Tensor, "#B #H T S"] | None = None,
    mask: Mask | None = None,
    padding: Bool[Tensor, "B S"] | None = None,
) -> tuple[Float[Tensor, "B H T K"], Float[Tensor, "B H T"]]:
    """The same, and the log-sum-exp of each query's scores, as in `attend_eager_lse`."""
    mod, seen = without_padding(score_mod(logits, bias), padding), mask_blocks(mask, q, k, causal=causal)
    y, others = _flex_attention(q, k, v, score_mod=mod, block_mask=seen, scale=scale, return_aux=AuxRequest(lse=True))
    return y, others.lse


def _flex_attention(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Any:
    if q.device.type == "cuda":
        with torch._dynamo.config.patch(recompile_limit=KERNELS):
            return fused()(q, k, v, **options)
    if not torch.is_grad_enabled():  # on CPU it decides by the tensors alone whether a backward pass will follow
        q, k, v = q.detach(), k.detach(), v.detach()
    return flex_attention(q, k, v, **options)


def without_padding(mod: ScoreMod | None, padding: Bool[Tensor, "B S"] | None) -> ScoreMod | None:
    """The scores of `mod`, -∞ for keys that are padding."""
    if padding is None:
        return mod

    def padded(score: Tensor, b: Tensor, h: Tensor, t: Tensor, s: Tensor) -> Tensor:
        score = score if mod is None else mod(score, b, h, t, s)
        return torch.where(padding[b, s], score, -torch.inf)

    return padded


def mask_blocks(mask: Mask | None, q: Tensor, k: Tensor, *, causal: bool) -> BlockMask | None:
    """The blocks that queries see; None if it is all of them."""
    if mask is None:
        return past(q.shape[-2], k.shape[-2], q.device) if causal else None
    size = (q.shape[-2], k.shape[-2], q.device)
    if mask.batch is None:
        return _block_mask_of_places(mask, *size)
    found: BlockMask = held_by(mask, ("blocks", *size), lambda: _block_mask(mask, *size))
    return found


def _block_mask(mask: Mask, n_queries: int, n_keys: int, device: torch.device) -> BlockMask:
    def sees(b: Tensor, h: Tensor, t: Tensor, s: Tensor) -> Tensor:
        return mask.sees(b, t, s)

    return create_block_mask(sees, mask.batch, None, n_queries, n_keys, device=str(device))


_block_mask_of_places = functools.lru_cache(maxsize=16)(_block_mask)


VERSION: Final = 1
"""The version of the numbers of attention, by whichever backend: see `plan/versions.py`."""

BACKENDS: dict[str, Callable[..., Tensor]] = {
    "xformers": attend_xformers,
    "sdpa": attend_sdpa,
    "flex": attend_flex_masked,
    "eager": attend_eager,
}
WITH_LSE: dict[str, Callable[..., tuple[Tensor, Tensor]]] = {"flex": attend_flex_lse, "eager": attend_eager_lse}
"""Backends that can give the log-sum-exp of each query's scores too, with a gradient."""
MASK_IN_BIAS = frozenset({"xformers", "sdpa"})
"""Backends that take either a mask or a bias, so that a bias must contain the mask."""


def attend(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H S K"],
    v: Float[Tensor, "B H S K"],
    *,
    causal: bool,
    scale: float,
    logits: tuple[LogitMap, ...] = (),
    bias: Float[Tensor, "#B #H T S"] | None = None,
    dropout: float = 0.0,
    kernel: str | None = None,
    overwrite_bias: bool = False,
    holds_mask: bool = False,
    mask: Mask | None = None,
    padding: Bool[Tensor, "B S"] | None = None,
    sink: Float[Tensor, "H"] | None = None,
) -> Float[Tensor, "B H T K"]:
    """dropout(softmax(maps(scale · q kᵀ) + bias)) v, over past tokens only if causal, or over those that `mask` shows.

    `logits` map the scores, in this order, before bias and mask. `kernel` names the backend; if None, `choose` decides,
    and for xformers also its dispatcher. `holds_mask`: the bias is already -inf where mask or `causal` hides a key;
    `overwrite_bias`: it may be set so in place. `padding` is True for keys that are tokens: the others are seen by no
    query, and a query that sees no key gives 0. `sink` is one more logit of every query's softmax, for each head: not
    mapped, biased or hidden, of a key whose value is 0 (see `sdpa.py`).
    Raises ValueError for a kernel that does not exist or does not support the inputs.
    """
    device = q.device.type
    mask, causal = named(mask, causal=causal)
    hiding: dict[str, Any] = {"mask": mask, "padding": padding}
    needs = needs_of(q, k, v, causal=causal, logits=logits, bias=bias, dropout=dropout, sink=sink, **hiding)
    name = _backend(kernel, needs, device)
    if name == "xformers":
        dispatched = dispatch_xformers(q, k, v, causal=causal, scale=scale, bias=bias, dropout=dropout)
        if dispatched.refusal and kernel:
            raise ValueError(f"kernel {kernel!r}: {dispatched.refusal}")
        if dispatched.refusal:
            name = choose(needs, device, {"xformers": dispatched.refusal}).name
    options = _options(causal=causal, scale=scale, bias=bias, logits=logits, dropout=dropout, **hiding)
    if sink is not None:
        with as_given(device):
            if name == "sdpa":
                return attend_sdpa_sink(q, k, v, causal=causal, scale=scale, sink=sink, dropout=dropout)
            return less_the_sink(*WITH_LSE[name](q, k, v, **options), sink)
    if name in MASK_IN_BIAS:
        options |= {"overwrite_bias": overwrite_bias, "holds_mask": holds_mask}
    with as_given(device):
        return BACKENDS[name](q, k, v, **options)


def attend_lse(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H S K"],
    v: Float[Tensor, "B H S K"],
    *,
    causal: bool,
    scale: float,
    logits: tuple[LogitMap, ...] = (),
    bias: Float[Tensor, "#B #H T S"] | None = None,
    dropout: float = 0.0,
    kernel: str | None = None,
    mask: Mask | None = None,
    padding: Bool[Tensor, "B S"] | None = None,
) -> tuple[Float[Tensor, "B H T K"], Float[Tensor, "B H T"]]:
    """The result of `attend`, and log Σ_s exp(score_ts) over the keys that query t sees, both with a gradient.

    The scores are those of the softmax: maps, bias and mask included. -∞ for a query that sees no key.
    """
    device = q.device.type
    mask, causal = named(mask, causal=causal)
    given: dict[str, Any] = {"causal": causal, "logits": logits, "bias": bias, "dropout": dropout}
    given |= {"mask": mask, "padding": padding}
    name = _backend(kernel, needs_of(q, k, v, **given, lse=True), device)
    with as_given(device):
        return WITH_LSE[name](q, k, v, **_options(scale=scale, **given))


def _backend(kernel: str | None, needs: Needs, device: str) -> str:
    """Raise ValueError for a backend that does not exist or cannot."""
    if kernel is not None and kernel not in BACKENDS:
        raise ValueError(f"unknown kernel {kernel!r}: there are {', '.join(BACKENDS)}")
    if kernel and (against := objection(kernel, needs, device)):
        raise ValueError(f"kernel {kernel!r}: {against}")
    return kernel or choose(needs, device).name


def _options(*, causal: bool, scale: float, bias: Tensor | None, **others: Any) -> dict[str, Any]:
    """Only a backend that can gets the `others`, since `objection` excludes the rest."""
    return {"causal": causal, "scale": scale, "bias": bias} | {
        name: value for name, value in others.items() if isinstance(value, Tensor) or value
    }


def needs_of(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool,
    logits: tuple[LogitMap, ...],
    bias: Tensor | None,
    dropout: float,
    mask: Mask | None = None,
    padding: Tensor | None = None,
    lse: bool = False,
    sink: Tensor | None = None,
) -> Needs:
    tracked = torch.is_grad_enabled()
    bias_gradient = tracked and bias is not None and bias.requires_grad
    inputs = (q, k, v) if sink is None else (q, k, v, sink)
    return Needs(
        causal=causal,
        dtype=str(q.dtype).removeprefix("torch."),
        logit_maps=bool(logits),
        bias=kind_of(bias),
        dropout=dropout > 0,
        gradient=bias_gradient or (tracked and any(x.requires_grad for x in inputs)),
        bias_gradient=bias_gradient,
        d_head=q.shape[-1],
        mask=kind_of_mask(mask),
        padding=padding is not None,
        lse=lse,
        sink=sink is not None,
    )


class Attend(nn.Module):
    """`attend` at an address, so that probes can hook queries, keys and values as they enter it. No parameters.

    `biases` are the sources of the bias; their parameters belong to the parts that they come from. A `mask`, or a
    source that gives that of each pass, replaces `causal`, which then describes the model alone. `sink` gives one more
    logit of every softmax, for each head; `padding` gives that of each pass. `elsewhere`: keys and values are of
    another sequence than the queries. Where the padding of queries is not that of keys, or changes nothing that is
    computed, `queries` gives it to probes. `kernel` is the backend once one was chosen (see `gate`); None: chosen anew
    for every call. While `observer` is set, it receives q, k and v, and each query gets the mean of the values it sees.
    """

    kernel: str | None = None
    observer: Callable[[Tensor, Tensor, Tensor], None] | None = None
    padding: Callable[[], Tensor] | None = None
    queries: Callable[[], Tensor | None] | None = None

    def __init__(
        self,
        *,
        causal: bool,
        scale: float,
        logits: tuple[LogitMap, ...] = (),
        biases: tuple[BiasSource, ...] = (),
        dropout: float = 0.0,
        mask: MaskSource | None = None,
        sink: Callable[[], Tensor] | None = None,
        elsewhere: bool = False,
    ):
        super().__init__()
        self.causal = causal
        self.scale = scale
        self.logits = logits
        self.biases = biases
        # A bias that holds a mask holds that of a causal model.
        self.holds_mask = holds_mask(biases) and (mask is None or (causal and isinstance(mask, PastMask)))
        self.dropout = dropout
        self.mask = mask
        self.sink = sink
        self.elsewhere = elsewhere

    def forward(
        self, q: Float[Tensor, "B H T K"], k: Float[Tensor, "B H S K"], v: Float[Tensor, "B H S K"]
    ) -> Float[Tensor, "B H T K"]:
        # Under autocast a norm gives float32 queries and keys beside bfloat16 values; fused kernels need one dtype.
        dtype = working_dtype(v)
        q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
        if self.observer is not None:
            self.observer(q, k, v)
            return running_mean(v, n_queries=q.shape[-2], causal=self.causal)
        return attend(
            q,
            k,
            v,
            causal=self.causal,
            scale=self.scale,
            logits=self.logits,
            bias=self.bias(q, k),
            dropout=self.dropout if self.training else 0.0,
            kernel=self.kernel,
            overwrite_bias=True,
            holds_mask=self.holds_mask,
            mask=self.rule,
            padding=self.real_keys,
            sink=self.logits_of_sink,
        )

    def largest(self, q: Float[Tensor, "B H T K"], k: Float[Tensor, "B H S K"]) -> Float[Tensor, "H"]:
        """The largest scaled product of a query and a key that it sees, for each head; no gradient."""
        dtype = working_dtype(q)
        hiding: dict[str, Any] = {"mask": self.rule, "padding": self.real_keys}
        return largest_logits(q.to(dtype), k.to(dtype), causal=self.causal, scale=self.scale, **hiding)

    @property
    def rule(self) -> Mask | None:
        return current(self.mask)

    @property
    def real_keys(self) -> Bool[Tensor, "B S"] | None:
        """True for the keys of the pass that are no padding; None where the model has none."""
        return None if self.padding is None else self.padding()

    @property
    def real_queries(self) -> Bool[Tensor, "B T"] | None:
        """True for the queries of the pass that are no padding; None where that is not known."""
        if self.queries is not None:
            return self.queries()
        return None if self.elsewhere else self.real_keys

    @property
    def logits_of_sink(self) -> Float[Tensor, "H"] | None:
        return None if self.sink is None else self.sink()

    def bias(self, q: Float[Tensor, "B H T K"], k: Float[Tensor, "B H S K"]) -> Float[Tensor, "#B #H T S"] | None:
        """The sum of the biases of these queries and keys; None without one."""
        with as_given(q.device.type):
            return summed(self.biases, q, k, self.scale)

    def uniform(
        self, q: Float[Tensor, "B H T K"], k: Float[Tensor, "B H S K"], v: Float[Tensor, "B H S K"]
    ) -> Float[Tensor, "B H T K"]:
        """C V, attention at zero query-key product under the same mask and bias (arXiv:2311.01906, Eq. 7).

        It holds no [T, S] without a bias or a mask. A sink takes no part in it.
        """
        rule, padding = self.rule, self.real_keys
        if not self.biases and (rule is not None or padding is not None):
            with as_given(v.device.type):
                return mean_under_mask(v, rule, padding, n_queries=q.shape[-2], causal=self.causal)
        if not self.biases:
            return running_mean(v, n_queries=q.shape[-2], causal=self.causal)
        bias = self.bias(torch.zeros_like(q), k)
        assert bias is not None
        options: dict[str, Any] = {"holds_mask": self.holds_mask, "mask": rule, "padding": padding}
        with as_given(v.device.type):
            return mean_under_bias(v, bias, causal=self.causal, overwrite=True, **options)

    def needs(self, q: Tensor, k: Tensor, v: Tensor) -> Needs:
        """The needs in training, whatever the mode of the module."""
        mask, causal = named(self.rule, causal=self.causal)
        given: dict[str, Any] = {"causal": causal, "logits": self.logits, "dropout": self.dropout, "mask": mask}
        given |= {"padding": self.real_keys}
        needs = needs_of(q, k, v, bias=self.bias(q, k), sink=self.logits_of_sink, **given)
        return replace(needs, dtype=str(working_dtype(v)).removeprefix("torch."), gradient=True)
