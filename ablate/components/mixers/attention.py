"""Attention: each token reads a weighted mean of the values of the tokens it may see.

    q, k = query(pre_qk(x)), key(pre_qk(x))        v = value(pre_v(x))        split into H heads
    q, k = entropy(q, k), then position(q, k)      (QK-Norm before rotary positions: a rotation keeps its bound)
    s    = logits(scale * q kᵀ) + bias             (softcap and clamp, in the order listed)
    A    = dropout(softmax(s))                     over the keys seen: all, the past where causal, or as the mask says;
                                                   with a sink softmax([s, b]) without its last column
    y    = concat_heads(matrix(A) v)               the matrix is A itself, or made of it: α I + β A - γ C
    out  = projection(gate(x, output_norm(y)))

With `source: encoder` it is cross-attention to the encoder's output c behind its final norm, q = query(pre_qk(x)),
k = key(c), v = value(c): every query sees all of c but its padding. What compares places of one sequence (positions,
biases, masks, matrices beside the softmax) then has no meaning. With fewer heads of keys and values than of queries,
equally many queries read each: grouped queries, or multi-query attention with one.

    Vaswani et al. 2017, arXiv:1706.03762; the norm split into pre_qk and pre_v: arXiv:2405.19279, Table 3 and Fig. 40;
    grouped queries: Ainslie et al. 2023, arXiv:2305.13245, one head of keys: Shazeer 2019, arXiv:1911.02150; the gate:
    Qiu et al. 2025, arXiv:2505.06708, Eq. 5; the norm of the output: Wang et al. 2022, arXiv:2210.06423; the
    sink: OpenAI 2025, arXiv:2508.10925; cross-attention: Vaswani et al., Sec. 3.2.3.

Dimension key: B batch, T time, S length of the source (T without one), D width of the model, H heads, K width of a
head.
"""

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from ablate.block.address import ENCODER
from ablate.block.equation import grouped
from ablate.block.normal_form import components_of, one_or_more
from ablate.block.sizes import PartMaker, ValueMaker
from ablate.components.declare import (
    Cost,
    GivesBias,
    Maker,
    Mixing,
    Node,
    RegulatesLogits,
    RegulatesQueriesKeys,
    RegulatesWeights,
    Signal,
    Sizes,
    Value,
    WatchesLogits,
    arithmetic,
    component,
    earlier,
    fixed,
    implements,
    number,
    own_size,
    part,
    parts,
)
from ablate.components.inverted import refuse_inverted, turned_back, undoes
from ablate.errors import InputError

HIDE_THE_FUTURE = ("document", "padding", "window")
"""The masks that in a causal model hide later keys, as the causal mask does."""


@component(
    "attention",
    slots=("part",),
    source="Vaswani et al. 2017, arXiv:1706.03762",
    added=dict.fromkeys(("heads", "kv_heads", "head_width", "gate", "output_norm", "mask", "sink", "source")),
    version=1,
)
class Config:
    """`scale` multiplies the scores: `1/sqrt(head_width)`, or `1/head_width`; an empty norm slot is no norm.

    `dropout` is the share of the softmax's weights that is dropped in training. `heads`, `kv_heads` and `head_width`
    are the model's where they are none, with as many keys as queries. `bias` may be a list, which is added up. `gate`
    and `output_norm` act on all heads' outputs together. `mask` replaces the model's own; of a list a query sees what
    all of them show. `sink` takes part of the softmax's weights, and gives nothing. `source` is where keys and values
    come from: `encoder`, or none for the input itself.
    """

    query: Maker = part("weight")
    key: Maker = part("weight")
    value: Maker = part("weight")
    projection: Maker = part("weight")
    pre_qk: Maker | None = part("norm", optional=True)
    pre_v: Maker | None = part("norm", optional=True)
    entropy: tuple[tuple[str, PartMaker], ...] = parts("entropy")
    position: Maker | None = part("position", optional=True)
    bias: PartMaker | tuple[tuple[str, PartMaker], ...] | None = part("bias", optional=True, several=True)
    matrix: PartMaker = part("matrix")
    scale: float = arithmetic()
    dropout: float = number(at_least=0.0, below=1.0)
    heads: int | None = own_size("n_heads")
    kv_heads: int | None = own_size("kv_heads")
    head_width: int | None = own_size("head_width")
    gate: Maker | None = part("gate", optional=True)
    output_norm: Maker | None = part("norm", optional=True)
    mask: PartMaker | tuple[tuple[str, PartMaker], ...] | None = part("mask", optional=True, several=True)
    sink: PartMaker | None = part("sink", optional=True)
    source: ValueMaker | None = earlier(optional=True)

    @staticmethod
    def effective(node: Node, sizes: Sizes) -> Node:
        """The node without heads and masks of its own that are those of the model; lists in one order."""
        heads = int(fixed(node["heads"]) or sizes.n_heads)
        own = {"heads": sizes.n_heads, "kv_heads": heads, "head_width": sizes.d_model // heads}
        if sizes.kv_heads is None and sizes.head_width is None:
            node = node.replace({field: None for field, usual in own.items() if fixed(node[field]) == usual})
        biases = tuple(sorted(components_of(node["bias"]), key=lambda bias: bias.name))
        masks = tuple(sorted(components_of(node["mask"]), key=lambda mask: mask.name))
        return node.replace({"mask": effective_masks(masks, sizes.causal), "bias": one_or_more(biases)})

    def cost(self, sizes: Sizes) -> Cost:
        """Raise InputError for heads that do not fit."""
        fitting_heads(sizes)
        self.check_mask(sizes)
        self.check_sink()
        self.check_watched()
        self.check_source()
        width, out = sizes.d_model, sizes.query_width
        value = self.of_source(self.value(width, sizes.key_width), sizes)
        carried = [value, self.projection(out, width), self.matrix(sizes.d_head)]
        carried += [self.source(SOURCE)] if self.source else []
        carried += [norm(width) for norm in (self.pre_qk, self.pre_v) if norm]
        carried += [self.output_norm(out)] if self.output_norm else []
        carried += [self.gate(out, sizes.n_heads)] if self.gate else []
        carried += [self.sink(sizes.n_heads)] if self.sink else []
        carried += [mask() for mask in self.masks]
        return sum([*carried, *self.costs_of_matching(sizes)], self.cost_of_pairs(sizes))

    def check_mask(self, sizes: Sizes) -> None:
        """Raise InputError for a mask that contradicts what the matrix or the bias is made for."""
        if not self.masks:
            return
        mask, matrix = self.masks[0].config.spec.name, self.matrix.config.spec.name
        if getattr(self.matrix.config, "of_own_mask", False):
            raise InputError(
                f"attention: the matrix {matrix} is solved for the model's own mask, so that {mask} would change it\n"
                "  = set mask: none, or another matrix"
            )
        if self.biases and sizes.causal and all(getattr(mask.config, "leaks", False) for mask in self.masks):
            raise InputError(
                f"attention: in a causal model the bias {self.biases[0].config.spec.name} is that of earlier keys "
                f"alone, but the mask {mask} shows later ones\n  = set bias: none, or another mask"
            )

    def check_sink(self) -> None:
        """Raise InputError for a sink beside a matrix that has no place for one."""
        if self.sink is None:
            return
        matrix = self.matrix.config.spec.name
        if not self.attends:
            raise InputError(
                f"attention: {matrix} computes no softmax from which a sink could take\n"
                "  = set sink: none, or a gain that is not 0"
            )
        if self.centred:
            raise InputError(
                f"attention: {matrix} subtracts attention at zero query-key product, which has no sink\n"
                "  = set sink: none, or centre: 0"
            )
        if getattr(self.matrix.config, "of_own_mask", False):
            raise InputError(
                f"attention: the matrix {matrix} is solved for rows that sum to 1, from which a sink would take\n"
                "  = set sink: none, or another matrix"
            )

    def check_watched(self) -> None:
        """Raise InputError for a regulation that scales weights behind one that makes their scale irrelevant."""
        specs = [regulation.config.spec for _, regulation in self.entropy if regulation.config.spec.stage < ON_LOGITS]
        watching = [spec.name for spec in specs if getattr(spec.config, "watches", False)]
        others = [spec.name for spec in specs if spec.name not in watching]
        if watching and others:
            raise InputError(
                f"attention: behind {others[0]}, {watching[0]} would scale weights of queries and keys to no effect\n"
                "  = choose one of the two"
            )

    def check_source(self) -> None:
        """Raise InputError for a source beside what compares places of one sequence, or reads the input's tokens."""
        if self.source is None:
            return
        if self.source.name != ENCODER:
            raise InputError(
                f"attention: its source is {self.source.name}, of the model's own tokens, later ones included\n"
                f"  = set source: {ENCODER}, or none"
            )
        beside = {"position": self.position, "bias": self.bias, "mask": self.mask, "pre_v": self.pre_v}
        if wrong := [field for field, value in beside.items() if value is not None]:
            why = {
                "pre_v": "the source is read as it is, behind the norm of the encoder",
                "mask": "every query sees the whole source",
            }.get(wrong[0], "queries and keys are places of two different sequences")
            raise InputError(
                f"attention: with source: {ENCODER} it has a {wrong[0]}, but {why}\n"
                f"  = set {wrong[0]}: none where it reads {ENCODER}"
            )
        if not getattr(self.matrix.config, "takes_source", False):
            raise InputError(
                f"attention: the matrix {self.matrix.config.spec.name} needs as many queries as keys, but these are "
                f"those of the source\n  = set matrix: softmax where it reads {ENCODER}"
            )
        for field, maker in (("key", self.key), ("value", self.value)):
            if reads_elsewhere(maker):
                raise InputError(
                    f"attention: with source: {ENCODER} its {field} reads a value of the model's own tokens, of which "
                    f"there may be more or fewer than of the source\n  = choose a weight that acts on the source alone"
                )

    def of_source(self, cost: Cost, sizes: Sizes) -> Cost:
        """The cost of a weight applied to the source: that of each of its places, times their number."""
        if self.source is None or sizes.source_len is None:
            return cost
        flops, spared = (number * sizes.source_len // sizes.seq_len for number in (cost.flops, cost.spared))
        return Cost(cost.parameters, flops, spared)

    def costs_of_matching(self, sizes: Sizes) -> Iterator[Cost]:
        """The costs of queries, keys and what acts on both: always computed, without a gradient if unused.

        C v reads no queries, and reads keys only for a bias of content.
        """
        query = self.query(sizes.d_model, sizes.query_width)
        key = self.of_source(self.key(sizes.d_model, sizes.key_width), sizes)
        both = [part for part in (*(regulation for _, regulation in self.entropy), self.position) if part]
        regulations = sum((part(sizes.d_head) for part in both), Cost())
        if self.attends:
            yield from (query, key, regulations)
        elif self.centred and self.of_content:
            one_of_two = (regulations.spared + regulations.forward_only().spared) // 2
            yield from (query.forward_only(), key, replace(regulations, spared=one_of_two))
        else:
            yield from (query.forward_only(), key.forward_only(), regulations.forward_only())

    def cost_of_pairs(self, sizes: Sizes) -> Cost:
        """The cost of the bias, q kᵀ, and its softmax times v; for C v, the bias again, and its softmax times v.

        C needs no gradient if all its numbers are fixed. With no bias, mask or padding it is a running mean; what sees
        whole sequences, and what reads a source, knows their padding.
        """
        padded = sizes.padding is not None and (not sizes.causal or self.source is not None)
        attends, centred = self.attends, self.centred and bool(self.masks or self.biases or padded)
        bias = sum((bias(sizes.d_head) for bias in self.biases), Cost())
        n_keys = sizes.seq_len if self.source is None else sizes.source_len or sizes.seq_len
        product = 2 * sizes.seq_len * n_keys * sizes.query_width
        flops = (attends + centred) * bias.flops + (2 * attends + centred) * product
        fixed = centred and not (bias.parameters or self.of_content)
        return Cost(bias.parameters, flops, (attends + centred) * bias.spared + fixed * product)

    @property
    def attends(self) -> bool:
        return getattr(self.matrix.config, "attends", True)

    @property
    def centred(self) -> bool:
        """True if C v is computed."""
        return getattr(self.matrix.config, "centred", False)

    @property
    def of_content(self) -> bool:
        """True if the bias depends on queries and keys."""
        return any(getattr(bias.config, "of_content", False) for bias in self.biases)

    @property
    def biases(self) -> tuple[PartMaker, ...]:
        return makers(self.bias)

    @property
    def masks(self) -> tuple[PartMaker, ...]:
        return makers(self.mask)

    def propagate(self, x: Signal, sizes: Sizes) -> Signal:
        """E[M V Mᵀ] over random queries and keys, M what the matrix makes of attention.

        The kernel of concatenated heads is the mean of theirs. InputError for queries and keys that both start as the
        input, for random relative positions that only a centre reads, and for a sink, a skip, a bias, or values and
        projections without a fresh weight, where a source of another length is read.
        """
        from ablate.signal.attention_kernel import log_totals
        from ablate.signal.propagation import attending_with_sink

        undone = undoes(self.projection)
        refuse_inverted(
            query=self.query,
            key=self.key,
            value=self.value,
            **({} if undone == "value" else {"projection": self.projection}),
        )
        width, out, d_head = sizes.d_model, sizes.query_width, sizes.d_head
        mixing: Mixing = self.matrix(sizes)
        if self.sink and mixing.skip:
            raise InputError(
                f"attention: a sink is not forecast beside the skip of {self.matrix.config.spec.name}\n"
                "  = set sink: none, or matrix: softmax"
            )
        source = self.source_signal(mixing)
        uniform = self.at_zero_scores(sizes, mixing) if source is None else evenly(sizes.seq_len, len(source.kernel))

        def mixed(x: Signal) -> Signal:
            to_match: Signal = self.pre_qk(x, width) if self.pre_qk else x
            to_carry = self.pre_v(x, width) if self.pre_v else x
            keyed, to_carry = (to_match, to_carry) if source is None else (source, source)
            queries, keys = self.query(to_match, width, out), self.key(keyed, width, sizes.key_width)
            check_independent(queries, keys)
            scale = self.scale * d_head**0.5
            for _, regulation in self.entropy:
                if regulation.config.spec.stage >= ON_LOGITS:
                    scale *= regulation(scale**2 * queries.mean_square * keys.mean_square, sizes)
                else:
                    queries, keys = regulation(queries, d_head), regulation(keys, d_head)
            if self.position:
                queries, keys = self.position(queries, d_head), self.position(keys, d_head)
            positions = self.relative_positions(queries, sizes, mixing)
            values: Signal = self.value(to_carry, width, sizes.key_width)
            values = turned_back(to_carry, values) if undone == "value" else values
            matched, groups = (values, queries, keys, uniform), out // sizes.key_width
            if self.sink:
                biases, masks = self.biases_and_masks(sizes, mixing)
                at_zero = log_totals(biases, masks, length=sizes.seq_len, causal=sizes.causal)
                sink = self.sink(sizes)
                y = attending_with_sink(
                    *matched, at_zero, scale, sink, mixing, self.dropout, groups, sizes.n_heads, positions
                )
            else:
                y = values.attending(
                    queries, keys, uniform, scale, mixing, self.dropout, groups, sizes.n_heads, positions
                )
            y = self.output_norm(y, out) if self.output_norm else y
            y = self.gate(x, y, out, sizes.n_heads) if self.gate else y
            projected: Signal = self.projection(y, out, width)
            if self.source is not None and projected.transfer is not None:
                raise InputError(
                    f"attention to {self.source.name} is not forecast where neither values nor projection have a fresh "
                    "weight: what it adds may have much in common with the stream\n"
                    "  = give the value or the projection a random init, such as dense"
                )
            return projected

        return x.forked(lambda x: [mixed(x)])

    def source_signal(self, mixing: Mixing) -> Signal | None:
        """Every query sees the source whole; None if there is no source."""
        if self.source is None:
            return None
        self.check_source()
        if self.sink or mixing.skip or mixing.centre or mixing.bias is not None:
            raise InputError(
                f"attention to {self.source.name} is forecast with the softmax of its scores alone\n"
                "  = set sink: none, and matrix: softmax"
            )
        (source,) = self.source(SOURCE).signals
        return source  # type: ignore[no-any-return]

    def relative_positions(self, queries: Signal, sizes: Sizes, mixing: Mixing) -> Any:
        """The random scores of a bias of content, if any; InputError where only attention at zero queries is random."""
        of_content = [bias.config for bias in self.biases if getattr(bias.config, "of_content", False)]
        if not of_content:
            return None
        name = of_content[0].spec.name
        positions = of_content[0].relative_positions(sizes, self.scale * sizes.d_head**0.5)
        if mixing.centre and not mixing.gain and positions.vary(queries.kernel):
            raise InputError(
                f"attention: {name} is not forecast beside {self.matrix.config.spec.name} with a centre and no gain: "
                f"what is taken off is random\n  = set another gain, or {name}.start and init of the query: zero"
            )
        return positions

    def at_zero_scores(self, sizes: Sizes, mixing: Mixing) -> Any:
        """Attention at zero scores in each head, [1 or H, T, T]: the softmax of biases and masks."""
        from ablate.signal.attention_kernel import at_zero_scores

        biases, masks = self.biases_and_masks(sizes, mixing)
        return at_zero_scores(biases, masks, length=sizes.seq_len, causal=sizes.causal)

    def biases_and_masks(self, sizes: Sizes, mixing: Mixing) -> tuple[list[Any], list[Any]]:
        biases = [bias(sizes) for bias in self.biases] + ([] if mixing.bias is None else [mixing.bias])
        return biases, [mask(sizes) for mask in self.masks]

    def equation(self, x: str) -> str:
        return f"Attn({x})"

    def details(self) -> tuple[str, ...]:
        to_match = self.pre_qk("X") if self.pre_qk else "X"
        to_carry = self.pre_v("X") if self.pre_v else "X"
        regulations: list[Any] = [regulation for _, regulation in self.entropy]
        watching = [regulation for regulation in regulations if getattr(regulation.config, "watches", False)]
        on_pairs = [r for r in regulations if r.config.spec.stage < ON_LOGITS and r not in watching]
        on_pairs += [self.position] if self.position else []
        on_scores = [regulation for regulation in regulations if regulation.config.spec.stage >= ON_LOGITS]
        keyed, to_carry = (to_match, to_carry) if self.source is None else (f"{self.source()}", f"{self.source()}")
        query, key, value = self.query(to_match, "W^Q"), self.key(keyed, "W^K"), self.value(to_carry, "W^V")
        added = " + B" if self.biases else ""
        masks = [mask() for mask in self.masks]
        shown = " and ".join(f"({mask})" for mask in masks) if len(masks) > 1 else "".join(masks)
        hidden = "key j fills up the source" if self.source else "query i may not see key j"
        hiding = f"0 where {shown}, else -∞" if shown else f"-∞ where {hidden}, else 0"
        softmax = f"softmax(S{added} + M)"
        if self.sink:
            softmax = f"softmax([S{added} + M, {self.sink()}]) without its last column"
        pairs = f"Q = {query},  K = {key}"
        lines = [
            *([f"{pairs},  V = {value}"] if len(pairs + value) < ONE_LINE else [pairs, f"V = {value}"]),
            *(f"Q ← {change('Q')},  K ← {change('K')}" for change in on_pairs),
            f"S = {scaled(self.scale)}",
            *(f"after each step:  {change('S')}" for change in watching),
            *(f"S ← {change('S')}" for change in on_scores),
            f"A = {softmax},  M_ij = {hiding}",
            *([f"B_ij = {sum_of(bias() for bias in self.biases)}"] if self.biases else []),
            *(getattr(self.sink.config, "details", tuple)() if self.sink else []),
            *([f"A ← Dropout(A),  p = {self.dropout:g}"] if self.dropout else []),
        ]
        mixed = f"Concat({grouped(self.matrix('A'))} V)"
        mixed = self.output_norm(mixed) if self.output_norm else mixed
        mixed = self.gate("X", mixed) if self.gate else mixed
        return (f"Attn(X) = {self.projection(grouped(mixed), 'W^P')},  over {self.heads_in_words}", *lines)

    @property
    def heads_in_words(self) -> str:
        """The number of heads, where it has its own: '8 heads of 2 keys and values'."""
        of_keys = f" of {self.kv_heads} keys and values" if self.kv_heads else ""
        width = f", each {self.head_width} wide" if self.head_width else ""
        return f"{self.heads or 'H'} heads{of_keys}{width}"


def effective_masks(masks: tuple[Node, ...], causal: bool) -> Value:
    """Masks without those that others imply; none for the model's own."""
    names = {mask.name for mask in masks}
    hidden = causal and not names.isdisjoint(HIDE_THE_FUTURE)
    implied = {"full"} if len(names) > 1 else set()
    implied |= {"full", "prefix"} if hidden or "causal" in names else set()
    implied |= {"causal"} if hidden else set()
    left = tuple(mask for mask in masks if mask.name not in implied)
    return None if left == (Node("causal" if causal else "full"),) else one_or_more(left)


def evenly(queries: int, keys: int) -> Any:
    """Attention at zero scores of queries that all see the same keys, [1, T, S]."""
    import numpy as np

    return np.full((1, queries, keys), 1 / keys)


def check_independent(queries: Signal, keys: Signal) -> None:
    """Raise InputError for queries and keys of which both are the input, up to a factor: scores are then not random."""
    if queries.transfer is not None and keys.transfer is not None:
        raise InputError(
            "attention whose queries and keys both start as its input is not forecast: its scores are not random\n"
            "  = give one of the two a weight with a random init, such as dense"
        )


def makers(several: PartMaker | tuple[tuple[str, PartMaker], ...] | None) -> tuple[PartMaker, ...]:
    if isinstance(several, tuple):
        return tuple(maker for _, maker in several)
    return (several,) if several else ()


def reads_elsewhere(maker: Any) -> bool:
    """True for a weight that, by itself or by one inside it, reads a value that stands earlier."""
    if isinstance(maker, ValueMaker):
        return True
    if isinstance(maker, tuple):
        return any(reads_elsewhere(each) for each in maker)
    config = maker.config if isinstance(maker, PartMaker) else None
    return is_dataclass(config) and any(reads_elsewhere(getattr(config, each.name)) for each in fields(config))


def sum_of(terms: Iterable[str]) -> str:
    """The terms added up; one that opens with a minus is subtracted: '-m_h |i - j| + w_h,b(i - j)'."""
    return " + ".join(terms).replace("+ -", "- ")


SOURCE = "source"  # the width that a source must have: that of the model, at the places of another sequence
ONE_LINE = 80  # longer texts are split into two lines
ON_LOGITS = 1  # the stage from which regulations act on the scores


def scaled(scale: float) -> str:
    """Q Kᵀ times the scale, as arithmetic or as a number: 'Q Kᵀ/√d_k'."""
    text = f"{scale}"
    if text.startswith("1/") and grouped(text) == text and "·" not in text:
        return f"Q Kᵀ{text[1:]}"
    return "Q Kᵀ" if scale == 1 else f"{f'({text})' if '/' in text else grouped(text)} Q Kᵀ"


def fitting_heads(sizes: Sizes) -> None:
    """Raise InputError unless the model's width divides into the heads, and queries into groups that share keys."""
    if sizes.head_width is None and sizes.d_model % sizes.n_heads:
        raise InputError(
            f"attention: a width of {sizes.d_model} does not divide into {sizes.n_heads} heads\n"
            "  = choose a width that is a multiple of the number of heads, or set attention.head_width"
        )
    if sizes.kv_heads and sizes.n_heads % sizes.kv_heads:
        raise InputError(
            f"attention: {sizes.n_heads} heads of queries do not divide evenly among {sizes.kv_heads} heads of keys\n"
            "  = choose kv_heads that divides the number of heads"
        )


import torch
from jaxtyping import Float
from torch import Tensor, nn

from ablate.kernels.attend import Attend
from ablate.kernels.mask import all_of


@implements(Config)
class Attention(nn.Module):
    def __init__(self, config: Config, sizes: Sizes):
        super().__init__()
        fitting_heads(sizes)
        config.check_mask(sizes)
        config.check_sink()
        config.check_watched()
        config.check_source()
        width, out = sizes.d_model, sizes.query_width
        self.source = config.source(SOURCE) if config.source else None
        self.d_head, self.shared_by = sizes.d_head, out // sizes.key_width
        self.pre_qk = config.pre_qk(width) if config.pre_qk else None
        self.pre_v = config.pre_v(width) if config.pre_v else None
        self.query = config.query(width, out)
        self.key = config.key(width, sizes.key_width)
        self.value = config.value(width, sizes.key_width)
        self.entropy = nn.ModuleDict({name: regulation(sizes.d_head) for name, regulation in config.entropy})
        self.position = config.position(sizes.d_head) if config.position else None
        self.watching = tuple(m for m in self.entropy.values() if isinstance(m, WatchesLogits))
        biases = [bias(sizes.d_head) for bias in config.biases]
        self.bias: nn.Module | None
        if isinstance(config.bias, tuple):  # each at an address of its own
            self.bias = nn.ModuleDict(dict(zip((name for name, _ in config.bias), biases, strict=True)))
        else:
            self.bias = biases[0] if biases else None
        self.matrix = config.matrix(sizes.d_head)
        for regulation in self.entropy.values():
            if isinstance(regulation, RegulatesWeights):
                regulation.on_weights(self.query, self.key)
        self.sink = config.sink(sizes.n_heads) if config.sink else None
        self.attend = Attend(
            causal=sizes.causal and self.source is None,
            scale=config.scale,
            logits=tuple(m.on_logits for m in self.entropy.values() if isinstance(m, RegulatesLogits)),
            biases=tuple(m.bias for m in (*biases, self.matrix) if isinstance(m, GivesBias)),
            dropout=config.dropout,
            mask=all_of(tuple(mask().mask for mask in config.masks)),
            sink=self.sink.logits if self.sink else None,
            elsewhere=self.source is not None,
        )
        self.output_norm = config.output_norm(out) if config.output_norm else None
        self.gate = config.gate(out, sizes.n_heads) if config.gate else None
        self.projection = config.projection(out, width)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        to_match = x if self.pre_qk is None else self.pre_qk(x)
        to_carry = x if self.pre_v is None else self.pre_v(x)
        keyed, to_carry = (to_match, to_carry) if self.source is None else (self.source(), self.source())
        q, k, v = self.heads(self.query(to_match)), self.heads(self.key(keyed)), self.heads(self.value(to_carry))
        for regulation in self.entropy.values():
            if isinstance(regulation, RegulatesQueriesKeys):
                q, k = regulation.on_queries_keys(q, k)
        if self.position is not None:
            q, k = self.position(q, k)
        if self.shared_by > 1:
            k, v = k.repeat_interleave(self.shared_by, dim=1), v.repeat_interleave(self.shared_by, dim=1)
        if self.watching and self.training and torch.is_grad_enabled():
            largest = self.attend.largest(q, k)
            for regulation in self.watching:
                regulation.watch(largest)
        y = self.matrix(self.attend, q, k, v).transpose(1, 2).flatten(2)
        y = y if self.output_norm is None else self.output_norm(y)
        y = y if self.gate is None else self.gate(x, y)
        out: Tensor = self.projection(y)
        return out

    def heads(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B H T K"]:
        return x.reshape(*x.shape[:2], -1, self.d_head).transpose(1, 2)
