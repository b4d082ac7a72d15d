"""Architecture: a whole model as data, the repeated block and what is around it, and what each kind needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import gcd, prod
from typing import Final

from ablate.block.address import ENCODER, TOKENS, address_at, name_parts, parts_of
from ablate.block.arithmetic import Expression, parse
from ablate.block.catalogue import Catalogue, ComponentSpec, InSlot, Part, Several, added
from ablate.block.expression import Block, Gain, Node, Path, Sequence, Value, ValueAddress, map_nodes, print_value, walk
from ablate.block.layers import alternatives, at_layer, has_patterns, paths_chosen
from ablate.block.normal_form import fixed, resolve
from ablate.block.sizes import Sizes, Surroundings
from ablate.errors import InputError

ARITHMETIC: Mapping[str, str] = {
    "embedding_std": "model.embedding.std",
    "embedding_scale": "model.embedding.scale",
    "position_std": "model.position.learned",
    "logit_scale": "model.logit_scale",
}
"""The fields of an architecture that are arithmetic in its sizes, and where a space sets them."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """Layers that use the parameters of others (`check_sharing`); exactly one of the two is set.

    >>> [[share.source(layer) for layer in range(1, 6)] for share in (Sharing(cycle=2), Sharing(repeat=2))]
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
    how many blocks more predict tokens further ahead, each one of them, in training alone (`compiler/values.py`).
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
    share: Sharing | None = added(None)  # noqa: RUF009  an immutable field
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
        return {field: self.number(field) for field in ARITHMETIC if getattr(self, field) is not None}

    def rows(self) -> int:
        """Return the number of learned positions, 0 if none are learned; InputError if it is less than the context."""
        if self.positions != "learned" or self.position_rows is None:
            return 0
        lengths = (("context", self.sizes.seq_len, "tokens"), ("source", self.sizes.source_len or 0, "positions"))
        for field, length, of in lengths:
            if self.position_rows < length:
                raise InputError(
                    f"model.position has {self.position_rows:,} rows for a {field} of {length:,} {of}\n"
                    f"  = give it at least as many rows as model.{field}"
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


# Layers that share parameters: which layer's parameters each layer uses, and which layers may share.
#
#     {cycle: 2}    layer l uses those of layer ((l - 1) mod 2) + 1:  A B A B     (Universal Transformer: {cycle: 1})
#     {repeat: 3}   layer l uses those of layer 3⌊(l - 1)/3⌋ + 1:     A A A B B B
#
#     Dehghani et al. 2018, arXiv:1807.03819; Lan et al. 2019, arXiv:1909.11942 (ALBERT: groups of layers)
#
# Each layer still has modules of its own, under its own addresses; only their parameters are those of the other
# layer. So layers that share must be the same block. They may differ in fixed numbers that act beside the weights,
# such as the gain of a residual, and not in what a weight is, what it starts at, or how fast it learns.

EQUAL_SLOTS = frozenset({"weight", "init"})
"""The slots whose components must be equal in layers that share, numbers included."""
SHARE_OTHERS = "let the layers that share be the same block, or share other ones: model.share"


def check_sharing(architecture: Architecture, catalogue: Catalogue) -> None:
    """Raise InputError if the layers that share cannot, or if no two do."""
    if architecture.share is None:
        return
    depth = architecture.sizes.n_layers
    if architecture.sources() == tuple(range(1, depth + 1)):
        raise InputError(
            f"model.share is {architecture.share}, by which no two of the model's {depth} layers share parameters\n"
            "  = remove it, or change it or the number of layers"
        )
    shapes: dict[int, Block] = {}
    for layer, source in enumerate(architecture.sources(), start=1):
        resolved = resolve(architecture.block, architecture.sizes.at(layer), catalogue)
        shapes[layer] = resolved.map(lambda node: _without_numbers(node, catalogue))
        if shapes[layer] != shapes[source]:
            raise InputError(
                f"model.share is {architecture.share}, but layer {layer} is another block than layer {source}, "
                f"whose parameters it would use\n  = {SHARE_OTHERS}"
            )


def _without_numbers(node: Node, catalogue: Catalogue) -> Node:
    """Return a node without the fixed numbers in which layers that share may differ."""
    if EQUAL_SLOTS & set(catalogue[node.name].slots):
        return node

    def shape(value: Value) -> Value:
        return map_nodes(value, lambda inner: _without_numbers(inner, catalogue)) if fixed(value) is None else 0

    return Node(node.name, tuple((name, shape(value)) for name, value in node.fields))


# Patterns over layers of which an alternative is used in no layer of a model: what is written would have no effect.


def check_patterns(block: Block, sizes: Sizes, catalogue: Catalogue) -> None:
    """Raise InputError for each pattern of which some alternative is in no layer, at the depth of these sizes.

    A pattern inside another counts in the layers of the model, and is checked over those in which it stands.
    """
    if not has_patterns(block, catalogue):
        return
    used: dict[Path, tuple[Node, dict[int, Path]]] = {}
    for layer in range(1, sizes.n_layers + 1):
        for path, node, way in paths_chosen(block, catalogue, sizes.scope(layer)):
            used.setdefault(path, (node, {}))[1][layer] = way
    unused = [
        text
        for path, (node, ways) in used.items()
        for text in _unused_alternatives(path, node, ways, block, sizes, catalogue)
    ]
    if unused:
        raise InputError(
            "\n".join(unused)
            + "\n  = choose other layers, write the alternative that is used alone, or change the number of layers"
        )


def _unused_alternatives(
    path: Path, node: Node, ways: dict[int, Path], block: Block, sizes: Sizes, catalogue: Catalogue
) -> Iterator[str]:
    spec = catalogue[node.name]
    names = dict(reversed(name_parts(block, catalogue)))
    own = [name for name, kind in spec.fields.items() if not isinstance(kind, InSlot | Several)]
    settings = "".join(f" ({name}: {print_value(node[name])})" for name in own)
    stands = "" if len(ways) == sizes.n_layers else f" in which it stands ({', '.join(map(str, ways))})"
    for way, _ in alternatives(node, spec):
        if way not in ways.values():
            field, *index = way
            alternative = f"item {int(index[0]) + 1}" if index else f"`{field}`"
            where = address_at(path, names) or "the block"
            none = f"of the model's {sizes.n_layers} layers none{stands} has"
            yield f"{where}: {none} {alternative} of {node.name}{settings}"


# Cross-attention: what reads the encoder, and the block of the encoder's own layers, which is without it.
#
# Both stacks of an encoder-decoder repeat one block. A layer of the decoder is the block whole. A layer of the
# encoder is the block without the sub-layers that read `encoder`: parts at its top, each with the norms that serve
# it, as the names of parts tell them (`address.py`): those directly before an attention that stands there itself, and
# those behind the part before the next one (the norm of a Post-LN).

OF_SOURCE = frozenset({"key", "value"})
"""The fields, of a component that reads the encoder, that are computed from it."""


def reads_encoder(block: Block) -> bool:
    return any(_reads(node) for node in walk(block))


def check_reads_encoder(architecture: Architecture) -> None:
    """Raise InputError for a block whose decoder would not read the encoder, or for no length of the source."""
    architecture.of_encoder()
    if not reads_encoder(architecture.block):
        raise InputError(
            f"model.kind is encoder_decoder, but no part of the block reads {ENCODER}\n"
            "  = add a sub-layer such as residual: [layer_norm, attention: {source: encoder}], or set kind: decoder"
        )


def of_source(block: Block, catalogue: Catalogue) -> Iterator[Path]:
    """Yield the paths of the parts with the length of the source: keys and values of a component that reads it."""
    for path, node in parts_of(block, catalogue):
        if _reads(node):
            yield from ((*path, name) for name, _ in node.fields if name in OF_SOURCE)


def encoder_block(block: Block, sizes: Sizes, catalogue: Catalogue) -> Block:
    """Return the block of an encoder's layer, that of `sizes`, without patterns.

    Raises InputError if a part that is left out computes something else too, or if nothing is left.
    """
    block = at_layer(block, catalogue, sizes.scope(sizes.layer or 1))
    if not reads_encoder(block):
        return block
    principals = [_principals(node, catalogue) for node in block]
    left_out: list[bool] = []
    for place, node in enumerate(block):
        if not principals[place]:
            left_out.append(_serves(place, principals, block, left_out, catalogue))
            continue
        left_out.append(any(_reads(inside) for inside in principals[place]))
        if others := [each.name for each in principals[place] if left_out[-1] and not _reads(each)]:
            raise InputError(
                f"the encoder's layers are the block without what reads {ENCODER}, but the {node.name} around it "
                f"contains {others[0]} too\n  = give what reads {ENCODER} a part of its own, such as a residual"
            )
    kept = tuple(node for node, without in zip(block, left_out, strict=True) if not without)
    if not any(_principals(node, catalogue) for node in kept):
        raise InputError(
            f"the encoder's layers are the block without what reads {ENCODER}, and nothing is left of it\n"
            "  = add a sub-layer that reads its input, such as residual: [layer_norm, attention]"
        )
    return Sequence(kept)


def _reads(node: Node) -> bool:
    return any(value == ValueAddress(ENCODER) for _, value in node.fields)


def _principals(node: Node, catalogue: Catalogue) -> list[Node]:
    """The principals (attention, MLPs) of a part: itself, or those inside it."""
    return [part for _, part in parts_of(Sequence((node,)), catalogue) if not catalogue[part.name].modifier]


def _serves(place: int, principals: list[list[Node]], block: Block, left_out: list[bool], catalogue: Catalogue) -> bool:
    """True if a modifier at the top serves a part that is left out."""
    following = next((other for other in range(place + 1, len(block)) if principals[other]), None)
    before = next((other for other in range(place - 1, -1, -1) if principals[other]), None)
    alone = following is not None and not catalogue[block.parts[following].name].modifier
    if following is not None and (alone or before is None):
        return any(_reads(inside) for inside in principals[following])
    return before is not None and left_out[before]


# What a model that gives one answer for each input needs: of images (`vit`), or of features (`mlp`).
#
#     vit    images [C, H, W] in patches of p x p: (H / p) (W / p) tokens, and one more where a class token is read
#     mlp    features of any shape, flattened: one token

VIT: Final = "vit"
MLP: Final = "mlp"
CLASSIFIERS: Final = (VIT, MLP)
CLASS_TOKEN: Final = "class_token"
ON_A_GRID: Final = ("sine_cosine_2d", "sine_cosine_2d_as_released")
OF_IMAGES: Final = {"patch": "the side of patches of images", "pooling": "what is read of the tokens of an image"}
OF_TOKENS: Final = ValueAddress(TOKENS)
BLOCK: Final = "block"
MIXING: Final = frozenset({"position", "bias", "mask"})


@dataclass(frozen=True, slots=True)
class ModelFault:
    """A reason why a model cannot be built: a field of `model` (BLOCK: the block), the message, and a way out."""

    field: str
    message: str
    way_out: str


def side_of(architecture: Architecture) -> int:
    assert architecture.patch is not None
    return architecture.patch


def grid(architecture: Architecture) -> tuple[int, int]:
    """Return the numbers of patches above, and beside, each other."""
    _, height, width = architecture.input_shape
    return height // side_of(architecture), width // side_of(architecture)


def features(architecture: Architecture) -> int:
    """Return how many numbers one patch has, or one whole input that is not cut."""
    if architecture.kind == VIT:
        return architecture.input_shape[0] * side_of(architecture) ** 2
    return prod(architecture.input_shape)


def embedded(architecture: Architecture) -> int:
    """Return how many tokens are made of an input: its patches, or one."""
    return prod(grid(architecture)) if architecture.kind == VIT else 1


def n_tokens(architecture: Architecture) -> int:
    return embedded(architecture) + (architecture.pooling == CLASS_TOKEN)


def check_kind(architecture: Architecture, catalogue: Catalogue) -> None:
    for fault in faults(architecture, catalogue):
        raise InputError(f"{fault.message}\n  = {fault.way_out}")


def faults(architecture: Architecture, catalogue: Catalogue) -> Iterator[ModelFault]:
    """Yield the faults of a model in the fields that came with models of images and of features."""
    kind = architecture.kind
    if kind != VIT:
        for field, what in OF_IMAGES.items():
            if getattr(architecture, field) is not None:
                message = f"model.{field} is {what}, but a model of kind {kind} reads none"
                yield ModelFault(field, message, f"leave it out, or set model.kind: {VIT}")
        if architecture.positions in ON_A_GRID:
            message = f"model.position is {architecture.positions}, but only patches of images have a row and column"
            yield ModelFault("position", message, f"set it to sinusoidal, or model.kind: {VIT}")
    if kind not in CLASSIFIERS:
        if architecture.head_layer:
            message = f"model.head is mlp, but a model of kind {kind} has a matrix alone"
            yield ModelFault("head", message, "set it to untied or tied")
        if architecture.head_init is not None and architecture.tied:
            message = "model.head_init is given, but the head is tied: its matrix is the embedding's"
            yield ModelFault("head_init", message, "leave it out, or set model.head: untied")
        return
    if architecture.tied:
        message = f"model.head is tied, but a model of kind {kind} has no table of tokens"
        yield ModelFault("head", message, "set it to untied, or to mlp")
    if architecture.ahead:
        message = f"model.ahead is {architecture.ahead}, but a model of kind {kind} predicts no tokens"
        yield ModelFault("ahead", message, "leave it out, or set it to 0")
    readers = (node.name for node in walk(architecture.block) if any(value == OF_TOKENS for _, value in node.fields))
    if (reader := next(readers, None)) is not None:
        message = f"{reader} reads the numbers of tokens, but a model of kind {kind} has none"
        yield ModelFault(BLOCK, message, "leave it out, or read a signal, such as embedding")
    yield from _of_images(architecture) if kind == VIT else _of_features(architecture, catalogue)


def _of_images(architecture: Architecture) -> Iterator[ModelFault]:
    shape, patch, sizes = architecture.input_shape, architecture.patch, architecture.sizes
    if sizes.causal:
        message = f"model.causal is true, but a model of kind {VIT} sees a whole image: its patches have no past"
        yield ModelFault("causal", message, "set it to false")
    if architecture.pooling is None:
        message = f"model.kind is {VIT}, but model.pooling is not given"
        yield ModelFault("kind", message, f"say what the head is given: pooling: {CLASS_TOKEN}, or pooling: mean")
    if architecture.positions in ON_A_GRID and sizes.d_model % 4:
        message = f"model.position is {architecture.positions}, but the width {sizes.d_model} is no multiple of 4"
        way_out = "give a width that is: a quarter each for sine and cosine of row and column"
        yield ModelFault("position", message, way_out)
    if patch is None:
        message = f"model.kind is {VIT}, but model.patch is not given"
        yield ModelFault("kind", message, "give the side of the patches that images are cut into: patch: 16")
    if len(shape) != 3:
        given = " x ".join(map(str, shape)) if shape else "text"
        message = f"model.kind is {VIT}, which reads images of channels x height x width, but the data are {given}"
        yield ModelFault("kind", message, "give it images (data.corpus), or choose another kind of model")
        return
    if patch is None:
        return
    _, height, width = shape
    if height % patch or width % patch:
        side = gcd(height, width)
        fitting = [str(each) for each in range(1, side + 1) if side % each == 0]
        message = f"model.patch is {patch}, which does not divide images of {height} x {width}"
        yield ModelFault("patch", message, f"give one that divides height and width: {', '.join(fitting)}")
    elif architecture.pooling is not None and sizes.seq_len != n_tokens(architecture):
        rows, columns = grid(architecture)
        token = " and a class token" if architecture.pooling == CLASS_TOKEN else ""
        message = f"model.context is {sizes.seq_len}, but an image is {rows} x {columns} patches{token}"
        yield ModelFault("context", message, f"set it to {n_tokens(architecture)}, the number of tokens")


def _of_features(architecture: Architecture, catalogue: Catalogue) -> Iterator[ModelFault]:
    if not architecture.input_shape:
        message = f"model.kind is {MLP}, which reads features of a fixed number, but the data are text"
        yield ModelFault("kind", message, "give it images (data.corpus), or choose another kind of model")
    if architecture.sizes.seq_len != 1:
        message = f"model.context is {architecture.sizes.seq_len}, but a model of kind {MLP} has one token"
        yield ModelFault("context", message, "set it to 1")
    if architecture.positions != "none":
        message = f"model.position is {architecture.positions}, but a model of kind {MLP} has one token"
        yield ModelFault("position", message, "set it to none")
    mixing = next((node.name for node in walk(architecture.block) if mixes(catalogue[node.name])), None)
    if mixing is not None:
        message = f"{mixing} mixes the tokens of a sequence, but a model of kind {MLP} has one token"
        yield ModelFault(BLOCK, message, "leave it out: residual: [layer_norm, mlp]; or choose another kind of model")


def mixes(spec: ComponentSpec) -> bool:
    return any(isinstance(kind, Part) and kind.slot in MIXING for kind in spec.fields.values())
