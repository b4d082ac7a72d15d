"""A whole model as data: the block, repeated, and the parts around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ablate.block.added import added
from ablate.block.arithmetic import Expression, parse
from ablate.block.config_values import Surroundings
from ablate.block.expression import Block, Gain, Node, Sequence, walk
from ablate.block.sizes import Sizes
from ablate.errors import InputError

ARITHMETIC: Mapping[str, str] = {
    "embedding_std": "model.embedding.std",
    "embedding_scale": "model.embedding.scale",
    "position_std": "model.position.learned",
    "logit_scale": "model.logit_scale",
}
"""The fields of an architecture that are arithmetic in its sizes, and where a space sets them."""


@dataclass(frozen=True, slots=True)
class Share:
    """Layers that use the parameters of others (`sharing.py`); exactly one of the two is set.

    >>> [[share.source(layer) for layer in range(1, 6)] for share in (Share(cycle=2), Share(repeat=2))]
    [[1, 2, 1, 2, 1], [1, 1, 3, 3, 5]]
    """

    cycle: int | None = None
    repeat: int | None = None

    def source(self, layer: int) -> int:
        """Return the layer whose parameters a layer uses, which may be itself."""
        if self.cycle is not None:
            return (layer - 1) % self.cycle + 1
        return layer - (layer - 1) % (self.repeat or 1)

    def __str__(self) -> str:
        """Return it as a space writes it."""
        return f"{{repeat: {self.repeat}}}" if self.cycle is None else f"{{cycle: {self.cycle}}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """n_layers copies of `block` between an embedding and a head.

        x_0 = entry_norm(dropout(scale·E[tokens] + positions));  x_l = block_l(x_{l-1})
        logits = logit_scale·final_norm(x_L)·Uᵀ;  with a softcap c, c·tanh(logits/c)

    `embedding_std` and `position_std` are standard deviations of normal initialisations; `embedding_scale` multiplies
    the embedding's output only (a tied head uses E unscaled), `embedding_dropout` is the share of x_0 that is dropped
    in training. U = E where `tied`. `positions` are the model's: none, learned or sinusoidal; `position_std` and
    `position_rows`, how many of them there are, are None unless they are learned. `init` is the scheme of every weight
    that does not name its own, the untied head included. `share` lets layers use the parameters of others. `ahead` is
    how many blocks more predict tokens further ahead, each one of them, in training alone (`compiler/ahead.py`).
    `encoder_layers` are those of an encoder (None: as many as of the decoder), `input_shape` is the shape of what is
    read in place of tokens: (times, features), or (channels, height, width). `segments` are the rows of the table that
    tells the parts of a sequence apart, `transform` is the activation of a layer before the head
    (`compiler/encoder.py`), and `classes` is how many are predicted of a whole sequence beside its tokens. `patch` is
    the side of the patches that images are cut into, `pooling` what is read of the tokens behind the last layer:
    `class_token` or `mean`. `head_init` is the scheme of the head's matrix (None: `init`), and `head_layer` puts a
    layer before that matrix (`compiler/classifier.py`).
    """

    kind: str
    sizes: Sizes
    block: Block
    positions: str
    embedding_std: Expression
    embedding_scale: Expression
    embedding_dropout: float
    position_std: Expression | None
    position_rows: int | None
    logit_scale: Expression
    tied: bool
    entry_norm: Node | None
    final_norm: Node | None
    init: Node
    logit_softcap: float | None = added(None)
    share: Share | None = added(None)  # noqa: RUF009  an immutable field
    ahead: int = added(0)
    encoder_layers: int | None = added(None)
    input_shape: tuple[int, ...] = added(())
    segments: int = added(0)
    transform: str = added("none")
    classes: int = added(0)
    patch: int | None = added(None)
    pooling: str | None = added(None)
    head_init: Node | None = added(None)  # noqa: RUF009  an immutable field
    head_layer: bool = added(False)

    def sources(self) -> tuple[int, ...]:
        """Return, for each layer, the one whose parameters it uses: its own number, unless layers are shared."""
        layers = range(1, self.sizes.n_layers + 1)
        return tuple(layer if self.share is None else self.share.source(layer) for layer in layers)

    def tokens_ahead(self) -> range:
        """Return the tokens that blocks of their own predict, by how far ahead they are: from the second on."""
        return range(2, self.ahead + 2)

    def of_encoder(self) -> Architecture:
        """Return the encoder's stack of layers: bidirectional, over the source; InputError without a length of it."""
        sizes = self.sizes
        if sizes.source_len is None:
            raise InputError("an encoder needs the length of its source\n  = give it: model.source")
        layers = self.encoder_layers or sizes.n_layers
        sizes = replace(sizes, n_layers=layers, seq_len=sizes.source_len, causal=False, source_len=None)
        return replace(self, sizes=sizes, ahead=0)

    def transform_norm(self) -> Node:
        """Return the norm of the layer before the head: as the entry norm, or the final one; InputError without any."""
        norm = self.entry_norm or self.final_norm
        if norm is None:
            raise InputError(
                "model.transform has a norm of the kind of model.entry_norm or model.final_norm, but there is neither\n"
                "  = set one of them, or transform: none"
            )
        return norm

    def number(self, field: str) -> float:
        """Return the value of one of its `ARITHMETIC` fields at its sizes; InputError if it has none above 0."""
        expression: Expression = getattr(self, field)
        value = Surroundings(self.sizes.at(None)).number(expression, ARITHMETIC[field])
        if value <= 0:
            raise InputError(
                f"{ARITHMETIC[field]} is {expression.text}, which is {value:g} at these sizes\n"
                "  = it must be greater than 0"
            )
        return value

    def numbers(self) -> dict[str, float]:
        """Return the values of all its `ARITHMETIC` fields that are set."""
        return {field: self.number(field) for field in ARITHMETIC if getattr(self, field) is not None}

    def rows(self) -> int:
        """Return the number of learned positions, 0 if none are learned; InputError if it is less than the context."""
        if self.positions != "learned" or self.position_rows is None:
            return 0
        if self.position_rows < self.sizes.seq_len:
            raise InputError(
                f"model.position has {self.position_rows:,} rows for a context of {self.sizes.seq_len:,} tokens\n"
                "  = give it at least as many rows as model.context"
            )
        if self.position_rows < (self.sizes.source_len or 0):
            raise InputError(
                f"model.position has {self.position_rows:,} rows for a source of {self.sizes.source_len:,} positions\n"
                "  = give it at least as many rows as model.source"
            )
        return self.position_rows

    def names(self) -> frozenset[str]:
        """Return the sizes that anything in the model depends on by name, such as `width` and `repetition`."""
        own = [expression for field in ARITHMETIC if (expression := getattr(self, field)) is not None]
        return sizes_named(Sequence((*self.block, *self.around()))).union(*(expression.names() for expression in own))

    def around(self) -> tuple[Node, ...]:
        """Return the components that are not in the block."""
        parts = (self.entry_norm, self.final_norm, self.init, self.head_init)
        return tuple(part for part in parts if part is not None)


def sizes_named(block: Block) -> frozenset[str]:
    """Return the sizes that the arithmetic and the gains of a block name."""
    values = [value for node in walk(block) for _, value in node.fields]
    written = [value.value if isinstance(value, Gain) else value for value in values]
    return frozenset().union(*(value.names() for value in written if isinstance(value, Expression)))


def plain_decoder(
    block: Block, sizes: Sizes, *, init: Node, embedding_std: float = 0.02, final_norm: Node | None = None
) -> Architecture:
    """Make a decoder with nothing around its blocks but an embedding, a head of its own, and perhaps a final norm."""
    return Architecture(
        kind="decoder",
        sizes=sizes,
        block=block,
        positions="none",
        embedding_std=parse(embedding_std),
        embedding_scale=parse(1),
        embedding_dropout=0.0,
        position_std=None,
        position_rows=None,
        logit_scale=parse(1),
        tied=False,
        entry_norm=None,
        final_norm=final_norm,
        init=init,
    )
